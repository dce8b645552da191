#!/usr/bin/env python3
"""A run's norms over training, as a table. Usage: experiments/shakespeare/norms.py RUN [EVERY] > norms.csv"""
import csv
import json
import pathlib
import sys


def main():
    every = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    lines = (json.loads(line) for line in open(pathlib.Path(sys.argv[1]) / "metrics.jsonl", encoding="utf-8"))
    lines = [line for line in lines if "norms" in line and line["step"] % every == 0]
    names = list(lines[0]["norms"])
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["step", *names])
    for line in lines:
        out.writerow([line["step"], *(f"{line['norms'][name]:.4g}" for name in names)])


if __name__ == "__main__":
    main()
