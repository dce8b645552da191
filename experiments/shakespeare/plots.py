#!/usr/bin/env python3
"""The pictures of docs/results/shakespeare.md, from the committed tables. Usage: experiments/shakespeare/plots.py [FOLDER]"""
import csv
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from chart import Chart  # noqa: E402


def rows(name):
    path = HERE / name
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["status"] == "done"]


def soft_cap(folder):
    """What soft cap does to a singular value, for steps that could reach so far above the cap."""
    chart = Chart("Spectral soft cap: singular values before and after", "before, in units of the cap", "after",
                  legend="bottom")
    grid = [i / 200 * 1.3 for i in range(201)]
    for reach in (1.02, 1.1, 1.2, 1.3):
        low, high = 0.0, 1.0 / 3.0  # u²(3 − 3u + u²) = 1 − 1/reach
        for _ in range(60):
            u = (low + high) / 2
            low, high = (u, high) if u * u * (3 - 3 * u + u * u) < (reach - 1) / reach else (low, u)
        alpha = high / reach**2
        points = [(x, (x - alpha * x**3) + alpha * (x - alpha * x**3) ** 3) for x in grid if x <= reach]
        chart.add(f"norm up to {reach} before, α = {alpha:.3f}", points, markers=False)
    chart.add("", [(0, 0), (1.3, 1.3)], markers=False, dashed=True, colour="#999")
    chart.rule(1.0, "the cap")
    chart.limit("y", 0, 1.3)
    chart.write(folder / "soft_cap.svg")


METHODS = {"muon_soft_cap": "Muon, soft cap", "muon_normalize": "Muon, normalise", "muon_weight_decay": "Muon, weight decay",
           "muon_none": "Muon, no constraint", "adamw_weight_decay": "AdamW, weight decay", "adamw_normalize": "AdamW, normalise",
           "adamw_hammer": "AdamW, hammer"}


def points_of(runs, column):
    """A point for every group, with the spread over its seeds."""
    groups = {}
    for row in runs:
        groups.setdefault(row["group"], []).append(row)
    points = []
    for own in groups.values():
        losses = [float(row["loss"]) for row in own]
        bound = 10 ** max(float(row[column]) for row in own)
        points.append((bound, sum(losses) / len(losses), min(losses), max(losses)))
    return sorted(points)


def frontier(folder):
    """Loss on the whole validation split against the bound, a curve a method."""
    for column, name, label in (("log10_bound", "frontier_sound.svg", "sound bound"),
                                ("log10_coded_bound", "frontier_paper.svg", "paper's formula, as coded")):
        chart = Chart(f"Tiny Shakespeare: validation loss against the {label}", f"{label} (RMS → RMS)", "loss, whole split", log_x=True)
        chart.add("budget first, sound bound", points_of(rows("frontier.csv"), column))
        chart.add("budget first, the paper's formula", points_of(rows("paper.csv"), column), line=False)
        methods = rows("methods.csv")
        for group, title in METHODS.items():
            own = [row for row in methods if row["group"] == group and float(row["loss"]) < 3]  # others have diverged
            if own:
                chart.add(title, sorted((10 ** float(row[column]), float(row["loss"])) for row in own))
        chart.rule(1.4697, "nanoGPT, 6 × 384, no bound: 1.4697")
        chart.write(folder / name)


def norms(folder):
    """The norms of a run with moving caps, multiplied along each branch."""
    path = HERE / "norms_20.csv"
    if not path.exists():
        return
    with open(path, newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    branches = {"lm_head": ["lm_head.weight"]}
    for block in range(sum(name.endswith("q_proj.weight") for name in table[0])):
        for what, names in (("q · k", ("self_attn.q_proj", "self_attn.k_proj")), ("v · o", ("self_attn.v_proj", "self_attn.o_proj")),
                            ("up · down", ("mlp.up_proj", "mlp.down_proj"))):
            branches[f"block {block}: {what}"] = [f"model.layers.{block}.{name}.weight" for name in names]
    chart = Chart("Norms over training, sound bound 20, moving caps", "step", "log10 of the product of RMS → RMS norms", legend="bottom left")
    for title, names in branches.items():
        chart.add(title, [(float(row["step"]), sum(math.log10(float(row[name])) for name in names)) for row in table], markers=False)
    chart.write(folder / "norms_20.svg")


def studies(folder):
    """How far a token's gradient may be inflated, and the blocks' mass: the paper's two small studies."""
    for group, column, label in (("inflation_limit", "optimizer.inflation_limit", "inflation limit"),
                                 ("blocks_mass", "optimizer.blocks_mass", "blocks' mass")):
        own = [row for row in rows("studies.csv") if row["group"] == group]
        if not own:
            continue
        chart = Chart(f"Loss against the {label}, 500 short steps", label, "loss, held-out text", log_x=True)
        chart.add("Muon, soft cap, σ_max 2", sorted((float(row[column]), float(row["loss"])) for row in own))
        chart.write(folder / f"{group}.svg")


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    soft_cap(folder)
    frontier(folder)
    norms(folder)
    studies(folder)


if __name__ == "__main__":
    main()
