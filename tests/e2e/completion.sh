#!/usr/bin/env bash
# Completions and manual pages say what --help says, and the shells and groff take them. Usage: completion.sh BRIDLE
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bridle" generate "$work/share"
bash=$work/share/bash-completion/completions/bridle
zsh=$work/share/zsh/site-functions/_bridle
fish=$work/share/fish/vendor_completions.d/bridle.fish
man=$work/share/man/man1

# Bash, as a user would have it: what Tab offers after some words, the last of which may be begun.
. "$bash"
offers() {
  local wanted=$1; shift
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  _bridle || true
  case " ${COMPREPLY[*]} " in *" $wanted "*) ;; *) fail "after '$*' bash offers '${COMPREPLY[*]}' without $wanted" ;; esac
}
offers seal bridle ""
offers seal bridle se
offers get bridle data ""
offers --lipschitz bridle train recipe.toml --lip
offers cuda bridle train --device c
offers quickstart bridle train qui
offers status bridle sweep st
offers --workers bridle sweep run --
offers --version bridle --
mkdir "$work/at"; cd "$work/at"; mkdir some_run; touch file.toml
offers some_run bridle certify so
offers file.toml bridle sweep status fi
COMP_WORDS=(bridle certify fi); COMP_CWORD=2; _bridle || true
[ ${#COMPREPLY[@]} = 0 ] || fail "a file is offered where a folder is wanted: ${COMPREPLY[*]}"

# Every verb and flag of --help is in all of them, and what is hidden in none.
verbs() { "$bridle" "$@" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\+\) .*/\1/p'; }
flags() { "$bridle" "$@" --help | sed '/^Examples:/,$d' | grep -oE '^  (-[a-z],)?--[a-z-]+(,--[a-z-]+)*' | grep -oE -- '--[a-z-]+' || true; }
count=0
check_command() {
  local page=$man/$(IFS=-; echo "bridle${*:+-$*}").1 flag verb
  [ -s "$page" ] || fail "no manual page $page"
  groff -man -Tutf8 -Kutf8 -ww "$page" >text 2>warnings || fail "groff refuses $page"
  [ ! -s warnings ] || fail "groff warns of $page: $(cat warnings)"
  sed -i 's/\x1b\[[0-9;]*m//g; s/[‐−]/-/g; s/.\x08//g' text
  for flag in $(flags "$@"); do
    grep -q -- "$flag" text || fail "$flag is not in $page"
    grep -q -- "$flag" "$bash" || fail "$flag of '$*' is not in bash's completion"
    grep -q -- "$flag" "$zsh" || fail "$flag of '$*' is not in zsh's completion"
    grep -q -- "-l ${flag#--}" "$fish" || fail "$flag of '$*' is not in fish's completion"
    count=$((count + 1))
  done
  for verb in $(verbs "$@"); do check_command "$@" "$verb"; done
}
check_command
[ "$count" -ge 80 ] || fail "only $count flags were looked for"
if grep -qE "worker-of|bridle[ /-]generate|a generate" "$bash" "$zsh" "$fish" "$man"/*; then fail "what is hidden is shown"; fi

zsh -n "$zsh" || fail "zsh refuses its completion"
fish --no-execute "$fish" || fail "fish refuses its completion"
HOME=$work fish -c "source '$fish'; complete -C 'bridle sea'" | grep -q '^seal' || fail "fish does not complete a verb"
HOME=$work fish -c "source '$fish'; complete -C 'bridle train --lip'" | grep -q '^--lipschitz' || fail "fish does not complete a flag"
HOME=$work fish -c "source '$fish'; complete -C 'bridle data g'" | grep -q '^get' || fail "fish does not complete a verb's verb"
echo "completion: passed, $count flags"
