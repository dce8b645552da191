#!/usr/bin/env python3
"""A GPT-2 that somebody else has trained: its Lipschitz bound, what each layer costs, and how large logits can become.

    certify_gpt2.py BRIDLE [FOLDER]

FOLDER holds config.json and model.safetensors as Hugging Face's `save_pretrained` writes them. Without one, a small
GPT-2 with random weights takes its place. Needs NumPy and the program BRIDLE.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np


def random_gpt2(folder, d=64, layers=2, heads=4, vocabulary=200, length=32):
    """config.json and model.safetensors under GPT-2's names; its linear layers are stored as [in, out]."""
    dice = np.random.default_rng(0)
    shapes = {"wte.weight": (vocabulary, d), "wpe.weight": (length, d)}
    for i in range(layers):
        block = f"h.{i}."
        for name, inputs, outputs in (("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, 4 * d),
                                      ("mlp.c_proj", 4 * d, d)):
            shapes.update({f"{block}{name}.weight": (inputs, outputs), f"{block}{name}.bias": (outputs,)})
        for name in "ln_1", "ln_2":
            shapes.update({f"{block}{name}.weight": (d,), f"{block}{name}.bias": (d,)})
    shapes.update({"ln_f.weight": (d,), "ln_f.bias": (d,)})
    header, body = {}, b""
    for name, shape in shapes.items():
        is_gain = ".ln_" in name or name.startswith("ln_f")
        values = 0.02 * dice.normal(size=shape) + (1.0 if is_gain and name.endswith("weight") else 0.0)
        data = values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    (folder / "config.json").write_text(json.dumps(
        {"model_type": "gpt2", "n_embd": d, "n_layer": layers, "n_head": heads, "vocab_size": vocabulary,
         "n_positions": length, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}))


def main():
    bridle = sys.argv[1]
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else place
        if folder == place:
            random_gpt2(place)
        subprocess.run([bridle, "import", folder, "--out", place / "certified"], check=True)
        words = [bridle, "certify", place / "certified", "--search", "0", "--heads", "--json"]
        facts = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    print(f"Lipschitz bound: 10^{facts['log10_lipschitz']:.1f}")
    before = 0.0
    for layer in facts["layers"]:
        print(f"  {layer['name']:28} costs a factor of 10^{layer['log10_lipschitz'] - before:.2f}")
        before = layer["log10_lipschitz"]


if __name__ == "__main__":
    main()
