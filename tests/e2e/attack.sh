#!/usr/bin/env bash
# Attacks from the command line, on a short CIFAR-10 run. Usage: attack.sh BRIDLE DATA
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BRIDLE_DATA=$2 OMP_NUM_THREADS=1
cd "$work"

recipe=$here/../../recipes/cifar_mlp_robust_soft_cap.toml
"$bridle" train "$recipe" --set training.steps=40 --out run >/dev/null 2>&1
few=(--images 60 --steps 5 --restarts 2 --queries 10)
expect 0 "under attack" "$bridle" attack run --eps 0.1,0.5,2 "${few[@]}"
[ -s run/attack.json ] && [ -s run/attack.png ] || fail "attack.json or attack.png is missing"
"$bridle" attack run --eps 0.1,0.5,2 "${few[@]}" --json --out again >printed.json 2>/dev/null
cmp run/attack.json again/attack.json && cmp run/attack.json printed.json || fail "the same attack gives something else"
python3 - <<'P'
import json
facts = json.load(open("run/attack.json"))
assert facts["images"] == 60 and [p["epsilon"] for p in facts["points"]] == [0.1, 0.5, 2]
last = facts["accuracy"]
for point in facts["points"]:
    assert point["certified_accuracy"] <= point["accuracy"] <= min(point["accuracy_by_gradient"], point["accuracy_by_search"]) <= last
    last = point["accuracy"]
assert last < facts["accuracy"], "no image has fallen"
assert facts["points"][0]["certified_accuracy"] > 0, "nothing is certified"
P

expect 0 "Lipschitz bound" "$bridle" train "$recipe" --set training.steps=20 --set data.standardize=true --out standardised
expect 0 "under attack" "$bridle" attack standardised --eps 0.5 "${few[@]}" --any-pixels

# A sweep says what is certified of every run.
printf 'recipe = "%s"\nfolder = "sweep"\n[set]\n"training.steps" = 40\n' "$recipe" >sweep.toml
expect 0 "1 done" "$bridle" sweep run sweep.toml --workers 1
"$bridle" certify run --search 0 --predictions --epsilon 0.1411764705882353 --json >certified.json 2>/dev/null
python3 - <<'P'
import csv, json
row, = csv.DictReader(open("sweep.csv"))
shares = {share["function"]: share["certified_accuracy"] for share in json.load(open("certified.json"))["predictions"]["shares"]}
share = shares["float32"]
assert shares["exact"] >= share >= shares["bfloat16"], shares
assert abs(float(row["certified_accuracy"]) - share) < 1e-5 and share > 0, (row, share)
P

expect 1 "epsilon must be positive and above the one before it, got 0.2" "$bridle" attack run --eps 0.5,0.2
expect 1 "images must be at least 1, got 0" "$bridle" attack run --images 0
touch file
expect 1 "file" "$bridle" attack run --eps 0.5 "${few[@]}" --out file
expect 1 "is not a folder" "$bridle" attack nowhere
expect 2 "--no-such" "$bridle" attack run --no-such
head -c 1000 run/model.safetensors >short && mv short run/model.safetensors
expect 1 "model.safetensors" "$bridle" attack run --eps 0.5 "${few[@]}"
echo "attack: all as expected"
