#!/usr/bin/env python3
"""The pictures of docs/results/shakespeare.md, from the committed tables. Usage: experiments/shakespeare/plots.py [FOLDER]"""
import csv
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


def frontier(folder):
    """Best loss on the whole validation split against the bound."""
    found = {}
    for row in rows("frontier.csv"):
        found.setdefault((row["group"], row.get("constraint.lipschitz", "")), []).append(row)
    if not found:
        return
    for column, name, label in (("log10_bound", "frontier_sound.svg", "sound bound"),
                                ("log10_paper_bound", "frontier_paper.svg", "the paper's formula")):
        chart = Chart(f"Tiny Shakespeare: validation loss against the {label}", f"{label}, RMS → RMS", "loss, whole split", log_x=True)
        for group in sorted({key[0] for key in found}):
            points = []
            for (own, _), runs in found.items():
                if own != group:
                    continue
                losses = [float(r["loss"]) for r in runs]
                bound = 10 ** max(float(r[column]) for r in runs)
                points.append((bound, sum(losses) / len(losses), min(losses), max(losses)))
            chart.add(group, sorted(points))
        chart.rule(1.4697, "nanoGPT, 6 × 384, no bound: 1.4697")
        chart.write(folder / name)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    soft_cap(folder)
    frontier(folder)


if __name__ == "__main__":
    main()
