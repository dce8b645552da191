#!/usr/bin/env bash
# Several processes train one model: the same bytes as one, and one clear line with exit code 4 whatever happens to a rank.
# Usage: ranks.sh BRIDLE
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'kill -9 $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
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
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 4
[constraint]
lipschitz = 20.0
[training]
steps = 60
slices = 4
log_every = 10
evaluate_every = 30
evaluate_tokens = 1024
checkpoint_every = 20
P
long=(--set training.steps=100000 --set training.evaluate_every=0)

facts() { sed -E 's/"(seconds|tokens_per_second)":[^,}]*//g' "$1/metrics.jsonl"; }
same() {
  cmp "$1/model.safetensors" "$2/model.safetensors" || fail "$2: other weights"
  cmp "$1/certificate.json" "$2/certificate.json" || fail "$2: another certificate"
  cmp "$1/state/step_00000060/state.safetensors" "$2/state/step_00000060/state.safetensors" || fail "$2: other state"
  [ "$(facts "$1")" = "$(facts "$2")" ] || fail "$2: other metrics"
}
# The process of a rank, by that which has started it.
rank_process() {
  local process
  for process in $(pgrep -P "$1"); do
    if tr '\0' '\n' <"/proc/$process/environ" | grep -qx "RANK=$2"; then echo "$process"; return; fi
  done
}
until_it_trains() {
  until [ -s "$1/metrics.jsonl" ]; do kill -0 "$2" 2>/dev/null || fail "$1 ended early: $(cat "$1.out")"; sleep 0.05; done
}

expect 0 "validation loss" "$bridle" train recipe.toml --out one
for ranks in 1 2 4; do
  expect 0 "validation loss" "$bridle" train recipe.toml --out "with_$ranks" --ranks $ranks
  same one "with_$ranks"
done
expect 0 '"finished": true' "$bridle" train --resume with_4 --ranks 2 --json

# A signal to the process that has started them: all save, and another number of ranks goes on.
"$bridle" train recipe.toml "${long[@]}" --out signal --ranks 2 >signal.out 2>&1 & pid=$!
until_it_trains signal $pid
kill -TERM $pid
code=0; wait $pid || code=$?
[ $code = 143 ] || fail "SIGTERM: exit code $code: $(cat signal.out)"
grep -q "go on with: bridle train --resume signal" signal.out || fail "SIGTERM: $(cat signal.out)"
[ -f signal/model.safetensors ] || fail "SIGTERM: nothing was saved"

# Killed and stopped ranks, each of them: all others end, say who it was, and keep the last checkpoint.
for rank in 0 1; do
  for signal in KILL STOP; do
    run=${signal}_$rank
    "$bridle" train recipe.toml "${long[@]}" --out "$run" --ranks 2 --rank-timeout 3 >"$run.out" 2>&1 & pid=$!
    until_it_trains "$run" $pid
    processes=$(pgrep -P $pid)
    kill -$signal "$(rank_process $pid $rank)"
    begin=$SECONDS
    code=0; wait $pid || code=$?
    [ $code = 4 ] || fail "SIG$signal on rank $rank: exit code $code: $(cat "$run.out")"
    [ $((SECONDS - begin)) -le 30 ] || fail "SIG$signal on rank $rank took $((SECONDS - begin)) s"
    said="rank $rank of 2 was lost"
    [ $signal = KILL ] || said="rank $rank of 2 has not been heard for 3 s"
    grep -q "bridle: \[ranks\] $said" "$run.out" || fail "SIG$signal on rank $rank: $(cat "$run.out")"
    for process in $processes; do [ ! -e "/proc/$process" ] || fail "SIG$signal on rank $rank left process $process"; done
    newest=$(ls "$run/state" | tail -n 1)
    [ -z "$newest" ] || (cd "$run/state/$newest" && sha256sum --quiet -c SHA256SUMS) || fail "$run: a damaged checkpoint"
  done
done

# --restarts goes on by itself.
"$bridle" train recipe.toml --out restarted --ranks 2 --restarts 2 >restarted.out 2>&1 & pid=$!
until_it_trains restarted $pid
kill -KILL "$(rank_process $pid 1)"
wait $pid || fail "--restarts: $(cat restarted.out)"
grep -q "start 2 of 3" restarted.out || fail "--restarts: $(cat restarted.out)"
same one restarted

# No room on rank 0's disk: here a limit on the size of files, above which a write fails.
code=0
(trap '' XFSZ; ulimit -f 40; exec "$bridle" train recipe.toml --out full --ranks 2) >full.out 2>&1 || code=$?
[ $code = 4 ] || fail "full disk: exit code $code: $(cat full.out)"
[ "$(grep -c "rank 0 of 2: .*File too large" full.out)" = 2 ] || fail "full disk: $(cat full.out)"

