#!/usr/bin/env python3
"""What bridle.Constraint costs of a training step in PyTorch: python_constraint.py [--steps N] [--json FILE]

A Llama-style block and a perceptron in plain PyTorch, float32, as in examples/. A step is forward, loss, backward and
the optimizer; the constraint (enforce, prove, repair) is timed within the same steps. The figure is the median share
over the steps; `cpu` is the same in processor time, which other work on the machine does not change. Needs Debian's
python3-torch and a built library: PYTHONPATH=python benchmarks/python_constraint.py.
"""
import argparse
import importlib.util
import json
import pathlib
import re
import statistics
import subprocess
import time

import torch

import bridle

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


class Timed(bridle.Constraint):
    """Adds up what its work takes, in wall and processor time."""

    wall = cpu = 0.0

    def _after_step(self, optimizer):
        wall, cpu = time.perf_counter(), time.process_time()
        super()._after_step(optimizer)
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu


def llama(width, heads, inner, length):
    """The model of examples/llama_block.py at another size, two blocks."""
    spec = importlib.util.spec_from_file_location("llama_block", EXAMPLES / "llama_block.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.WIDTH, module.HEADS, module.GROUPS, module.INNER, module.LENGTH = width, heads, heads // 2, inner, length
    module.SIZE, module.VOCABULARY = width // heads, 256
    return module.Transformer()


def perceptron(width):
    layers = [torch.nn.Linear(width, width), torch.nn.ReLU()] * 1
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))


CASES = {
    "llama, 512 wide, 8,192 tokens": lambda: (llama(512, 8, 1408, 256), lambda: torch.randint(256, (32, 257))),
    "llama, 256 wide, 4,096 tokens": lambda: (llama(256, 4, 704, 128), lambda: torch.randint(256, (32, 129))),
    "perceptron, 512 wide, 4,096 rows": lambda: (perceptron(512), None),
}


def loss_of(model, batch):
    if batch is None:
        return torch.nn.functional.cross_entropy(model(torch.randn(4096, 512)), torch.randint(10, (4096,)))
    tokens = batch()
    return torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def measure(case, method, steps):
    torch.manual_seed(0)
    model, batch = CASES[case]()
    matrices = [(n, p) for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
    if method == "soft_cap":
        optimizer = bridle.Muon([p for _, p in matrices], lr=0.02, adjust_lr_fn="spectral_unclamped")
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    constraint = Timed(matrices, method, max_norm=1.0).attach(optimizer)
    shares = {"wall": [], "cpu": []}
    steps_wall = []
    for step in range(steps + 1):
        constraint.wall = constraint.cpu = 0.0
        wall, cpu = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if step > 0:  # the first one warms up
            shares["wall"].append(constraint.wall / wall)
            shares["cpu"].append(constraint.cpu / cpu)
            steps_wall.append(wall)
    return {
        "case": case,
        "method": method,
        "optimizer": type(optimizer).__name__,
        "threads": torch.get_num_threads(),
        "step_s": statistics.median(steps_wall),
        **{key: statistics.median(own) for key, own in shares.items()},
        "repairs": constraint.report().repairs,
    }


def commit():
    words = ["git", "-C", str(EXAMPLES), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def cpu_name():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else "unknown"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    results = []
    print(f"{'case':<34} {'method':<10} {'optimizer':<9} {'step':>9} {'constraint':>11} {'cpu':>7} {'repairs':>8}")
    for case in CASES:
        for method in ("normalize", "soft_cap"):
            own = measure(case, method, options.steps)
            results.append(own)
            print(
                f"{case:<34} {method:<10} {own['optimizer']:<9} {own['step_s']:>7.3f} s {100 * own['wall']:>9.1f} % "
                f"{100 * own['cpu']:>5.1f} % {own['repairs']:>8}",
                flush=True,
            )
    if options.json:
        facts = {
            "torch": torch.__version__,
            "bridle": bridle.__version__,
            "commit": commit(),
            "cpu": cpu_name(),
            "seed": 0,
        }
        options.json.write_text(json.dumps({**facts, "steps": options.steps, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
