"""The library is found where it should be, and what does not fit is refused with words."""
import shutil

from support import *

PACKAGE = ROOT / "python/bridle"


class Library(Test):
    def test_the_variable_names_the_file_and_nothing_else_is_tried(self):
        done = run_python("import bridle", BRIDLE_LIBRARY=str(self.folder / "none.so"), PYTHONPATH=str(ROOT / "python"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ImportError: [bridle] libbridle.so was not found; BRIDLE_LIBRARY must name", done.stderr)
        self.assertIn("none.so", done.stderr)

    def copy_package(self, place):
        shutil.copytree(PACKAGE, place / "bridle", ignore=shutil.ignore_patterns("__pycache__"))
        return place

    def library_of(self, place, version=None):
        text = "import bridle; print(bridle.LIBRARY)"
        if version:
            (place / "bridle/_version.py").write_text(f'__version__ = "{version}"\n')
        return run_python(text, BRIDLE_LIBRARY=None, PYTHONPATH=str(place))

    def test_it_is_found_beside_the_package_and_in_its_prefix(self):
        beside = self.copy_package(self.folder / "beside")
        shutil.copy(bridle.LIBRARY, beside / "bridle/libbridle.so")
        done = self.library_of(beside)
        self.assertEqual(done.stdout.strip(), str(beside / "bridle/libbridle.so"), done.stderr)
        packages = self.copy_package(self.folder / "prefix/lib/python3/dist-packages")
        (self.folder / "prefix/lib/libbridle.so.0").symlink_to(bridle.LIBRARY)
        done = self.library_of(packages)
        self.assertEqual(done.stdout.strip(), str(self.folder / "prefix/lib/libbridle.so.0"), done.stderr)

    def test_a_library_of_another_version_is_refused(self):
        place = self.copy_package(self.folder / "other")
        shutil.copy(bridle.LIBRARY, place / "bridle/libbridle.so")
        done = self.library_of(place, "0.0.1")
        self.assertIn("ImportError: [bridle]", done.stderr)
        self.assertIn(f"is version {bridle.__version__} and this package is version 0.0.1", done.stderr)

    def test_a_library_of_another_libtorch_is_refused_before_it_is_loaded(self):
        content = pathlib.Path(bridle.LIBRARY).read_bytes()
        needed = next(word for word in content.split(b"\0") if word.startswith(b"libtorch_cpu.so"))
        other = needed[:-1] + (b"8" if needed[-1:] != b"8" else b"7")
        path = self.folder / "libbridle.so"
        path.write_bytes(content.replace(b"\0" + needed + b"\0", b"\0" + other + b"\0"))
        done = run_python("import bridle", BRIDLE_LIBRARY=str(path))
        self.assertIn(f"was built with {other.decode()}, but this Python's PyTorch", done.stderr)

    def test_a_file_that_is_no_library_is_refused(self):
        path = self.folder / "libbridle.so"
        path.write_text("no library")
        done = run_python("import bridle", BRIDLE_LIBRARY=str(path))
        self.assertIn("cannot be loaded", done.stderr)

    def test_the_package_says_its_types(self):
        self.assertTrue((PACKAGE / "py.typed").is_file())
        for name in bridle.__all__:
            self.assertTrue(hasattr(bridle, name), name)


if __name__ == "__main__":
    main()