# As torchrun starts them: what one of two ranks does differently, or not at all.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
timeout=20
as_rank() {  # RANK SIZE WORDS...: exit code and output in files
  local rank=$1 size=$2; shift 2
  rm -f "rank_$rank.code"
  (code=0; RANK=$rank WORLD_SIZE=$size MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port - 1)) \
    "$bridle" train --rank-timeout $timeout "$@" >"rank_$rank.out" 2>&1 || code=$?; echo $code >"rank_$rank.code") &
}
both_say() {  # CODE TEXT
  wait
  local rank
  for rank in 0 1; do
    [ "$(cat "rank_$rank.code")" = "$1" ] || fail "rank $rank: exit code $(cat "rank_$rank.code"): $(cat "rank_$rank.out")"
    grep -qF "$2" "rank_$rank.out" || fail "rank $rank does not say '$2': $(cat "rank_$rank.out")"
    [ "$(wc -l <"rank_$rank.out")" = 1 ] || fail "rank $rank says more than a line: $(cat "rank_$rank.out")"
  done
}
as_rank 0 2 recipe.toml --out variables; as_rank 1 2 recipe.toml --out elsewhere
wait
[ "$(cat rank_0.code) $(cat rank_1.code)" = "0 0" ] || fail "as torchrun: $(cat rank_0.out rank_1.out)"
same one variables
[ ! -e elsewhere ] || fail "rank 1 wrote to a folder of its own"
as_rank 0 2 recipe.toml --out t1; as_rank 1 2 recipe.toml --set optimizer.lr=0.7 --out t1
both_say 4 "rank 1 of 2 has another recipe or other data than rank 0: [optimizer] lr = 0.7"
as_rank 0 2 recipe.toml --out t2; as_rank 1 3 recipe.toml --out t2
both_say 4 "rank 1 says that it is one of 3"
timeout=1
as_rank 0 2 recipe.toml --out t3
wait
[ "$(cat rank_0.code)" = 4 ] || fail "nobody came: exit code $(cat rank_0.code)"
grep -q "rank 1 of 2 has not come to tcp:127.0.0.1:$port within 1 s" rank_0.out || fail "nobody came: $(cat rank_0.out)"
as_rank 1 2 recipe.toml --out t3
wait
[ "$(cat rank_1.code)" = 4 ] || fail "nobody led: exit code $(cat rank_1.code)"
grep -q "rank 0 of 2 has not answered at tcp:127.0.0.1:$port within 1 s" rank_1.out || fail "nobody led: $(cat rank_1.out)"
# The port is another program's.
python3 - "$port" <<'P' & other=$!
import socket, sys, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
open("listening", "w").close()
time.sleep(60)
P
until [ -e listening ]; do kill -0 $other || fail "no other program at port $port"; sleep 0.05; done
as_rank 0 2 recipe.toml --out t4; as_rank 1 2 recipe.toml --out t4
until [ -s rank_0.code ] && [ -s rank_1.code ]; do sleep 0.1; done
kill $other; wait $other 2>/dev/null || true
grep -q "rank 0 cannot listen at 127.0.0.1:$port: Address already in use" rank_0.out || fail "port in use: $(cat rank_0.out)"
grep -q "rank 0 of 2 has not answered" rank_1.out || fail "port in use: $(cat rank_1.out)"
[ "$(cat rank_0.code) $(cat rank_1.code)" = "4 4" ] || fail "port in use: exit codes $(cat rank_0.code) $(cat rank_1.code)"
for run in t1 t2 t3 t4; do [ ! -e $run/config.toml ] || fail "$run is a run"; done

# Wrong usage.
expect 1 "set training.slices=2" "$bridle" train recipe.toml --set training.slices=1 --ranks 2 --out n
expect 1 "must divide data.batch_size" "$bridle" train recipe.toml --set training.slices=3 --out n
expect 2 "--ranks must be at least 1" "$bridle" train recipe.toml --ranks 0
expect 2 "--rank-timeout must be" "$bridle" train recipe.toml --rank-timeout 0
expect 2 "--rendezvous is for ranks that" "$bridle" train recipe.toml --rendezvous tcp:a:1
expect 1 "holds a run already" "$bridle" train recipe.toml --out one --ranks 2
[ ! -e n ] || fail "a refused run left a folder"

# What it will take.
expect 0 "of gradients" "$bridle" plan recipe.toml --ranks 2 --flops 1e9 --gbit 1
expect 2 "--flops is required" "$bridle" plan recipe.toml --ranks 2

# Open MPI, where it is.
if command -v mpirun >/dev/null; then
  mpirun --allow-run-as-root --oversubscribe -n 2 "$bridle" train recipe.toml --out mpi >mpi.out 2>&1 || fail "mpirun: $(cat mpi.out)"
  same one mpi
else
  echo "ranks: SKIPPED: mpirun is not installed (openmpi-bin)"
fi
echo "ranks: passed"
