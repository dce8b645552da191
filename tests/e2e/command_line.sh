#!/usr/bin/env bash
# The command line's manners: help, version, exit codes, JSON.
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1

expect 0 "" "$bridle" --help
expect 0 "" "$bridle" --version
expect 0 "" "$bridle" info
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
assert facts["fraction_of_peak"] > 0 and facts["settings"]["model.vocab_size"] == 65
CHECK
echo "command_line: passed"
