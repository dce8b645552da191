#!/usr/bin/env bash
# A sweep whose workers, and which itself, are killed without warning: nothing is lost, nothing done twice.
# Usage: sweep.sh BRIDLE
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'pkill -9 -f "sweep run $work" 2>/dev/null || true; rm -rf "$work"' EXIT
export BRIDLE_DATA=$work/data
cd "$work"

"$here/e2e/words.py" 2000 >text
"$bridle" data import words --text text >/dev/null 2>&1
cat >recipe.toml <<'P'
[data]
name = "words"
sequence_length = 16
batch_size = 4
[model]
hidden_size = 32
num_hidden_layers = 1
num_attention_heads = 2
[constraint]
method = "soft_cap"
[training]
steps = 300
evaluate_every = 1000
checkpoint_every = 20
P
cat >"$work/sweep.toml" <<'P'
recipe = "recipe.toml"
folder = "work"
[grid]
"training.seed" = [0, 1, 2, 3, 4, 5]
P

expect 0 "6 runs: 0 done" "$bridle" sweep status "$work/sweep.toml"
[ ! -e work ] || fail "looking at a sweep makes its folder"

# The sweep dies with kill -9 while its workers are at it; a worker of the next one does.
"$bridle" sweep run "$work/sweep.toml" --workers 2 --threads 1 >first.log 2>&1 &
sweep=$!
for _ in $(seq 100); do [ -d work/runs ] && break; sleep 0.1; done
sleep 1
kill -9 "$sweep"
wait "$sweep" 2>/dev/null || true
for _ in $(seq 100); do pgrep -f "sweep run $work/sweep.toml --worker-of" >/dev/null || break; sleep 0.1; done
pgrep -f "sweep run $work/sweep.toml --worker-of" >/dev/null && fail "workers outlive their sweep"
# A signal ends the sweep with its own exit code: runs are left.
"$bridle" sweep run "$work/sweep.toml" --workers 1 --threads 1 >signal.log 2>&1 &
sweep=$!
for _ in $(seq 100); do pgrep -f "sweep run $work/sweep.toml --worker-of" >/dev/null && break; sleep 0.1; done
kill -TERM "$sweep"
code=0; wait "$sweep" || code=$?
[ "$code" = 143 ] || fail "exit code $code for a sweep that SIGTERM ended: $(cat signal.log)"
"$bridle" sweep run "$work/sweep.toml" --workers 2 --threads 1 >second.log 2>&1 &
sweep=$!
for _ in $(seq 200); do pgrep -f "sweep run $work/sweep.toml --worker-of" >/dev/null && break; sleep 0.1; done
pkill -9 -o -f "sweep run $work/sweep.toml --worker-of" || fail "there was no worker to kill"
wait "$sweep" || fail "the sweep did not end well: $(cat second.log)"

[ "$(grep -c ',done,' sweep.csv)" = 6 ] || fail "not six results: $(cat sweep.csv)"
python3 - <<'P' || fail "a run was finished twice"
import sqlite3
raise SystemExit(sqlite3.connect("work/sweep.db").execute("SELECT sum(finishes) FROM runs").fetchone()[0] != 6)
P
"$bridle" sweep status sweep.toml | grep -q '6 runs: 6 done, 0 diverged, 0 failed' || fail "status does not say so"
"$bridle" sweep export sweep.toml --json all.json && grep -q '"schema": 1' all.json || fail "no JSON"

# A run gives the same as by itself.
"$bridle" train recipe.toml --set training.seed=3 --out alone --json >alone.json 2>/dev/null
python3 - <<'P' || fail "a run of the sweep differs from one by itself"
import csv, json
row = next(r for r in csv.DictReader(open("sweep.csv")) if r["training.seed"] == "3")
raise SystemExit(abs(float(row["loss"]) - json.load(open("alone.json"))["validation_loss"]) > 1e-4)
P

# Nothing left: the same command ends at once and changes nothing.
cp sweep.csv before.csv
"$bridle" sweep run "$work/sweep.toml" >/dev/null 2>&1
cmp sweep.csv before.csv || fail "a finished sweep changed its results"
# Two jobs that share a sweep and see nothing of each other.
cat >shared.toml <<'P'
recipe = "recipe.toml"
folder = "shared"
[set]
"training.steps" = 10
[grid]
"training.seed" = [0, 1, 2]
P
for shard in 1 2; do "$bridle" sweep run shared.toml --shard $shard/2 --workers 1 --threads 1 >/dev/null 2>&1; done
[ "$(grep -c ',done,' shared.shard_1_of_2.csv) $(grep -c ',done,' shared.shard_2_of_2.csv)" = "2 1" ] || fail "shards: $(cat shared.shard_*.csv)"
[ "$("$bridle" sweep export shared.toml | grep -c ',done,')" = 3 ] || fail "shards: $("$bridle" sweep export shared.toml)"
expect 2 "must be i/n" "$bridle" sweep run shared.toml --shard 2
expect 1 "from 1 to n" "$bridle" sweep run shared.toml --shard 3/2

got=0
"$bridle" sweep status 2>/dev/null || got=$?
[ "$got" = 2 ] || fail "exit code $got for a missing file name"
