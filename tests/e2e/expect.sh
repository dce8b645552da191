# For the scripts here, to be sourced.
fail() { echo "$(basename "$0" .sh): $*" >&2; exit 1; }

# Exit code, a part of what is printed, and the command. What is printed stays in $output.
expect() {
  local code=$1 part=$2 got=0; shift 2
  output=$("$@" 2>&1) || got=$?
  [ "$got" = "$code" ] || fail "exit code $got instead of $code: $*: $output"
  case "$output" in *"$part"*) ;; *) fail "'$part' is not in what $* prints: $output" ;; esac
}
