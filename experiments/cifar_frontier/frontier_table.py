#!/usr/bin/env python3
"""The table of docs/results/cifar.md: the best loss of every pair of optimizer and method up to a bound. Usage:
experiments/cifar_frontier/frontier_table.py"""
import csv
import math
import pathlib

LIMITS = (3, 10, 30, 100, 300, 1000)


def name_of(pair):
    optimizer, method = pair.split("_", 1)
    return f"{'Muon' if optimizer == 'muon' else 'AdamW'}, {method.replace('_', ' ')}"


def main():
    runs = {}
    with open(pathlib.Path(__file__).resolve().parent / "frontier.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["status"] == "done" and row["log10_bound"]:
                runs.setdefault(row["group"].removesuffix("_small"), []).append((float(row["log10_bound"]), float(row["loss"])))
    print("| bound at most |", " | ".join(f"{limit:,}" for limit in LIMITS), "|")
    print("|---" * (len(LIMITS) + 1) + "|")
    for pair, own in sorted(runs.items(), key=lambda item: min(loss for _, loss in item[1])):
        best = [min((loss for bound, loss in own if bound <= math.log10(limit)), default=None) for limit in LIMITS]
        print(f"| {name_of(pair)} |", " | ".join("" if loss is None else f"{loss:.3f}" for loss in best), "|")


if __name__ == "__main__":
    main()
