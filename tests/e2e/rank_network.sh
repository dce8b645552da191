#!/usr/bin/env bash
# Two ranks on two machines (network namespaces): the same bytes as one process; and a link that goes down ends both. Skips, loudly,
# where namespaces cannot be made. Usage: rank_network.sh BRIDLE
set -euo pipefail
. "$(dirname "$0")/expect.sh"
. "$(dirname "$0")/two_machines.sh"
bridle=$1
here=$(cd "$(dirname "$0")" && pwd)
why=$(no_machines)
if [ -n "$why" ]; then echo "rank_network: SKIPPED: $why"; exit 0; fi
work=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null || true; remove_machines; rm -rf "$work"' EXIT
export BRIDLE_DATA=$work/data OMP_NUM_THREADS=1
cd "$work"
make_machines

"$here/words.py" 3000 >text
"$bridle" data import words --text text >/dev/null 2>&1
cat >recipe.toml <<'P'
[data]
name = "words"
sequence_length = 32
batch_size = 8
[model]
hidden_size = 32
num_hidden_layers = 1
num_attention_heads = 4
[training]
steps = 30
slices = 2
log_every = 1
evaluate_every = 0
P
"$bridle" train recipe.toml --out one >/dev/null 2>&1
train_on() {  # MACHINE RANK WORDS...
  local machine=$1 rank=$2; shift 2
  (code=0; RANK=$rank WORLD_SIZE=2 "$machine" "$bridle" train recipe.toml --rendezvous tcp:10.77.0.1:29400 --rank-timeout 5 "$@" \
    >"rank_$rank.out" 2>&1 || code=$?; echo $code >"rank_$rank.code") &
}
train_on in_a 0 --out two; train_on in_b 1
wait
[ "$(cat rank_0.code) $(cat rank_1.code)" = "0 0" ] || fail "$(cat rank_0.out rank_1.out)"
cmp one/model.safetensors two/model.safetensors || fail "other weights"

train_on in_a 0 --out cut --set training.steps=1000000; train_on in_b 1 --set training.steps=1000000
until [ -s cut/metrics.jsonl ]; do sleep 0.05; done
cut_link
begin=$SECONDS
wait
[ $((SECONDS - begin)) -le 30 ] || fail "a link that went down was noticed after $((SECONDS - begin)) s"
for rank in 0 1; do
  [ "$(cat rank_$rank.code)" = 4 ] || fail "rank $rank: exit code $(cat rank_$rank.code): $(cat rank_$rank.out)"
  grep -q "rank $((1 - rank)) of 2 has not been heard for 5 s: it is stopped, or the network to it is down" rank_$rank.out ||
    fail "rank $rank: $(cat rank_$rank.out)"
done
echo "rank_network: passed"
