#!/usr/bin/env bash
# Own data in, foreign models in, models out again: every step from the command line.
# Usage: elsewhere.sh BRIDLE
set -euo pipefail
. "$(dirname "$0")/expect.sh"
bridle=$1
here=$(cd "$(dirname "$0")/.." && pwd)
checker=$here/../scripts/check_certificate.py
python=/usr/bin/python3
"$python" -c 'import numpy' || { echo "elsewhere: NumPy is missing; scripts/setup installs it" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BRIDLE_DATA=$work/data OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
cd "$work"

# ---- Own data: a number to predict, under a budget, then a class
"$python" - <<'P'
import numpy as np
x = np.random.default_rng(1).normal(size=(600, 3)) * [1, 10, 0.1] + [0, 5, 2]
y = np.sin(x[:, 0]) + 0.1 * x[:, 1]
with open("arm.csv", "w") as f:
    f.write("angle,speed,load,note,torque\n")
    for row, value in zip(x, y):
        f.write(",".join(map(repr, map(float, row))) + f",n,{float(value)!r}\n")
np.save("x.npy", x.astype(np.float32))
np.save("y.npy", (y > 0.5).astype(np.int64))
P
expect 2 "name one thing to import" "$bridle" data import arm
expect 1 "'note' must be a finite number, got 'n'" "$bridle" data import arm --csv arm.csv --target torque --regression
[ ! -e data/arm ] || fail "a refused import left a data set"
expect 0 "540 training and 60 validation examples" \
  "$bridle" data import arm --csv arm.csv --target torque --leave-out note --regression
expect 0 "2 classes" "$bridle" data import side --npy x.npy y.npy
cat >arm.toml <<'P'
[data]
name = "arm"
batch_size = 60
[model]
kind = "mlp"
hidden_sizes = [16, 16]
mlp_activation = "maxmin"
bias = true
[optimizer]
lr = 0.1
[constraint]
lipschitz = 3
[training]
steps = 150
evaluate_every = 0
checkpoint_every = 0
P
expect 0 "was kept and proved at every step" "$bridle" train arm.toml --out arm
"$bridle" eval arm --json >eval.json
"$python" -c 'import json; f = json.load(open("eval.json")); assert f["loss"] < 0.3 and abs(f["accuracy"] + f["loss"] - 1) < 1e-6, f'
expect 0 "valid" "$bridle" check arm/certificate.json
expect 0 "valid" "$python" "$checker" arm/certificate.json
cmp -s arm/statistics.json data/arm/statistics.json || fail "the run has no statistics"
expect 1 "is about classes" "$bridle" certify arm --search 0 --predictions
expect 1 "imported vectors" "$bridle" attack arm
expect 0 "" "$bridle" train arm.toml --set data.name=side --set training.margin=0.2 --out side
expect 0 "cannot change" "$bridle" certify side --search 0 --predictions --eps 0.01
expect 1 "training.margin must be 0 for regression" "$bridle" train arm.toml --set training.margin=0.2 --out no
expect 1 "must be off for 'arm'" "$bridle" train arm.toml --set data.standardize=true --out no

# ---- Out again: a header that agrees with Bridle's logits, and takes raw inputs
expect 0 "Lipschitz bound" "$bridle" export arm --format header --out controller.h --examples 1000
cat >main.cpp <<'P'
#include <cstdio>
#include "controller.h"
int main() {
  double x[controller::kInputs];
  while (std::scanf("%lf %lf %lf", &x[0], &x[1], &x[2]) == 3) {
    float narrow[controller::kInputs], out[controller::kOutputs];
    for (int i = 0; i < controller::kInputs; ++i) narrow[i] = static_cast<float>(x[i]);
    controller::evaluate(narrow, out);
    std::printf("%.9g\n", static_cast<double>(out[0]));
  }
}
P
c++ -std=c++11 -O1 -Wall -Wextra -Werror main.cpp -o main
"$python" - <<'P'
import json, struct, subprocess
import numpy as np
data = open("examples.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
types = {"F32": "<f4", "F64": "<f8"}
t = {k: np.frombuffer(data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], types[v["dtype"]]).reshape(v["shape"])
     for k, v in header.items() if k != "__metadata__"}
text = "\n".join(" ".join(map(repr, map(float, row))) for row in t["inputs"])
seen = np.array(subprocess.run(["./main"], input=text, capture_output=True, text=True, check=True).stdout.split(), float)
off = np.abs(seen - t["logits"].ravel()).max()
assert len(seen) == 1000 and off < 1e-6, off
P
expect 0 "unsat" sh -c "'$bridle' export side --format onnx --out side.onnx --property 3 && cat side.vnnlib"
expect 0 "modeling_bridle.py" "$bridle" export side --format torch --out torch
expect 1 "must be missing or empty" "$bridle" export side --format torch --out torch
expect 0 "valid" "$python" "$checker" torch/certificate.json
expect 2 "--format must be one of header, torch, onnx" "$bridle" export side --format pickle --out x
expect 2 "--out is required" "$bridle" export side --format onnx

# ---- 8-bit weights: below the budget, and both checkers agree
expect 0 "certified in arm-int8" "$bridle" quantize arm --int8
expect 0 "valid" "$bridle" check arm-int8/certificate.json
expect 0 "valid" "$python" "$checker" arm-int8/certificate.json
"$bridle" quantize arm/ --int8 --out small --json >small.json
"$python" -c 'import json; f = json.load(open("small.json")); assert f["lipschitz"] <= 3 and 0 < f["observed_deviation"] <= f["deviation_bound"] and abs(f["loss_after"] - f["loss_before"]) < 0.05, f'
expect 0 "loss" "$bridle" eval small
expect 2 "--int8" "$bridle" quantize arm
expect 1 "is there already" "$bridle" quantize arm --int8

# ---- A foreign model in: linear layers in a row
"$python" - <<'P'
import json, struct
import numpy as np
rng = np.random.default_rng(0)
tensors = {"0.weight": rng.normal(size=(8, 4)), "0.bias": rng.normal(size=8), "2.weight": rng.normal(size=(3, 8)), "2.bias": rng.normal(size=3)}
header, body = {}, b""
for name, values in tensors.items():
    raw = values.astype("<f4").tobytes()
    header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(body), len(body) + len(raw)]}
    body += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open("net.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
P
expect 1 "name it with --activation" "$bridle" import net.safetensors --out net
expect 0 "Lipschitz bound" "$bridle" import net.safetensors --activation tanh --out net
expect 0 "valid" "$bridle" check net/certificate.json
expect 0 "valid" "$python" "$checker" net/certificate.json
expect 0 "no heads of attention" "$bridle" certify net --search 1 --heads
expect 1 "is there already" "$bridle" import net.safetensors --activation tanh --out net
head -c 100 net.safetensors >cut.safetensors
expect 1 "cut.safetensors" "$bridle" import cut.safetensors --activation tanh --out cut
[ ! -e cut ] || fail "a refused import left a folder"
echo "elsewhere: passed"
