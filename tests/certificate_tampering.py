#!/usr/bin/env python3
"""Makes certificates that must fail: copies a certified folder and changes one thing.

    certificate_tampering.py FOLDER OUT CASE    config.json, model.safetensors and certificate.json of FOLDER, changed
    certificate_tampering.py --list [FOLDER]    every case that can be made (of this model), with the expected exit code

The model must be trained, or at least not zero: a zero matrix has nothing that could be lowered."""
import copy
import hashlib
import json
import math
import pathlib
import sys

import numpy as np

FORMATS = {"F32": (np.uint32, 30), "F16": (np.uint16, 14), "BF16": (np.uint16, 14)}  # words; the exponent's first bit
CASES = {}


class Impossible(Exception):
    """This model or certificate has nothing to which the case could be done."""


class Folder:
    """What is tampered with: the certificate, the configuration, and the weight file as bytes."""

    def __init__(self, path):
        self.config = json.loads((path / "config.json").read_text())
        self.certificate = json.loads((path / "certificate.json").read_text())
        self.weights = (path / "model.safetensors").read_bytes()
        self.certificate_text = None  # instead of `certificate`

    def write(self, path):
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(json.dumps(self.config, indent=2) + "\n")
        (path / "certificate.json").write_text(self.certificate_text or json.dumps(self.certificate, indent=2) + "\n")
        (path / "model.safetensors").write_bytes(self.weights)

    def seal(self):  # so that the SHA-256 is not what fails
        self.certificate["weights"]["sha256"] = hashlib.sha256(self.weights).hexdigest()

    def header(self):
        start = 8 + int.from_bytes(self.weights[:8], "little")
        return json.loads(self.weights[8:start]), self.weights[start:]

    def set_header(self, header, data):
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.weights = len(text).to_bytes(8, "little") + text + data

    def words(self, name):  # a tensor's bits, to be changed, and what puts them back
        header, data = self.header()
        entry = header[name]
        begin, end = entry["data_offsets"]
        words = np.frombuffer(data[begin:end], FORMATS[entry["dtype"]][0]).copy()

        def put_back():
            self.set_header(header, data[:begin] + words.tobytes() + data[end:])
        return words, FORMATS[entry["dtype"]][1], put_back

    def entry(self, key):  # of the first weight with a number that can be lowered
        for entry in self.certificate["matrices"]:
            if np.max(entry.get(key, 0)) > 0:
                return entry
        raise Impossible(f"no weight has a positive {key}")


def case(code):
    def add(function):
        CASES[function.__name__] = function, code
        return function
    return add


def require(condition, what):
    if not condition:
        raise Impossible(what)


def lower_bound(holder, key):
    require(holder["log10_" + key] is not None, f"{key} is 0")
    holder[key] = 1.0 if holder[key] is None else holder[key] * 0.99


def enlarge(holder, key):
    if holder["log10_" + key] is not None:
        holder["log10_" + key] += 1.0000001
    if holder[key] is not None:
        holder[key] *= 10
        if not math.isfinite(holder[key]):
            holder[key] = None


def enlarge_bounds(f):
    c, before = f.certificate, 0.0
    enlarge(c, "lipschitz")
    enlarge(c, "largest_logit_lipschitz")
    for layer in c["layers"]:
        enlarge(layer, "lipschitz")
        enlarge(layer, "activation")
    for layer in c["layers"]:
        total, log = c["log10_lipschitz"], layer["log10_lipschitz"]
        layer["share"] = (log - before) / total if total and log is not None else None
        before = log


# ---- The statement
@case(0)
def untouched(f):
    pass


@case(3)
def lowered_lipschitz(f):
    lower_bound(f.certificate, "lipschitz")


@case(3)
def lowered_logarithm(f):
    require(f.certificate["log10_lipschitz"] is not None, "lipschitz is 0")
    f.certificate["log10_lipschitz"] -= 0.01


@case(3)
def lowered_largest_logit(f):
    lower_bound(f.certificate, "largest_logit_lipschitz")


@case(3)
def lowered_layer_lipschitz(f):
    lower_bound(f.certificate["layers"][-1], "lipschitz")


