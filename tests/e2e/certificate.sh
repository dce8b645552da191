#!/usr/bin/env bash
# Certificates from the command line: what certify writes holds for both checkers, and nothing that was tampered with does.
# Usage: certificate.sh BRIDLE
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
here=$(cd "$(dirname "$0")/.." && pwd)
checker=$here/../scripts/check_certificate.py
python=/usr/bin/python3
"$python" -c 'import numpy' || { echo "certificate: NumPy is missing; scripts/setup installs it" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BRIDLE_DATA=$work/data OMP_NUM_THREADS=1
cd "$work"

"$here/e2e/words.py" 2000 >text
"$bridle" data import words --text text >/dev/null 2>&1
cat >recipe.toml <<'P'
[data]
name = "words"
sequence_length = 32
batch_size = 8
[model]
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 4
position_bias = true
logit_bias = true
attention_output_scale = 1.0
attention_alpha = 0.5
mlp_alpha = 0.5
[constraint]
lipschitz = 100
[training]
steps = 60
evaluate_every = 0
checkpoint_every = 0
P

# A budget is kept, the run has its certificate, and certify adds what the search found.
expect 0 "was kept and proved at every step" "$bridle" train recipe.toml --out run --lipschitz 10
grep -q '"lipschitz":"' run/certificate.json && fail "a number is a text"
expect 0 "valid" "$bridle" check run/certificate.json
expect 0 "the most that a search found" "$bridle" certify run --search 2
expect 0 "cannot change" "$bridle" certify run --search 0 --predictions --epsilon 0.001,0.01
expect 0 "of any one of the first 4" "$bridle" certify run --search 0 --local 4 --radius 0.01
expect 0 "not a certificate" "$bridle" certify run --formula paper
expect 1 "it is for models with" "$bridle" certify run --formula lipsformer
"$bridle" certify run --search 1 --json >facts.json
"$python" - <<'P'
import json
facts = json.load(open("facts.json"))
assert facts["certified"] is True and facts["formula"] == "sound", facts
assert 0 < facts["observed_lipschitz"] <= facts["lipschitz"] <= 10, facts
assert abs(sum(layer["share"] for layer in facts["layers"]) - 1) < 1e-9
assert facts["domain_radius"] <= 1.0
P
for threads in 1 2; do OMP_NUM_THREADS=$threads expect 0 "valid" "$bridle" check run/certificate.json; done
BRIDLE_ISA=plain expect 0 "valid" "$bridle" check run/certificate.json
expect 0 "valid" "$python" "$checker" run/certificate.json

# A bare folder, written by someone else; sealed below a smaller bound.
mkdir bare && cp run/config.json run/model.safetensors bare/
expect 0 "Lipschitz bound" "$bridle" certify bare --search 0
expect 0 "valid" "$python" "$checker" bare/certificate.json
expect 1 "--lipschitz" "$bridle" seal bare --out sealed
expect 0 "sealed and certified" "$bridle" seal bare --out sealed --lipschitz 3
[ -z "$(find . -maxdepth 1 -name '.sealed*')" ] || fail "seal left what it wrote first"
expect 0 "validation loss" "$bridle" seal run --out sealed_run --lipschitz 3
expect 0 "valid" "$python" "$checker" sealed/certificate.json

# Everything that can be changed, for a transformer and an MLP.
mkdir mlp sorting && "$python" - <<'P'
import json, random, struct
random.seed(2)
for folder, sizes, more in ("mlp", [12, 9, 7, 5], {}), ("sorting", [12, 8, 6, 5], {"mlp_activation": "maxmin"}):
    json.dump({"model_type": "bridle_mlp", "layer_sizes": sizes, "input_bound": 1.0, "final_scale": 2.0, **more}, open(f"{folder}/config.json", "w"))
    header, data = {}, b""
    for i, (n, m) in enumerate(zip(sizes, sizes[1:])):
        values = struct.pack(f"<{n * m}f", *(random.gauss(0, 0.3) for _ in range(n * m)))
        header[f"model.layers.{i}.weight"] = {"dtype": "F32", "shape": [m, n], "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    open(f"{folder}/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
P
for folder in mlp sorting; do
  expect 0 "Lipschitz bound" "$bridle" certify $folder --search 2
  expect 0 "valid" "$bridle" check $folder/certificate.json
  expect 0 "valid" "$python" "$checker" $folder/certificate.json
done
for folder in run mlp; do
  cases=$("$python" "$here/certificate_tampering.py" --list $folder)
  [ "$(wc -l <<<"$cases")" -ge 10 ] || fail "too few ways to tamper: $cases"
  while read -r case code; do
    rm -rf tampered
    "$python" "$here/certificate_tampering.py" $folder tampered "$case"
    for check in "$bridle check" "$python $checker"; do
      got=0
      $check tampered/certificate.json >verdict 2>&1 || got=$?
      [ "$got" = "$code" ] || fail "$folder, $case: exit code $got instead of $code from $check: $(cat verdict)"
    done
  done <<<"$cases"
done

# The user's mistakes, and what has no bound.
expect 2 "run is required" "$bridle" certify
expect 2 "certificate is required" "$bridle" check
expect 2 "--out is required" "$bridle" seal run
expect 1 "is not a folder" "$bridle" certify nowhere
expect 1 "none.json" "$bridle" check none.json
expect 2 "must be one of sound, paper, lipsformer" "$bridle" certify run --formula other
expect 2 "--eps needs --predictions" "$bridle" certify run --eps 0.1
expect 2 "--search must be 0 or more, got -1" "$bridle" certify run --search -1
expect 1 "must be positive, got -3" "$bridle" seal run --out negative --lipschitz -3
[ ! -e negative ] || fail "a seal that was refused left a folder"
mkdir taken && touch taken/file
expect 1 "must be missing or empty" "$bridle" seal run --out taken --lipschitz 3

# A run in training is left alone: another process holds its lock.
(exec 9>run/state/.lock; flock 9; expect 1 "run must not be in training" "$bridle" certify run --search 0
  expect 0 "written to elsewhere.json" "$bridle" certify run --search 0 --out elsewhere.json
  expect 0 "valid" "$bridle" check elsewhere.json --model run)
expect 0 "written to run/certificate.json" "$bridle" certify run --search 0
expect 1 "the radius must be 0 or more, got -1" "$bridle" certify run --radius -1
mkdir far && cp mlp/config.json mlp/model.safetensors far/
sed -i 's/"input_bound": 1.0/"input_bound": 1e308/' far/config.json
expect 1 "must leave the inputs' norm finite" "$bridle" certify far --radius 1.79e308
[ ! -e far/certificate.json ] || fail "an infinite domain has a certificate"
expect 1 "must be positive, got -1" "$bridle" train recipe.toml --out other --lipschitz -1
[ ! -e other ] || fail "a refused budget left a folder"
# LayerNorm stretches without limit where its ε is 0.
mkdir normed && "$python" - <<'P'
import json, random, struct
random.seed(3)
config = {"model_type": "bridle", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4,
          "vocab_size": 3, "max_position_embeddings": 4, "norm": "layer_norm", "norm_epsilon": 0.0}
json.dump(config, open("normed/config.json", "w"))
block = "model.layers.0."
shapes = {"model.embed_tokens.weight": [3, 4], "lm_head.weight": [3, 4], "model.norm.weight": [4],
          block + "input_layernorm.weight": [4], block + "post_attention_layernorm.weight": [4],
          block + "mlp.up_proj.weight": [4, 4], block + "mlp.down_proj.weight": [4, 4]}
shapes.update({f"{block}self_attn.{p}_proj.weight": [4, 4] for p in "qkvo"})
header, data = {}, b""
for name, shape in shapes.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
    data += struct.pack(f"<{count}f", *(random.gauss(0, 0.3) for _ in range(count)))
text = json.dumps(header).encode()
open("normed/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
P
expect 3 "no finite bound" "$bridle" certify normed --search 0
[ ! -e normed/certificate.json ] || fail "a model without a bound has a certificate"
sed -i 's/"norm_epsilon": 0.0/"norm_epsilon": 0.01/' normed/config.json
expect 0 "Lipschitz bound" "$bridle" certify normed --search 0
head -c 200 normed/model.safetensors >cut && mv cut normed/model.safetensors
expect 1 "model.safetensors" "$bridle" certify normed --search 0
echo "certificates hold, and nothing else does"
