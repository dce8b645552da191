#!/usr/bin/env python3
"""Collects finished runs into one result.json: collect.py OUT.json RUN... Each entry holds command, commit, seed, processor, threads,
the last validation loss and accuracy, the bound and the time; then the spread over the runs."""
import json
import pathlib
import statistics
import sys

if len(sys.argv) < 3:
    sys.exit("usage: collect.py OUT.json RUN...")
runs = []
for folder in map(pathlib.Path, sys.argv[2:]):
    info = json.loads((folder / "run.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = next(line for line in reversed(lines) if "validation_loss" in line)
    step = next(line for line in reversed(lines) if "loss" in line)
    runs.append({"command": info["command"], "status": info["status"], "commit": info["commit"], "seed": info["seed"],
                 "processor": info["processor"], "threads": info["threads"], "step": last["step"],
                 "validation_loss": last["validation_loss"], "validation_accuracy": last["validation_accuracy"],
                 "lipschitz": last["lipschitz"], "log10_lipschitz": last["log10_lipschitz"],
                 "repairs": step["repairs"], "seconds": step["seconds"]})
spread = {key: {"mean": statistics.mean(values), "least": min(values), "most": max(values)}
          for key in ("validation_loss", "validation_accuracy", "lipschitz")
          if all((values := [run[key] for run in runs])) and None not in values}
with open(sys.argv[1], "w") as out:
    json.dump({"schema": 1, "runs": runs, "spread": spread}, out, indent=1)
    out.write("\n")
print(json.dumps(spread, indent=1))