@case(3)
def lowered_layer_activation(f):
    lower_bound(f.certificate["layers"][-1], "activation")


@case(3)
def lowered_domain_radius(f):
    f.certificate["domain_radius"] *= 0.5


@case(3)
def lowered_token_radius(f):
    f.certificate["token_radius"] *= 0.5


@case(3)
def raised_attack_radius(f):
    f.certificate["attack_radius"] += f.certificate["domain_radius"]


@case(3)
def observed_above_bound(f):
    require(f.certificate["lipschitz"] is not None, "no double is above the bound")
    f.certificate["observed_lipschitz"] = f.certificate["lipschitz"] * 1.001


@case(3)
def swapped_layers(f):
    layers = f.certificate["layers"]
    require(len(layers) >= 2, "there is one layer")
    layers[0], layers[1] = layers[1], layers[0]


@case(3)
def missing_layer(f):
    f.certificate["layers"].pop(0)


@case(3)
def wrong_share(f):
    require(f.certificate["layers"][-1]["share"] is not None, "there are no shares")
    f.certificate["layers"][-1]["share"] += 0.01


@case(3)
def not_certified(f):
    f.certificate["certified"] = False


@case(3)
def papers_formula(f):
    f.certificate["formula"] = "paper"


@case(3)
def missing_field(f):
    del f.certificate["domain_radius"]


# ---- Numbers about weights
@case(3)
def lowered_norm(f):
    f.entry("norm")["norm"] *= 0.999


@case(3)
def slightly_lowered_norm(f):
    f.entry("norm")["norm"] *= 1 - 1e-6


@case(3)
def lowered_head_norm(f):
    heads = f.entry("heads")["heads"]
    heads[heads.index(max(heads))] *= 0.999


@case(3)
def lowered_scaled_heads(f):
    f.entry("scaled_heads")["scaled_heads"] *= 0.999


@case(3)
def lowered_row_rms(f):
    f.entry("largest_row_rms")["largest_row_rms"] *= 0.999


@case(3)
def negative_norm(f):
    f.entry("norm")["norm"] *= -1


@case(3)
def negative_head_scale(f):
    entry = next((e for e in f.certificate["matrices"] if e["name"].endswith("o_proj.weight")), None)
    require(entry and f.config.get("num_attention_heads"), "there is no attention")
    entry["scales"] = [-1.0] * f.config["num_attention_heads"]


@case(3)
def text_for_a_number(f):
    entry = f.entry("norm")
    entry["norm"] = repr(entry["norm"])


@case(1)
def nan_for_a_number(f):
    f.entry("norm")["norm"] = math.nan


@case(1)
def infinity_for_a_number(f):
    f.entry("norm")["norm"] = math.inf


@case(1)
def number_beyond_double(f):
    f.entry("norm")["norm"] = "@"
    f.certificate_text = json.dumps(f.certificate).replace('"@"', "1e999")


@case(3)
def missing_number(f):
    del f.entry("norm")["norm"]


@case(3)
def missing_matrix(f):
    f.certificate["matrices"].remove(f.entry("norm"))


@case(3)
def duplicated_matrix(f):
    f.certificate["matrices"].append(copy.deepcopy(f.entry("norm")))


@case(3)
def unknown_matrix(f):
    f.certificate["matrices"].append({**f.entry("norm"), "name": "model.layers.999.weight"})


# ---- The weights
@case(3)
def flipped_bit(f):
    f.weights = f.weights[:-1] + bytes([f.weights[-1] ^ 1])


@case(3)
def flipped_exponent_bit_resealed(f):
    words, bit, put_back = f.words(stored(f))
    exponent = 1 << bit
    magnitude = words & (2 * exponent - 1)
    small = np.where(magnitude < exponent, magnitude, 0)  # below 2: the exponent's first bit is not set
    require(small.max() > 0, "no entry is below 2")
    words[np.argmax(small)] ^= exponent
    put_back()
    f.seal()


