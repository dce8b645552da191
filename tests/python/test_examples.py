"""The Python examples run, and so does every block of docs/how-to/python.md, in its order."""
import contextlib
import re
import subprocess
import sys

from support import *


def output_of(name, *words):
    done = subprocess.run([sys.executable, ROOT / "examples" / name, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Examples(Test):
    def test_a_perceptron_has_the_bound_that_its_caps_say(self):
        lines = output_of("constrain_mlp.py", "100").splitlines()
        for line in lines[:3]:
            cap, bound = (
                float(re.search(pattern, line)[1]) for pattern in (r"at most (\S+):", r"bound at most ([^,]+)")
            )
            self.assertLessEqual(bound, cap**3 * (1 + 1e-4))  # five digits are shown
            self.assertIn("300 proofs", line)
        free, tight = (float(re.search(r"accuracy ([0-9.]+)", lines[i])[1]) for i in (0, 2))
        self.assertGreater(free, tight)

    def test_a_llama_style_model_learns_below_its_caps(self):
        lines = output_of("llama_block.py", "45").splitlines()
        losses = [float(line.split()[-1]) for line in lines if line.startswith("step")]
        self.assertEqual(len(losses), 3)
        self.assertLess(losses[-1], 0.7 * losses[0])
        rows = [line.split() for line in lines if ".weight" in line]
        self.assertEqual(len(rows), 16)
        for _, heads, cap, norm, proofs, repairs in rows:
            self.assertLessEqual(float(norm), float(cap))
            self.assertEqual((int(proofs), int(repairs)), (45, 0))
        self.assertEqual([row[1] for row in rows[:4]], ["4", "2", "2", "1"])


    def test_a_gpt2_from_elsewhere_has_a_bound_and_layers_that_add_up_to_it(self):
        lines = output_of("certify_gpt2.py", PROGRAM).splitlines()
        costs = [float(line.split("10^")[1]) for line in lines if "costs a factor" in line]
        bound = next(float(line.split("10^")[1]) for line in lines if line.startswith("Lipschitz bound: "))
        self.assertEqual(len(costs), 6)
        self.assertAlmostEqual(sum(costs), bound, delta=0.1)  # two digits are shown

    def test_a_controller_has_its_certificate_and_steers_from_its_header(self):
        output = output_of("controller.py", PROGRAM, str(self.folder / "controller"))
        self.assertLessEqual(float(re.search(r"certified: ([0-9.]+)", output)[1]), 4.0)
        self.assertIn("after ten seconds the angle is", output)


class Page(Test):
    def test_every_block_of_the_page_runs(self):
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/python.md").read_text(), flags=re.S)
        self.assertGreaterEqual(len(blocks), 4)
        self.train("runs/quickstart")
        run("certify", self.folder / "runs/quickstart", "--search", "1")
        before, names, printed = os.getcwd(), {}, []
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        with open(self.folder / "out", "w") as out, contextlib.redirect_stdout(out):
            for block in blocks:
                exec(compile(block, "docs/how-to/python.md", "exec"), names)
        printed = (self.folder / "out").read_text()
        self.assertIn("0.weight", printed)
        self.assertTrue((self.folder / "mine/model.safetensors").is_file())


if __name__ == "__main__":
    main()
