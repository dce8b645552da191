"""What the tests of the Python package share. They run with any Python that has PyTorch, NumPy and nothing else."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy
import torch

import bridle

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BASES = ROOT / "tests/corpus/bases"
PROGRAM = os.environ.get("BRIDLE_PROGRAM", str(ROOT / "build/release/bridle"))


def spectral_norm(weight):
    """By NumPy's decomposition in float64: shares nothing with Bridle."""
    return float(numpy.linalg.svd(weight.detach().to(torch.float64).numpy(), compute_uv=False)[0])


def rms_norm(weight, heads=1):
    """The largest RMS→RMS norm of the row blocks."""
    return max(spectral_norm(block) * (block.shape[1] / block.shape[0]) ** 0.5 for block in weight.chunk(heads))


def run(*words, code=0, **environment):
    """Runs the command line; its output."""
    done = subprocess.run(
        [PROGRAM, *map(str, words)], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_python(text, **environment):
    """Runs a program in a Python of its own; exit code, output and errors."""
    kept = {key: value for key, value in os.environ.items() if environment.get(key, value) is not None}
    kept.update({key: value for key, value in environment.items() if value is not None})
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=kept)


class Test(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def raises(self, kind, *parts):
        """`with self.raises(kind, "part of the message")`."""
        return _Raises(self, kind, parts)

    def train(self, name="run", *settings):
        """A small run of the command line, on random words; its folder."""
        environment = {"BRIDLE_DATA": str(self.folder / "data")}
        if not (self.folder / "data").exists():
            text = self.folder / "text"
            text.write_text(
                subprocess.run([ROOT / "tests/e2e/words.py", "400"], check=True, capture_output=True, text=True).stdout
            )
            run("data", "import", "words", "--text", text, **environment)
        words = [word for setting in settings for word in ("--set", setting)]
        run(
            "train",
            "quickstart",
            "--set",
            "data.name=words",
            "--set",
            "data.sequence_length=16",
            "--set",
            "data.batch_size=8",
            "--set",
            "model.hidden_size=32",
            "--set",
            "model.memory_channels=32",
            "--set",
            "model.num_hidden_layers=2",
            "--set",
            "model.num_attention_heads=2",
            *words,
            "--steps",
            "10",
            "--out",
            self.folder / name,
            **environment,
        )
        return self.folder / name


class _Raises:
    def __init__(self, test, kind, parts):
        self.test, self.kind, self.parts = test, kind, parts

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.test.fail(f"{self.kind} was not raised")
        if not issubclass(kind, self.kind):
            return False
        for part in self.parts:
            self.test.assertIn(part, str(error))
        return True


main = unittest.main
__all__ = [
    "BASES",
    "PROGRAM",
    "ROOT",
    "Test",
    "bridle",
    "json",
    "main",
    "numpy",
    "os",
    "pathlib",
    "rms_norm",
    "run",
    "run_python",
    "spectral_norm",
    "torch",
    "unittest",
]
