#!/usr/bin/env bash
# Ranks are killed and stopped at random, and the run goes on each time with another number of them: in the end it is what it would
# have been. Usage: rank_kills.sh BRIDLE [COUNT] [SEED]
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
count=${2:-3}
RANDOM=${3:-1}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
export BRIDLE_DATA=$work/data OMP_NUM_THREADS=1
cd "$work"

"$here/words.py" 3000 >text
"$bridle" data import words --text text >/dev/null 2>&1
steps=$((200 + 100 * count))
cat >recipe.toml <<P
[data]
name = "words"
sequence_length = 32
batch_size = 8
[model]
hidden_size = 32
num_hidden_layers = 1
num_attention_heads = 4
dropout = 0.1
[constraint]
lipschitz = 20.0
[training]
steps = $steps
slices = 4
log_every = 10
evaluate_every = 0
evaluate_tokens = 1024
checkpoint_every = 10
P
"$bridle" train recipe.toml --out whole >/dev/null 2>&1

last=0
for number in $(seq "$count"); do
  ranks=$((2 + RANDOM % 3))
  [ $ranks != $last ] || ranks=$((2 + (ranks - 1) % 3))
  last=$ranks
  before=$(wc -c 2>/dev/null <parts/metrics.jsonl || echo 0)
  "$bridle" train recipe.toml --out parts --resume auto --ranks $ranks --rank-timeout 3 >out 2>&1 & pid=$!
  # Somewhere in the steps that come.
  until [ "$(wc -c 2>/dev/null <parts/metrics.jsonl || echo 0)" -gt "$before" ]; do
    kill -0 $pid 2>/dev/null || fail "the run ended before kill $number: $(cat out)"
    sleep 0.02
  done
  sleep "0.$((RANDOM % 30 + 10))"
  mapfile -t processes < <(pgrep -P $pid)
  [ ${#processes[@]} = $ranks ] || fail "${#processes[@]} processes instead of $ranks before kill $number: $(cat out)"
  signal=KILL; [ $((RANDOM % 2)) = 0 ] || signal=STOP
  kill -$signal "${processes[$((RANDOM % ranks))]}"
  code=0; wait $pid || code=$?
  [ $code = 4 ] || fail "kill $number (SIG$signal, $ranks ranks): exit code $code: $(cat out)"
  grep -qE "rank [0-9] of $ranks (was lost|has not been heard)" out || fail "kill $number: $(cat out)"
done
expect 0 "validation loss" "$bridle" train recipe.toml --out parts --resume auto --ranks 4
cmp whole/model.safetensors parts/model.safetensors || fail "other weights"
cmp whole/certificate.json parts/certificate.json || fail "another certificate"
name=$(printf 'step_%08d' "$steps")
cmp "whole/state/$name/state.safetensors" "parts/state/$name/state.safetensors" || fail "other state"
facts() { sed -E 's/"(seconds|tokens_per_second)":[^,}]*//g' "$1/metrics.jsonl"; }
[ "$(facts whole)" = "$(facts parts)" ] || fail "other metrics"
echo "rank_kills: passed, $count kills and stops"
