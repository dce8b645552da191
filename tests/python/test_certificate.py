"""Certificates from Python are those of the command line."""
import shutil

from support import *


class Certificates(Test):
    def test_certify_gives_what_the_command_line_prints(self):
        for name in ("transformer", "mlp_maxmin", "transformer_quadrature"):
            folder = self.folder / name
            shutil.copytree(BASES / name, folder)
            printed = json.loads(run("certify", folder, "--json", "--search", "2", "--radius", "0.25"))
            self.assertEqual(bridle.certify(folder, radius=0.25, search=2), printed)

    def test_nothing_is_written_unless_a_file_is_named(self):
        folder = self.folder / "model"
        bridle.load(BASES / "transformer").save(folder)
        bridle.certify(folder, search=0)
        self.assertEqual(sorted(p.name for p in folder.iterdir()), ["config.json", "model.safetensors"])
        facts = bridle.certify(folder, search=0, out=folder / "certificate.json")
        self.assertEqual(json.loads((folder / "certificate.json").read_text()), facts)
        self.assertTrue(bridle.check(folder / "certificate.json")["valid"])
        shutil.move(folder / "certificate.json", self.folder / "elsewhere.json")
        self.assertEqual(bridle.check(self.folder / "elsewhere.json", folder)["remarks"], [])
        checker = run_python(
            f"import sys; sys.argv = ['check', '{self.folder / 'elsewhere.json'}', '--model', '{folder}']; "
            f"sys.path.insert(0, '{ROOT / 'scripts'}'); import runpy; "
            f"runpy.run_path('{ROOT / 'scripts/check_certificate.py'}', run_name='__main__')"
        )
        self.assertEqual(checker.returncode, 0, checker.stderr)

    def test_a_certificate_of_other_weights_does_not_hold(self):
        folder = self.folder / "model"
        model = bridle.load(BASES / "transformer")
        model.save(folder)
        bridle.certify(folder, search=0, out=folder / "certificate.json")
        with torch.no_grad():
            next(model.parameters()).mul_(1.001)
        model.save(folder, overwrite=True)
        with self.raises(bridle.PromiseError, "[check]", "SHA-256"):
            bridle.check(folder / "certificate.json")

    def test_where_there_is_no_bound_none_is_given(self):
        folder = self.folder / "model"
        model = bridle.load(BASES / "transformer")
        with torch.no_grad():
            model.get_parameter("lm_head.weight")[0, 0] = float("nan")
        model.save(folder)
        with self.raises(bridle.PromiseError, "lm_head.weight holds NaN"):
            bridle.certify(folder)
        with self.raises(bridle.PromiseError, "bounds are for weights in float32"):
            bridle.load(BASES / "transformer").double().save(self.folder / "wide")
            bridle.certify(self.folder / "wide")

    def test_what_makes_no_sense_is_refused(self):
        with self.raises(bridle.InputError, "is not a folder"):
            bridle.certify(self.folder / "none")
        with self.raises(bridle.InputError, "the radius must be 0 or more"):
            bridle.certify(BASES / "transformer", radius=-1.0)
        with self.raises(bridle.InputError, "search must be 0 or more"):
            bridle.certify(BASES / "transformer", search=-1)
        with self.raises(bridle.InputError, "certificate.json"):
            bridle.check(self.folder / "certificate.json")


if __name__ == "__main__":
    main()
