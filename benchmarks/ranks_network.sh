#!/usr/bin/env bash
# Two ranks of one thread on two machines (network namespaces) with a limited link: the time of a step beside that of `bridle plan`,
# which is told what `bridle bench step` reaches on both at once. Needs root, two cores and nothing else to do. Prints one JSON object.
# Usage: ranks_network.sh BRIDLE [GBIT] [RECIPE WORDS...]
set -euo pipefail
. "$(dirname "$0")/../tests/e2e/two_machines.sh"
bridle=$(realpath "$1")
gbit=${2:-1}
shift $(($# < 2 ? $# : 2))
here=$(cd "$(dirname "$0")" && pwd)
why=$(no_machines)
if [ -n "$why" ]; then echo "ranks_network: SKIPPED: $why" >&2; exit 0; fi
work=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null || true; remove_machines; rm -rf "$work"' EXIT
export BRIDLE_DATA=$work/data OMP_NUM_THREADS=1
cd "$work"
make_machines
limit_link "${gbit}gbit"
"$here/../tests/e2e/words.py" 20000 >text
"$bridle" data import words --text text >/dev/null 2>&1
cat >recipe.toml <<'P'
[data]
name = "words"
sequence_length = 128
batch_size = 16
[model]
hidden_size = 512
num_hidden_layers = 2
num_attention_heads = 8
[training]
steps = 16
slices = 2
log_every = 1
evaluate_every = 0
evaluate_tokens = 1024
checkpoint_every = 0
precision = "bfloat16"
P
words=("$@")
[ ${#words[@]} -gt 0 ] || words=(recipe.toml)
for core in 0 1; do taskset -c $core "$bridle" bench step "${words[@]}" --steps 5 --json >"bench_$core.json" 2>/dev/null & done
wait
flops=$(python3 -c 'import json; print(sum(json.load(open(f"bench_{i}.json"))["achieved_flops"] for i in (0, 1)) / 2)')
"$bridle" plan "${words[@]}" --ranks 2 --flops "$flops" --gbit "$gbit" --json >plan.json
RANK=0 WORLD_SIZE=2 in_a taskset -c 0 "$bridle" train "${words[@]}" --rendezvous tcp:10.77.0.1:29400 --out run >rank_0.out 2>&1 &
RANK=1 WORLD_SIZE=2 in_b taskset -c 1 "$bridle" train "${words[@]}" --rendezvous tcp:10.77.0.1:29400 >rank_1.out 2>&1 &
wait
[ -f run/model.safetensors ] || { cat rank_0.out rank_1.out >&2; exit 1; }
python3 - "$gbit" <<'P'
import json, statistics, sys
lines = [json.loads(line) for line in open("run/metrics.jsonl")]
times = [line["seconds"] for line in lines if "loss" in line]
steps = [b - a for a, b in zip(times[3:], times[4:])]
plan = json.load(open("plan.json"))
measured = statistics.median(steps)
print(json.dumps({"gbit": float(sys.argv[1]), "flops": plan["flops"], "parameters": plan["parameters"],
                  "planned_compute_s": plan["compute_seconds_per_step"], "planned_exchange_s": plan["exchange_seconds_per_step"],
                  "planned_step_s": plan["seconds_per_step"], "measured_step_s": round(measured, 4),
                  "fastest_step_s": round(min(steps), 4), "slowest_step_s": round(max(steps), 4),
                  "measured_over_planned": round(measured / plan["seconds_per_step"], 3)}, indent=1))
P
