#!/usr/bin/env bash
# The command line's manners: help, version, exit codes, JSON.
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1

expect 0 "" "$bridle" --help
expect 0 "" "$bridle" --version
expect 0 "" "$bridle" info
expect 0 "LibTorch" "$bridle" --version
[[ $output =~ ^bridle\ [0-9.]+(\ \([0-9a-f]+\))?,\ LibTorch\ [0-9.]+ ]] || fail "not a version: $output"
expect 2 "" "$bridle"
expect 2 "" "$bridle" no-such-verb
expect 2 "" "$bridle" info --no-such-flag
expect 1 "" env BRIDLE_ISA=nonsense "$bridle" info

expect 2 "" "$bridle" bench
expect 2 "" "$bridle" bench step
expect 1 "" "$bridle" bench step no-such-recipe.toml
"$bridle" bench step --help | grep -q Examples || fail "bench step --help has no examples"

"$bridle" info --help | grep -q Examples || fail "info --help has no examples"
"$bridle" info --json | python3 -c 'import json, sys; facts = json.load(sys.stdin); assert facts["schema"] == 1 and facts["threads"] >= 1' ||
  fail "info --json is not the JSON it should be"
message=$(BRIDLE_ISA=nonsense "$bridle" info 2>&1 || true)
case "$message" in
  "bridle: [BRIDLE_ISA] 'nonsense' is none of plain, avx2, avx512, avx512_bf16, amx") ;;
  *) fail "the error does not say what is allowed: $message" ;;
esac
message=$("$bridle" inof 2>&1 || true)
[ "$message" = "bridle: no verb 'inof'; did you mean 'info'? Try bridle --help." ] || fail "no suggestion: $message"

# Old spellings answer with the new one.
expect 2 "bridle check CERTIFICATE" "$bridle" certify --check runs/a/certificate.json
expect 2 "bridle check CERTIFICATE --model DIR" "$bridle" certify --model=runs/a
expect 2 "bridle seal RUN --out DIR --lipschitz L" "$bridle" certify runs/a --seal sealed --lipschitz 3
expect 2 "bridle sweep run a/b.toml" "$bridle" sweep a/b.toml --workers 2
expect 2 "--eps" "$bridle" attack runs/a --epsilon 0.5
expect 2 "--norm must be l2, got linf" "$bridle" attack runs/a --norm linf
# A value that does not fit: what it must be, and what it was.
expect 2 "--steps must be a number, got many" "$bridle" train quickstart --steps many
expect 2 "Try bridle data get --help" "$bridle" data get

# Without any data set, on random batches.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '[data]\nsequence_length = 8\nbatch_size = 2\n[model]\nhidden_size = 16\nnum_hidden_layers = 1\nnum_attention_heads = 2\n' >"$work/tiny.toml"
export BRIDLE_DATA=$work/data
"$bridle" bench step "$work/tiny.toml" --steps 2 --warmup 1 | grep -q '^backward ' || fail "bench step prints no table"
"$bridle" bench step "$work/tiny.toml" --steps 2 --warmup 1 --json >"$work/step.json"
python3 - "$work/step.json" <<'CHECK' || fail "bench step --json is not the JSON it should be"
import json, sys
facts = json.load(open(sys.argv[1]))
assert facts["schema"] == 1 and facts["data"] == "random" and facts["tokens_per_step"] == 16 and facts["steps"] == 2
assert set(facts["breakdown"]) == {"data", "forward", "backward", "optimizer", "constraint", "proof", "other"}
assert 0 < facts["min_step_s"] <= facts["median_step_s"] <= facts["max_step_s"]
assert abs(sum(facts["flop"].values()) / facts["flop_per_step"] - 1) < 1e-12
assert 0 < facts["estimated_memory_bytes"] < 1.3 * facts["peak_memory_bytes"]
assert facts["fraction_of_peak"] > 0 and facts["settings"]["model.vocab_size"] == 65
CHECK

