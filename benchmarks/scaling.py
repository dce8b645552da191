#!/usr/bin/env python3
"""How a step's time and memory grow with sequence length, width, depth and batch: `bridle bench step` over each of them alone,
with the exponent of the power law that fits best. scaling.py [--bridle build/release/bridle] [--json FILE]

Times are also given over those of the machine's peak measured in the same run (1/fraction_of_peak), which fast and slow phases
of a shared machine move less."""
import argparse
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE = {"data.sequence_length": 256, "data.batch_size": 16, "model.hidden_size": 256, "model.num_hidden_layers": 3}
SWEEPS = {  # what changes; everything else as in BASE, or as said
    "sequence length, 8,192 tokens per step": [{"data.sequence_length": t, "data.batch_size": 8192 // t}
                                             for t in (128, 256, 512, 1024, 2048, 4096)],
    "sequence length, 2 sequences": [{"data.sequence_length": t, "data.batch_size": 2} for t in (512, 1024, 2048, 4096)],
    "width": [{"model.hidden_size": d, "model.num_attention_heads": d // 64} for d in (128, 256, 512, 1024)],
    "depth": [{"model.num_hidden_layers": n} for n in (1, 2, 4, 8)],
    "batch": [{"data.batch_size": b} for b in (8, 16, 32, 64, 128)],
}
SIZE = {"width": "model.hidden_size", "depth": "model.num_hidden_layers", "batch": "data.batch_size"}


def bench(bridle, settings):
    command = [bridle, "bench", "step", str(ROOT / "recipes/shakespeare_soft_cap.toml"), "--json", "--steps", "5", "--warmup", "2",
               "--set", "training.precision=bfloat16"]
    for key, value in {**BASE, **settings}.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"scaling: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    facts = json.loads(done.stdout)
    return {key: facts[key] for key in ("median_step_s", "flop_per_step", "fraction_of_peak", "tokens_per_s", "peak_memory_bytes")}


def exponent(sizes, values):
    """The slope of a straight line through the logarithms."""
    x, y = [math.log(s) for s in sizes], [math.log(v) for v in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bridle", default=str(ROOT / "build/release/bridle"))
    parser.add_argument("--json")
    flags = parser.parse_args()
    if not pathlib.Path(flags.bridle).is_file():
        sys.exit(f"scaling: there is no {flags.bridle}; build first (./test), or name it with --bridle")
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    result = {"schema": 1, "commit": commit, "base": BASE, "sweeps": {}}
    print("| | size | ms per step | tokens a second | share of peak | memory, MB |\n|---|---|---|---|---|---|")
    for name, points in SWEEPS.items():
        sizes = [point[SIZE.get(name, "data.sequence_length")] for point in points]
        rows = [bench(flags.bridle, point) for point in points]
        for size, row in zip(sizes, rows):
            print(f"| {name} | {size} | {1e3 * row['median_step_s']:.1f} | {row['tokens_per_s']:.0f} | "
                  f"{100 * row['fraction_of_peak']:.0f} % | {row['peak_memory_bytes'] / 1e6:.0f} |", flush=True)
        fits = {key: round(exponent(sizes, [row[key] for row in rows]), 2)
                for key in ("median_step_s", "flop_per_step", "peak_memory_bytes")}
        print(f"| {name} | exponent | {fits['median_step_s']} (FLOP: {fits['flop_per_step']}) | | | {fits['peak_memory_bytes']} |", flush=True)
        result["sweeps"][name] = {"sizes": sizes, "rows": rows, "exponents": fits}
    if flags.json:
        pathlib.Path(flags.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
