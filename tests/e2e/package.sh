#!/usr/bin/env bash
# Installs Debian packages of Bridle in a system without it, and uses them there. As root.
# Usage: package.sh BRIDLE.deb PYTHON3-BRIDLE.deb
set -euo pipefail
. "$(dirname "$0")/expect.sh"
package=$(realpath "$1")
python=$(realpath "$2")
words=$(realpath "$(dirname "$0")/words.py")
command -v bridle >/dev/null && { apt-get remove -y bridle >/dev/null; }
apt-get update >/dev/null
DEBIAN_FRONTEND=noninteractive apt-get install -y "$package" >/tmp/install.log 2>&1 || { tail -n 20 /tmp/install.log >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BRIDLE_DATA=$work/data
cd "$work"
expect 0 "LibTorch" bridle --version
echo "$output"
python3 "$words" 400 >text
bridle data import words --text text >/dev/null 2>&1
expect 0 "Lipschitz bound" bridle train quickstart --set data.name=words --set data.sequence_length=32 --set data.batch_size=8 \
  --set model.hidden_size=32 --set model.memory_channels=32 --set model.num_attention_heads=2 --steps 20 --lipschitz 50 --out run
expect 0 "/usr/share/bridle/check_certificate.py" bridle certify run --search 1
echo "$output"
expect 0 "valid" bridle check run/certificate.json
expect 0 "valid" /usr/share/bridle/check_certificate.py run/certificate.json
expect 0 "written to" bridle report run
[ -s /usr/share/man/man1/bridle.1.gz ] || [ -s /usr/share/man/man1/bridle.1 ] || fail "no manual page"
[ -s /usr/share/bash-completion/completions/bridle ] || fail "no completion"
# The Python package is Debian's own PyTorch's and finds the library by itself.
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$python" >/tmp/install.log 2>&1 ||
  { tail -n 20 /tmp/install.log >&2; exit 1; }
expect 0 "the same bound" /usr/bin/python3 -c '
import bridle, json, torch
model = bridle.load("run")
bridle.Constraint(model, "normalize", max_norm={"*.weight": 1.0}).start()
stated = json.load(open("run/certificate.json"))
print("the same bound" if bridle.certify("run", search=0)["lipschitz"] == stated["lipschitz"] else "another bound", bridle.LIBRARY)'
echo "$output"
DEBIAN_FRONTEND=noninteractive apt-get remove -y bridle >/dev/null 2>&1
[ ! -e /usr/bin/bridle ] && [ ! -e /usr/share/bridle ] && [ ! -e /usr/lib/python3/dist-packages/bridle ] ||
  fail "removing the package left files"
echo "package: passed"
