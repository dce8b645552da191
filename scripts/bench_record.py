#!/usr/bin/env python3
"""Records a benchmark's JSON file: OUT.json with what matters of it, and the table in Markdown on standard output, one row a
method, one column a size, each cell the ratio to the bare work and the method's own time."""
import collections
import json
import subprocess
import sys

EXTRA = ("items_per_second", "times_needed", "anonymous_MB")  # counters that some benchmarks have besides

if len(sys.argv) != 3:
    sys.exit("usage: bench_record.py RESULT.json OUT.json")
source = json.load(open(sys.argv[1]))
commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
processor = next(line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
results, rows, sizes = [], collections.defaultdict(dict), []
for run in source["benchmarks"]:
    method, size, kind = run["name"].split("/")[:3]
    results.append({"name": f"{method}/{size}/{kind}", "ratio": round(run["ratio"], 3),
                    "op_us": round(run["op_us"], 1), "bare_us": round(run["bare_us"], 1),
                    **{key: float(f"{run[key]:.4g}") for key in EXTRA if key in run}})
    rows[method, kind][size] = f'{run["ratio"]:.2f} ({run["op_us"] / 1000:.3g} ms)'
    sizes += [size] if size not in sizes else []
facts = {"schema": 1, "date": source["context"]["date"], "commit": commit, "processor": processor,
         "threads": source["context"]["num_cpus"], "results": results}
with open(sys.argv[2], "w") as out:
    json.dump(facts, out, indent=1)
    out.write("\n")
print("| | " + " | ".join(sizes) + " |")
print("|---" * (len(sizes) + 1) + "|")
for (method, kind), cells in sorted(rows.items(), key=lambda row: (row[0][1], row[0][0])):
    print(f"| `{method}` {kind} | " + " | ".join(cells.get(size, "") for size in sizes) + " |")
