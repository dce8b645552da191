#!/usr/bin/env python3
"""The hidden matrix's norm over training in units of its target, one column per method (seed 0), as a table; and on standard error the
largest such ratio of any matrix at any logged step of any seed. A decay's target is where it balances an update: 1/λ for weight decay,
which the learning rate multiplies too, and η/λ for spectral weight decay, which it does not.
Usage: experiments/cifar_methods/norms.py RUNS > norms_methods.csv"""
import csv
import json
import pathlib
import sys
import tomllib

HIDDEN = "model.layers.1.weight"


def target_of(recipe):
    method = recipe["constraint"]["method"]
    if method == "weight_decay":
        return 1 / recipe["optimizer"]["weight_decay"]
    if method == "spectral_weight_decay":
        return recipe["optimizer"]["lr"] / recipe["constraint"]["spectral_decay"]
    return recipe["constraint"]["sigma_max"]


def main():
    columns, largest, steps = {}, {}, {}
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        recipe = tomllib.loads((folder / "config.toml").read_text())
        method = recipe["constraint"]["method"]
        if recipe["training"]["precision"] == "float32" or (method == "soft_cap" and recipe["optimizer"]["lr"] == 1.0):
            continue  # not of the seven
        target = target_of(recipe)
        lines = [json.loads(line) for line in open(folder / "metrics.jsonl", encoding="utf-8")]
        lines = {line["step"]: line["norms"] for line in lines if "norms" in line}
        ratio = max(norm for norms in lines.values() for norm in norms.values()) / target
        largest[method] = max(largest.get(method, 0.0), ratio)
        steps[method] = steps.get(method, 0) + len(lines)
        if recipe["training"].get("seed", 0) == 0:
            columns[method] = {step: norms[HIDDEN] / target for step, norms in lines.items()}
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["step", *columns])
    for step in sorted(set.intersection(*(set(column) for column in columns.values()))):
        out.writerow([step, *(f"{column[step]:.6g}" for column in columns.values())])
    for method, ratio in largest.items():
        print(f"{method}: at most {ratio:.6f} of the target in {steps[method]} logged steps", file=sys.stderr)


if __name__ == "__main__":
    main()
