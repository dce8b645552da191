#!/usr/bin/env bash
# A page of three small runs and a sweep, made by the command line and used in a browser. Usage: report.sh BRIDLE WEB [PICTURES]
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
web=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BRIDLE_DATA=$work/data OMP_NUM_THREADS=1
cd "$work"

"$here/words.py" 2000 >text
"$bridle" data import words --text text >/dev/null 2>&1
python3 "$here/tiny_images.py" "$BRIDLE_DATA/cifar10"
cat >words.toml <<'P'
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
steps = 60
log_every = 1
evaluate_every = 20
checkpoint_every = 60
P
cat >images.toml <<'P'
[data]
name = "cifar10"
batch_size = 16
[model]
kind = "mlp"
hidden_sizes = [16, 16]
[constraint]
method = "normalize"
sigma_max = 1.5
[training]
steps = 60
log_every = 1
evaluate_every = 20
P
hostile='<script>alert(1)<'
"$bridle" train words.toml --lipschitz 20 --out "$hostile" >/dev/null 2>&1
"$bridle" train words.toml --set training.seed=1 --set constraint.sigma_max=3 --out wide >/dev/null 2>&1
"$bridle" train images.toml --out mlp >/dev/null 2>&1
"$bridle" certify "$hostile" --search 1 --predictions >/dev/null 2>&1
"$bridle" certify mlp --search 1 >/dev/null 2>&1
"$bridle" attack mlp --images 16 --steps 4 --restarts 1 --queries 4 --eps 0.1,0.5,1 >/dev/null 2>&1
"$bridle" sample "$hostile" --prompt 'the ' --tokens 30 --keep >/dev/null 2>&1
python3 - <<'P'
import json, pathlib
pathlib.Path("<script>alert(1)<").joinpath("samples.jsonl").open("a").write(json.dumps(
    {"prompt": "../../etc/passwd ", "text": "</script><img src=x onerror=alert(2)>"}) + "\n")
P
printf 'recipe = "words.toml"\nfolder = "sweep"\n[set]\n"training.steps" = 4\n[grid]\n"training.seed" = [0, 1, 2]\n"constraint.sigma_max" = [1, 2]\n' >sweep.toml
"$bridle" sweep run sweep.toml --workers 2 >/dev/null 2>&1

expect 0 "written to page/index.html" "$bridle" report "$hostile" wide mlp sweep.toml --out page
"$bridle" report wide --out page/one --json | python3 -c 'import json, os, sys; facts = json.load(sys.stdin); assert os.path.getsize(facts["page"]) == facts["bytes"]' ||
  fail "report --json is not the JSON it should be"
expect 1 "no/such/run does not exist" "$bridle" report no/such/run
expect 1 "is no run" "$bridle" report "$work/data"
expect 2 "" "$bridle" report

# In the terminal.
expect 0 "loss over steps" "$bridle" compare "$hostile" wide mlp
case "$output" in *"constraint.sigma_max"*) ;; *) fail "compare does not say what differs: $output" ;; esac
"$bridle" compare wide mlp --json | python3 -c 'import json, sys; facts = json.load(sys.stdin); assert "data.name" in facts["differing"] and facts["runs"][1]["outcome"]["step"] == 60' ||
  fail "compare --json is not the JSON it should be"
expect 2 "runs must be two or more" "$bridle" compare wide
expect 0 "share of log L" "$bridle" info wide
case "$output" in *█*▁*) ;; *) fail "info shows no curve of the loss: $output" ;; esac

# Without the built page it says what is missing.
mkdir alone && cp "$bridle" alone/bridle
LD_LIBRARY_PATH=$(dirname "$bridle") expect 1 "the page is not built" alone/bridle report wide

node "$web/tests/report.e2e.mjs" page "${3:-}"

# A long run.
mkdir long && node "$web/tests/long.e2e.mjs" "$bridle" "$work/long"

# Live, in the terminal's other window.
mkdir live && cp -r "$hostile" live/a
node "$web/tests/live.e2e.mjs" "$bridle" "$work/live"
expect 1 "is not a folder" "$bridle" serve no/such/folder
