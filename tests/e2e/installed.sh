#!/usr/bin/env bash
# What cmake --install leaves works without the source tree: recipes by name, manual pages, completions, the checker.
# Usage: installed.sh PREFIX
set -euo pipefail
. "$(dirname "$0")/expect.sh"
prefix=$(cd "$1" && pwd)
bridle=$prefix/bin/bridle
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BRIDLE_DATA=$work/data OMP_NUM_THREADS=1
"$(dirname "$0")/words.py" 400 >"$work/text"
cd "$work"

for file in man/man1/bridle.1 man/man1/bridle-data-get.1 bash-completion/completions/bridle zsh/site-functions/_bridle \
            fish/vendor_completions.d/bridle.fish bridle/recipes/quickstart.toml bridle/schemas/certificate.schema.json \
            bridle/check_certificate.py; do
  [ -s "$prefix/share/$file" ] || fail "share/$file is not installed"
  [ ! -L "$prefix/share/$file" ] || fail "share/$file is a link into the source tree"
done
"$bridle" data import words --text text >/dev/null 2>&1
small=(--set data.name=words --set data.sequence_length=16 --set data.batch_size=4 --set model.hidden_size=32 --set model.memory_channels=32
       --set model.num_hidden_layers=1 --set model.num_attention_heads=2 --steps 4)
expect 0 "Lipschitz bound" "$bridle" train quickstart "${small[@]}" --out run
expect 0 "$prefix/share/bridle/check_certificate.py" "$bridle" certify run --search 1
expect 0 "valid" "$bridle" check run/certificate.json
expect 0 "valid" /usr/bin/python3 "$prefix/share/bridle/check_certificate.py" run/certificate.json
# The Python package finds the library of its own prefix.
expect 0 "$prefix/lib" env -u BRIDLE_LIBRARY PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$prefix/lib/python3/dist-packages" \
  /usr/bin/python3 -c 'import bridle, torch; assert bridle.load("run").eval()(torch.zeros(1, 4).long()).isfinite().all(); print(bridle.LIBRARY)'
[ -e "$prefix/lib/python3/dist-packages/bridle/py.typed" ] || fail "the package's py.typed is not installed"
echo "installed: passed"
