"""The wheel is whole, and what is in it works where it is unpacked."""
import base64
import csv
import hashlib
import io
import shutil
import subprocess
import zipfile

from support import *


class Wheel(Test):
    def test_it_is_built_and_works_without_the_tree(self):
        tree = self.folder / "tree"  # not the real one's build folder, which other tests may be using
        (tree / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/package", tree / "scripts")
        shutil.copytree(ROOT / "python", tree / "python", ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run([tree / "scripts/package", "--wheel"], check=True, capture_output=True)
        [path] = (tree / "build/package").glob("*.whl")
        self.assertEqual(path.name, f"bridle-{bridle.__version__}-py3-none-any.whl")
        with zipfile.ZipFile(path) as wheel:
            names = set(wheel.namelist())
            wheel.extractall(self.folder / "site")
            info = f"bridle-{bridle.__version__}.dist-info"
            record = list(csv.reader(io.StringIO(wheel.read(f"{info}/RECORD").decode())))
            self.assertEqual({name for name, _, _ in record}, names)
            for name, stated, size in record:
                if stated:
                    digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
                    self.assertEqual((stated, int(size)), (f"sha256={digest}", len(wheel.read(name))), name)
            self.assertIn("Requires-Dist: torch", wheel.read(f"{info}/METADATA").decode())
        own = {f"bridle/{p.name}" for p in (ROOT / "python/bridle").iterdir() if p.is_file()}
        self.assertEqual({name for name in names if name.startswith("bridle/")}, own)
        done = run_python(
            "import bridle, torch; print(bridle.__file__, bridle.spectral_norm_bound(torch.eye(3)))",
            PYTHONPATH=str(self.folder / "site"),
            BRIDLE_LIBRARY=str(bridle.LIBRARY),
        )
        self.assertTrue(done.stdout.startswith(str(self.folder / "site/bridle")), done.stderr)


if __name__ == "__main__":
    main()
