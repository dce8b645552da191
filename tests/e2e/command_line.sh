#!/usr/bin/env bash
# The command line's manners: help, version, exit codes, JSON.
set -euo pipefail
bridle=$1

fail() { echo "command_line: $*" >&2; exit 1; }
expect_code() {
  local code=$1; shift
  local got=0
  "$@" >/dev/null 2>&1 || got=$?
  [ "$got" = "$code" ] || fail "exit code $got instead of $code: $*"
}

expect_code 0 "$bridle" --help
expect_code 0 "$bridle" --version
expect_code 0 "$bridle" info
expect_code 2 "$bridle"
expect_code 2 "$bridle" no-such-verb
expect_code 2 "$bridle" info --no-such-flag
expect_code 1 env BRIDLE_ISA=nonsense "$bridle" info

"$bridle" info --help | grep -q Examples || fail "info --help has no examples"
"$bridle" info --json | python3 -c 'import json, sys; facts = json.load(sys.stdin); assert facts["schema"] == 1 and facts["threads"] >= 1' ||
  fail "info --json is not the JSON it should be"
message=$(BRIDLE_ISA=nonsense "$bridle" info 2>&1 || true)
case "$message" in
  "bridle: [BRIDLE_ISA] 'nonsense' is none of plain, avx2, avx512, amx") ;;
  *) fail "the error does not say what is allowed: $message" ;;
esac
message=$("$bridle" inof 2>&1 || true)
[ "$message" = "bridle: no verb 'inof'; did you mean 'info'? Try bridle --help." ] || fail "no suggestion: $message"
echo "command_line: passed"