# What libraries say is told in Bridle's words: the operation, the file, the reason; never a trace or a name of theirs.
cd "$work"
mkdir folder; printf x >file
plain() {
  expect "$@"
  case "$output" in *std::*|*"filesystem error"*|*json.exception*|*"Exception raised"*|*bad_alloc*|*c10*|*"internal error"*)
    fail "a library's words: $output" ;; esac
}
plain 1 "[read] folder is not a regular file" "$bridle" train folder
plain 1 "Not a directory" "$bridle" train file/recipe.toml
seq 500 >numbers; "$bridle" data import numbers --text numbers >/dev/null 2>&1
plain 1 "file/inside" "$bridle" train tiny.toml --set data.name=numbers --out file/inside
plain 1 "tiny.toml" "$bridle" certify tiny.toml
plain 1 "" "$bridle" check folder
plain 1 "there is no key 'steps'; did you mean 'training.steps'" "$bridle" train tiny.toml --set steps=4
plain 1 "did you mean 'optimizer.method' or 'constraint.method'" "$bridle" train tiny.toml --set method=muon
plain 1 "" "$bridle" eval file/run
plain 1 "" "$bridle" sweep run folder
plain 1 "" "$bridle" sweep run file/sweep.toml
plain 1 "BRIDLE_DATA" env -u HOME -u XDG_CACHE_HOME BRIDLE_DATA= "$bridle" data list
plain 1 "Not a directory" env BRIDLE_DATA="$work/file/data" "$bridle" data import mine --text numbers
plain 1 "[read] folder is not a regular file" "$bridle" data import mine --text folder
mkdir -p data/broken; echo '{"schema": 1' >data/broken/dataset.json
plain 1 "is damaged" "$bridle" train tiny.toml --set data.name=broken
echo '{"schema": 1}' >data/broken/dataset.json
plain 1 "lacks a key" "$bridle" train tiny.toml --set data.name=broken
printf 'recipe = "tiny.toml"\nfolder = "at_work"\n' >sweep.toml
mkdir at_work; echo "no database" >at_work/sweep.db
plain 1 "not a sweep's database" "$bridle" sweep run sweep.toml

# What cannot fit into memory is refused before it is tried, with the figure.
for set in data.batch_size=1000000000 model.hidden_size=100000 data.sequence_length=10000000; do
  plain 1 "GiB are available; lower" "$bridle" bench step tiny.toml --set "$set"
done
plain 1 "GiB are available; lower data.batch_size" "$bridle" train tiny.toml --set data.name=numbers --set data.batch_size=1000000000 --out large
[ ! -e large ] || fail "a run that cannot fit left a folder"
printf 'recipe = "tiny.toml"\n[grid]\n"optimizer.lr" = { log10 = [-1, 1], count = 1000000000 }\n' >many.toml
plain 1 "count of at most 100000, got 1000000000" "$bridle" sweep status many.toml

# Deep TOML is refused, wherever it comes from; it ended the process before.
python3 -c 'print(".".join("a" * 60000) + " = 1")' >keys.toml
python3 -c 'print("[" + ".".join("a" * 60000) + "]")' >names.toml
python3 -c 'print("a = " + "[" * 60000 + "]" * 60000)' >lists.toml
for file in keys names lists; do
  expect 1 "$file.toml, line 1" "$bridle" train "$file.toml"
  expect 1 "$file.toml, line 1" "$bridle" sweep run "$file.toml"
done
expect 1 "inside one another" "$bridle" train tiny.toml --set "model.hidden_sizes=$(python3 -c 'print("[" * 60000)')"

# A recipe that comes with Bridle has a name, wherever one is; a file of that name without .toml is not it.
printf '#!/bin/sh\n' >quickstart
plain 1 "'shakespeare' is not in" "$bridle" train quickstart --out named
plain 1 "'shakespeare' is not in" "$bridle" train recipes/quickstart.toml --out named
plain 1 "did you mean 'quickstart'" "$bridle" train quikstart
plain 1 "no-such.toml" "$bridle" train no-such.toml

# --steps, --lr and --seed stand for their keys; numbers are short, and keys are apart from their help.
"$bridle" train tiny.toml --set data.name=numbers --steps 3 --lr 0.02 --seed 7 --out short >short.txt 2>/dev/null
grep -q '^steps = 3$' short/config.toml && grep -q '^lr = 0.02$' short/config.toml && grep -q '^seed = 7$' short/config.toml ||
  fail "the flags did not reach the run: $(cat short/config.toml)"
if grep -E '[1-9][0-9]*\.[0-9]{6,}|0\.0*[1-9][0-9]{5,}' short.txt; then fail "the summary has a number of more than six digits"; fi
if "$bridle" train --keys | grep -E '^[a-z_.0-9]+ +[^ ]*[0-9][a-z]{4,}'; then fail "a key's default runs into its help"; fi

# A prompt that is refused is not shown; one that is taken comes first.
output=$("$bridle" sample short --prompt '€ and more' 2>/dev/null || true)
[ -z "$output" ] || fail "the prompt was shown before it was refused: $output"
case "$("$bridle" sample short --prompt '12' --tokens 5 --top-k 2 2>/dev/null)" in 12*) ;; *) fail "no prompt before the text" ;; esac
plain 1 "top_k must be 0 or more, got -1" "$bridle" sample short --top-k -1
echo "command_line: passed"
