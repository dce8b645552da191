#!/usr/bin/env bash
# The examples of docs/how-to/many-processes.md under Slurm on this machine: a training of two ranks and a job array for a sweep. Skips,
# loudly, where Debian's slurm-wlm and munge are not installed, or this is not root. Usage: slurm.sh BRIDLE
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
skip() { echo "slurm: SKIPPED: $*"; exit 0; }
for program in slurmctld slurmd srun sbatch munged; do
  PATH=$PATH:/usr/sbin command -v $program >/dev/null || skip "$program is not installed (slurm-wlm, munge)"
done
[ "$(id -u)" = 0 ] || skip "daemons that start jobs need root"
PATH=$PATH:/usr/sbin
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
daemons=()
end() { { kill -9 "${daemons[@]}" && wait "${daemons[@]}"; } 2>/dev/null || true; rm -rf "$work"; }
trap end EXIT
export BRIDLE_DATA=$work/data OMP_NUM_THREADS=1 SLURM_CONF=$work/slurm.conf
cd "$work"

ports=$(python3 - <<'P'
import socket
sockets = [socket.socket() for _ in range(2)]
for one in sockets: one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in sockets])
P
)
read -r controller_port node_port <<<"$ports"
head -c 1024 /dev/urandom >munge.key
chmod 700 . && chmod 400 munge.key
munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munge.pid" \
  --log-file="$work/munge.log" --seed-file="$work/munge.seed" >munged.out 2>&1 & daemons+=($!)
until [ -S munge.socket ]; do kill -0 ${daemons[0]} 2>/dev/null || skip "munged does not start here: $(cat munged.out munge.log)"; sleep 0.1; done
mkdir spool state
host=$(hostname -s)
cat >slurm.conf <<P
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller_port
SlurmdPort=$node_port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CryptoType=crypto/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SwitchType=switch/none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
P
slurmctld -D -c >slurmctld.out 2>&1 & daemons+=($!)
slurmd -D -c -N "$host" >slurmd.out 2>&1 & daemons+=($!)
ready=false
for _ in $(seq 100); do
  if [ "$(sinfo -h -o %T 2>/dev/null)" = idle ]; then ready=true; break; fi
  sleep 0.2
done
$ready || skip "Slurm does not start here: $(tail -n 3 slurmctld.out slurmd.out slurmctld.log slurmd.log 2>&1)"

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
evaluate_every = 0
P
"$bridle" train recipe.toml --out one >/dev/null 2>&1
cat >train.sbatch <<P
#!/bin/bash
#SBATCH --ntasks=2 --output=$work/train.log
srun --kill-on-bad-exit=0 $bridle train recipe.toml --out under_slurm --resume auto --rendezvous file:$work/place
P
sbatch --wait train.sbatch >sbatch.out 2>&1 || fail "$(cat sbatch.out train.log)"
cmp one/model.safetensors under_slurm/model.safetensors || fail "other weights: $(cat train.log)"

cat >sweep.toml <<'P'
recipe = "recipe.toml"
folder = "work"
[grid]
"training.seed" = [0, 1, 2, 3, 4]
P
cat >sweep.sbatch <<P
#!/bin/bash
#SBATCH --array=1-2 --ntasks=1 --output=$work/sweep_%a.log
srun $bridle sweep run sweep.toml --shard \$SLURM_ARRAY_TASK_ID/2 --workers 1
P
sbatch --wait sweep.sbatch >sbatch.out 2>&1 || fail "$(cat sbatch.out sweep_*.log)"
[ -e sweep.shard_1_of_2.csv ] && [ -e sweep.shard_2_of_2.csv ] || fail "no results of shards: $(cat sweep_*.log)"
[ "$("$bridle" sweep export sweep.toml | grep -c ',done,')" = 5 ] || fail "not five results: $("$bridle" sweep export sweep.toml)"
echo "slurm: passed"
