#!/usr/bin/env python3
"""Prints a spectral_bench JSON file as Markdown: one row a method, one column a size, the ratio to the bare products."""
import collections
import json
import sys

if len(sys.argv) != 2:
    sys.exit("usage: bench_table.py RESULT.json")
rows = collections.defaultdict(dict)
sizes = []
for run in json.load(open(sys.argv[1]))["benchmarks"]:
    method, size, kind = run["name"].split("/")[:3]
    if size not in sizes:
        sizes.append(size)
    rows[method, kind][size] = f'{run["ratio"]:.2f} ({run["op_us"] / 1000:.3g} ms)'
print("| | " + " | ".join(sizes) + " |")
print("|---" * (len(sizes) + 1) + "|")
for (method, kind), cells in sorted(rows.items(), key=lambda row: (row[0][1], row[0][0])):
    print(f"| `{method}` {kind} | " + " | ".join(cells.get(size, "") for size in sizes) + " |")
