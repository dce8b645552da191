#!/usr/bin/env bash
# Training from the command line: a run that is killed goes on bit for bit as if it had not been; signals save; errors say
# what to do. Usage: train.sh BRIDLE
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BRIDLE_DATA=$work/data OMP_NUM_THREADS=1
cd "$work"

"$here/words.py" 3000 >text
"$bridle" data import words --text text >/dev/null 2>&1
cat >recipe.toml <<'P'
[data]
name = "words"
sequence_length = 32
batch_size = 8
[model]
hidden_size = 48
num_hidden_layers = 2
num_attention_heads = 4
dropout = 0.1
[optimizer]
lr = 0.5
[constraint]
sigma_max = 2.0
heads = "kv"
[training]
steps = 200
log_every = 10
evaluate_every = 50
checkpoint_every = 30
P
"$bridle" train recipe.toml --out whole >whole.out 2>&1 || fail "$(cat whole.out)"
grep -q "Lipschitz bound" whole.out || fail "no bound in the summary: $(cat whole.out)"

# Everything but the clock.
facts() {
  python3 - "$1" <<'P'
import json, sys
for line in open(sys.argv[1] + "/metrics.jsonl"):
    entry = json.loads(line)
    for clock in ("seconds", "tokens_per_second"):
        entry.pop(clock, None)
    print(json.dumps(entry))
P
}
same() {
  cmp whole/model.safetensors "$1/model.safetensors" || fail "$1: other weights"
  cmp whole/state/step_00000200/state.safetensors "$1/state/step_00000200/state.safetensors" || fail "$1: other state"
  [ "$(facts whole)" = "$(facts "$1")" ] || fail "$1: other metrics"
  [ "$(ls -A "$1/state")" = "$(ls -A whole/state)" ] || fail "$1: state holds $(ls -A "$1/state")"
}

# Three moments to be killed at: before the first checkpoint, at step 90, and while a checkpoint is being written.
kill_when() {
  local run=$1 condition=$2
  "$bridle" train recipe.toml --out "$run" >/dev/null 2>&1 &
  local pid=$!
  until eval "$condition"; do kill -0 $pid 2>/dev/null || fail "$run ended before it could be killed"; done
  kill -9 $pid
  wait $pid 2>/dev/null || true
  [ ! -e "$run/state/step_00000200" ] || fail "$run was finished before it was killed"
}
kill_when first '[ -s first/metrics.jsonl ]'
kill_when middle '[ -e middle/state/step_00000090 ]'
for attempt in $(seq 20); do  # until the kill has really come in the middle of it
  rm -rf writing
  kill_when writing '[ -e writing/state/step_00000060 ] && [ -e writing/state/.unfinished ]'
  [ ! -e writing/state/.unfinished ] || break
done
[ -e writing/state/.unfinished ] || fail "no kill came while a checkpoint was being written"
for run in first middle writing; do
  expect 0 "validation loss" "$bridle" train recipe.toml --out "$run" --resume auto
  same "$run"
done

# Signals save, and the exit code tells a script that the run is not finished.
declare -A codes=([INT]=130 [TERM]=143)
for signal in INT TERM; do
  "$bridle" train recipe.toml --out "$signal" >"$signal.out" 2>&1 &
  pid=$!
  until [ -s "$signal/metrics.jsonl" ]; do :; done
  kill -s "$signal" $pid
  code=0; wait $pid || code=$?
  [ $code = "${codes[$signal]}" ] || fail "SIG$signal: exit code $code"
  grep -q "go on with: bridle train --resume $signal" "$signal.out" || fail "SIG$signal: $(cat "$signal.out")"
  expect 0 "validation loss" "$bridle" train --resume "$signal"
  same "$signal"
done

# A signal does not change what a run becomes that would not have saved by itself, under a method that promises nothing.
signalled=(--set constraint.method=normalize_estimate --set constraint.sigma_max=0.5 --set optimizer.lr=2 --set training.checkpoint_every=0)
cp recipe.toml signalled.toml
"$bridle" train signalled.toml "${signalled[@]}" --out r_whole >/dev/null 2>&1
"$bridle" train signalled.toml "${signalled[@]}" --out r_parts >/dev/null 2>&1 &
pid=$!
until [ -s r_parts/metrics.jsonl ]; do :; done
kill -s INT $pid; wait $pid || true
expect 0 "validation loss" "$bridle" train --resume r_parts
cmp r_whole/model.safetensors r_parts/model.safetensors || fail "a signal changed a run"

# A signal in the middle of a step of many batches does not wait for all of them, and the step is done anew.
accumulated=(--set training.accumulate=400 --set training.steps=2 --set training.log_every=1)
"$bridle" train recipe.toml "${accumulated[@]}" --out a_whole >/dev/null 2>&1
"$bridle" train recipe.toml "${accumulated[@]}" --out a_parts >/dev/null 2>&1 &
pid=$!
until [ -s a_parts/run.json ]; do :; done
sleep 0.1
kill -s TERM $pid
code=0; wait $pid || code=$?
[ $code = 143 ] || fail "a signal in the middle of a step: exit code $code"
[ -d a_parts/state/step_00000000 ] || fail "the unfinished step was not dropped: $(ls a_parts/state)"
expect 0 "validation loss" "$bridle" train --resume a_parts
cmp a_whole/model.safetensors a_parts/model.safetensors || fail "a signal in the middle of a step changed the run"