@case(3)
def nan_weight_resealed(f):
    words, bit, put_back = f.words(stored(f))
    words[len(words) // 2] = 2 * (1 << bit) - 1  # all ones but the sign
    put_back()
    f.seal()


@case(3)
def missing_tensor_resealed(f):
    header, data = f.header()
    last = max((n for n in header if n != "__metadata__"), key=lambda n: header[n]["data_offsets"])
    begin, _ = header.pop(last)["data_offsets"]
    f.set_header(header, data[:begin])
    f.seal()


@case(3)
def further_tensor_resealed(f):
    header, data = f.header()
    dtype = header[stored(f)]["dtype"]
    size = np.dtype(FORMATS[dtype][0]).itemsize
    header["model.spare"] = {"dtype": dtype, "shape": [1], "data_offsets": [len(data), len(data) + size]}
    f.set_header(header, data + bytes(size))
    f.seal()


@case(3)
def truncated_weights(f):
    f.weights = f.weights[:-100]


@case(3)
def truncated_weights_resealed(f):
    f.weights = f.weights[:-100]
    f.seal()


@case(3)
def truncated_header_resealed(f):
    f.weights = f.weights[:20]
    f.seal()


def stored(f):  # a matrix with entries, by its name in the file
    name = f.entry("norm")["name"]
    return name if name in f.header()[0] else "model.embed_tokens.weight"


# ---- Another architecture
def need_transformer(f):
    require(f.config["model_type"] == "bridle", "only a transformer has it")


def change_both(f, key, value):
    f.config[key] = value
    f.certificate["architecture"] = f.config


@case(3)
def other_softmax_scale(f):
    need_transformer(f)
    change_both(f, "softmax_scale", 1e6 * (f.config.get("softmax_scale", 1.0) or 1.0))


@case(3)
def other_softmax_scale_in_config_only(f):
    need_transformer(f)
    f.config["softmax_scale"] = 1e6


@case(3)
def pairs_of_an_odd_number(f):
    require(any(size % 2 for size in f.config.get("layer_sizes", [])[1:-1]), "every hidden size is even")
    change_both(f, "mlp_activation", "maxmin")


@case(3)
def unknown_activation(f):
    require(f.config["model_type"] == "bridle_mlp", "only an MLP has it")
    change_both(f, "mlp_activation", "softmax")


@case(3)
def other_number_of_heads(f):
    need_transformer(f)
    heads = f.config.get("num_attention_heads", 4)
    change_both(f, "num_attention_heads", heads // 2 if heads % 2 == 0 else 2 * heads)


@case(3)
def no_epsilon(f):
    need_transformer(f)
    require(f.config.get("norm") in ("rms_norm", "layer_norm"), "there is no norm")
    change_both(f, "norm_epsilon", 0.0)


@case(3)
def other_final_scale(f):
    require(not f.config.get("learnable_scales"), "the final scale is a weight")
    change_both(f, "final_scale", 2 * (f.config.get("final_scale", 1.0) or 1.0))


@case(3)
def unknown_key(f):
    change_both(f, "sliding_window", 128)


# ---- Files
@case(1)
def truncated_certificate(f):
    text = json.dumps(f.certificate, indent=2)
    f.certificate_text = text[:len(text) // 2]


@case(1)
def repeated_key(f):
    f.certificate_text = json.dumps(f.certificate)[:-1] + ', "attack_radius": 0}'


# ---- Harmless: they hold, but are not tight
@case(0)
def larger_bounds(f):
    enlarge_bounds(f)


@case(0)
def larger_norm(f):
    f.entry("norm")["norm"] *= 1.01
    enlarge_bounds(f)


def tampered(folder, name):
    f = Folder(folder)
    CASES[name][0](f)
    return f


def possible(folder, name):
    try:
        tampered(folder, name)
        return True
    except Impossible:
        return False


def main(arguments):
    if arguments[:1] == ["--list"] and len(arguments) <= 2:
        for name, (_, code) in CASES.items():
            if len(arguments) == 1 or possible(pathlib.Path(arguments[1]), name):
                print(name, code)
        return 0
    if len(arguments) != 3 or arguments[2] not in CASES:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        tampered(pathlib.Path(arguments[0]), arguments[2]).write(pathlib.Path(arguments[1]))
        return 0
    except Impossible as error:
        print(f"{arguments[2]}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
