#!/usr/bin/env python3
"""The pictures of docs/results/cifar.md, and its table of the frontier, from the committed tables. Usage: experiments/cifar/plots.py [FOLDER]"""
import csv
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from chart import COLOURS, Chart  # noqa: E402

BINS = 3  # a decade of the bound
METHODS = ["weight_decay", "spectral_weight_decay", "normalize", "stiefel", "hammer", "soft_cap", "hard_cap"]


def rows(name):
    path = HERE / name
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["status"] == "done" and row["log10_bound"]]


def name_of(pair):
    optimizer, method = pair.split("_", 1)
    return f"{'Muon' if optimizer == 'muon' else 'AdamW'}, {method.replace('_', ' ')}"


def frontier(folder):
    """A curve a pair of optimizer and method: the best validation loss in every bin of the Lipschitz bound. A table: the best up to it."""
    runs = {}
    for row in rows("frontier.csv"):
        runs.setdefault(row["group"].removesuffix("_small"), []).append((float(row["log10_bound"]), float(row["loss"])))
    limits = (3, 10, 30, 100, 300, 1000)
    print("| bound at most |", " | ".join(f"{limit:,}" for limit in limits), "|")
    print("|---" * (len(limits) + 1) + "|")
    pairs = [f"{optimizer}_{method}" for method in METHODS for optimizer in ("muon", "adamw") if f"{optimizer}_{method}" in runs]
    for pair in sorted(pairs, key=lambda pair: min(loss for _, loss in runs[pair])):
        best = [min((loss for bound, loss in runs[pair] if bound <= math.log10(limit)), default=None) for limit in limits]
        print(f"| {name_of(pair)} |", " | ".join("" if loss is None else f"{loss:.3f}" for loss in best), "|")
    chart = Chart("CIFAR-10, MLP, 5 epochs: the best loss at a bound", "Lipschitz bound (RMS → RMS)", "validation loss", log_x=True, legend="bottom left")
    for pair in pairs:
        best = {}
        for bound, loss in runs[pair]:
            place = math.floor(bound * BINS)
            best[place] = min(loss, best.get(place, loss))
        points = sorted((10 ** ((place + 0.5) / BINS), loss) for place, loss in best.items())
        chart.add(name_of(pair), points, dashed=pair.startswith("adamw"), colour=COLOURS[METHODS.index(pair.split("_", 1)[1])])
    chart.limit("x", -1.3, 4.2)
    chart.limit("y", 1.15, 2.35)
    chart.write(folder / "frontier.svg")


def attacks(folder):
    """Accuracy under attack, certified accuracy and the right class's probability against ε, for the robust pair."""
    for key, label, name in (("accuracy", "accuracy", "attack_accuracy.svg"), ("probability", "mean probability of the right class", "attack_probability.svg")):
        chart = Chart(f"CIFAR-10 under attack: {label}", "ε, ℓ2 over pixels in [0, 1]", label)
        found = False
        for run, title in (("soft_cap", "Muon, soft cap"), ("adamw", "AdamW, weight decay")):
            path = HERE / f"attack_{run}.json"
            if not path.exists():
                continue
            facts, found = json.loads(path.read_text()), True
            chart.add(title, [(0.0, facts[key])] + [(p["epsilon"], p[key]) for p in facts["points"]])
            if key == "accuracy":
                chart.add(f"{title}: certified", [(p["epsilon"], p["certified_accuracy"]) for p in facts["points"]], dashed=True)
        if found:
            chart.write(folder / name)


def norms(folder):
    """The hidden matrix's norm over training, in units of its target where a method has one."""
    path = HERE / "norms_methods.csv"
    if not path.exists():
        return
    with open(path, newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    chart = Chart("The hidden matrix over training", "step", "RMS → RMS norm over its target")
    for method in [name for name in table[0] if name != "step"]:
        chart.add(method.replace("_", " "), [(float(row["step"]), float(row[method])) for row in table], markers=False)
    chart.limit("y", 0.0, 7.6)
    chart.write(folder / "norms_methods.svg")


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    if rows("frontier.csv"):
        frontier(folder)
    attacks(folder)
    norms(folder)


if __name__ == "__main__":
    main()