# The same command, over and over: it begins, goes on after a kill, and finds the run finished.
again=("$bridle" train recipe.toml --set training.steps=60 --set optimizer.lr=0.3 --lipschitz 50 --out again --resume auto)
"${again[@]}" >/dev/null 2>&1 &
pid=$!
until [ -e again/state/step_00000030 ]; do kill -0 $pid 2>/dev/null || fail "again ended before it could be killed"; done
kill -9 $pid; wait $pid 2>/dev/null || true
expect 0 "validation loss" "${again[@]}"
weights=$(sha256sum <again/model.safetensors)
expect 0 "validation loss" "${again[@]}"
[ "$(sha256sum <again/model.safetensors)" = "$weights" ] || fail "a finished run changed when its command was repeated"
expect 1 "training.seed = 1 instead of 0" "${again[@]}" --set training.seed=1
sed 's/sigma_max = 2.0/sigma_max = 2.5/' recipe.toml >changed.toml
expect 1 "constraint.sigma_max = 2.5 instead of 2.0" "$bridle" train changed.toml --out whole --resume auto
expect 1 "optimizer.lr = 0.1 instead of 0.5" "$bridle" train --resume whole --set optimizer.lr=0.1
expect 0 "validation loss" "$bridle" train --resume whole --set optimizer.lr=0.5
expect 2 "must come without --out" "$bridle" train --resume whole --out other_place

# A checkpoint with one bit flipped is passed over, with a warning; the older one gives the same run.
cp -r whole flipped
python3 - flipped/state/step_00000200/state.safetensors <<'P'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-1000, 2)
    byte = file.read(1)[0]
    file.seek(-1, 1)
    file.write(bytes([byte ^ 16]))
P
expect 0 "flipped/state/step_00000200/state.safetensors does not have the digest" "$bridle" train --resume flipped
same flipped
(cd flipped/state/step_00000200 && sha256sum --quiet -c SHA256SUMS) || fail "sha256sum does not agree with SHA256SUMS"

# A finished run that is resumed stays what it is; a refused command leaves it alone; two at once are refused.
before=$(cat whole/metrics.jsonl whole/run.json | sha256sum)
expect 0 "validation loss" "$bridle" train --resume whole
expect 1 "holds a run already" "$bridle" train recipe.toml --out whole
[ "$(cat whole/metrics.jsonl whole/run.json | sha256sum)" = "$before" ] || fail "a finished run was changed"
mkdir other; echo mine >other/config.json
expect 1 "is not empty" "$bridle" train recipe.toml --out other
"$bridle" train recipe.toml --out busy >/dev/null 2>&1 &
pid=$!
until [ -s busy/metrics.jsonl ]; do :; done
expect 1 "another process works on busy" "$bridle" train --resume busy
wait $pid

# What a run is good for.
expect 0 "largest RMS" "$bridle" eval whole
expect 0 "protocol paper" "$bridle" eval whole --protocol paper
[ "$("$bridle" eval whole --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["loss"])')" = \
  "$(facts whole | tail -n 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["validation_loss"])')" ] || fail "eval and training disagree"
expect 0 "the " "$bridle" sample whole --prompt "the " --tokens 20
expect 0 "parameters" "$bridle" info whole
/usr/bin/python3 "$here/read_safetensors.py" whole/model.safetensors | grep -q lm_head.weight || fail "the weights cannot be read without Bridle"

# Mistakes.
expect 2 "a recipe must be named" "$bridle" train
expect 1 "did you mean 'training.steps'" "$bridle" train recipe.toml --set training.step=5
expect 1 "holds a run already" "$bridle" train recipe.toml --out whole
expect 1 "'nothing' is not in" "$bridle" train recipe.toml --set data.name=nothing --out n
expect 1 "missing.toml" "$bridle" train missing.toml
expect 1 "is not a folder" "$bridle" eval nowhere
# Where LibTorch has no CUDA; with it the refusals below would be training.
if ! "$bridle" train recipe.toml --device cuda --set training.steps=1 --out on_cuda >/dev/null 2>&1; then
  expect 1 "--device cuda needs" "$bridle" train recipe.toml --device cuda --out n
  for verb in eval sample attack; do expect 1 "use --device cpu" "$bridle" $verb whole --device cuda; done
fi
expect 2 "--device must be cpu or cuda, got tpu" "$bridle" train recipe.toml --device tpu --out n
expect 0 "loss" "$bridle" eval whole --device cpu
expect 2 "did you mean '--resume'" "$bridle" train recipe.toml --resum auto
head -c 1000 whole/model.safetensors >short; cp -r whole cut; mv short cut/model.safetensors
expect 1 "cut/model.safetensors" "$bridle" eval cut
[ ! -e n ] || fail "a refused run left a folder"
echo "train: passed"
