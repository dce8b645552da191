"""Strict reading of the three files for check_certificate.py: JSON texts, certificate.json, config.json,
model.safetensors. The rules are those of docs/reference/certificate.md, "The language": whatever could be
read in two ways is refused. A new option of a model is a line of a table here, with its tensors if any."""
import hashlib
import json
import math
import os
import stat
import types
from collections import namedtuple

import numpy as np

LARGEST_TEXT = 2 ** 22  # bytes of a JSON text
DEEPEST_TEXT = 16  # objects and lists within one another
MOST_KEYS = 1000  # of an object of certificate.json and of config.json
LARGEST_INTEGER = 2 ** 53 - 1  # of a JSON text
LARGEST_SIZE = 2 ** 24  # of anything that a configuration counts


class Unreadable(Exception):
    """A file cannot be read, or is not JSON and should be: exit code 1."""


class Refused(Exception):
    """The certificate does not hold: exit code 3."""


def need(condition, message):
    if not condition:
        raise Refused(message)


# ---- Files and JSON texts

def open_regular(path):
    """The file, and its size. Opening does not wait for the other end of a FIFO, which is refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise Unreadable(str(error)) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Unreadable(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb"), status.st_size


def depth_of(value):
    """How many objects and lists are within one another."""
    if type(value) is dict:
        return 1 + max(map(depth_of, value.values()), default=0)
    if type(value) is list:
        return 1 + max(map(depth_of, value), default=0)
    return 0


def read_integer(text):
    value = int(text[:18])  # 2^53 has 16 digits
    if text == "-0" or abs(value) > LARGEST_INTEGER:
        raise ValueError(f"it holds the integer {text[:20]}")
    return value


def read_float(text):
    """Also asked about NaN and Infinity, which Python takes for numbers."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"it holds the number {text[:20]}")
    return value


def parse_json(data, most_keys):
    """The value. Raises ValueError or RecursionError for all that readers could take in two ways."""
    def unique(pairs):
        value = dict(pairs)
        if len(value) != len(pairs) or len(pairs) > most_keys:
            raise ValueError("a key comes twice, or there are too many")
        return value

    if len(data) > LARGEST_TEXT:
        raise ValueError(f"it has more than {LARGEST_TEXT} bytes")
    value = json.loads(data.decode(), object_pairs_hook=unique, parse_int=read_integer,
                       parse_float=read_float, parse_constant=read_float)
    if depth_of(value) > DEEPEST_TEXT:
        raise ValueError(f"it is nested more than {DEEPEST_TEXT} deep")
    if b"\\u" in data:
        json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError, a ValueError, for half a pair
    return value


def read_json(path):
    file, size = open_regular(path)
    with file:
        try:
            return parse_json(file.read(min(size, LARGEST_TEXT + 1)), MOST_KEYS)
        except (ValueError, RecursionError, OSError) as error:
            raise Unreadable(f"{path} is not JSON that can be read: {error}") from error


def same(a, b):
    """Equal in every key, value and type: 1, 1.0 and true differ."""
    if type(a) is dict and type(b) is dict:
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if type(a) is list and type(b) is list:
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


# ---- What a value may be: a type, a tuple of words, a range of integers, Reals, or a list of one of these

Reals = namedtuple("Reals", "least largest")  # integers, too
ANY = Reals(-math.inf, math.inf)
NOT_NEGATIVE = Reals(0, math.inf)
POSITIVE = Reals(math.ulp(0.0), math.inf)
BELOW_ONE = Reals(0, math.nextafter(1.0, 0.0))
SIZE = range(1, LARGEST_SIZE + 1)
SIZE_OR_ZERO = range(0, LARGEST_SIZE + 1)


def fits(value, allowed):
    if type(allowed) is list:
        return type(value) is list and all(fits(entry, allowed[0]) for entry in value)
    if type(allowed) is tuple:
        return type(value) is str and value in allowed
    if type(allowed) is range:
        return type(value) is int and value in allowed
    if type(allowed) is Reals:
        return type(value) in (int, float) and allowed.least <= value <= allowed.largest
    return type(value) is allowed


# ---- certificate.json

LAYER_FIELDS = {"name", "activation", "lipschitz", "log10_activation", "log10_lipschitz", "share"}
FIELDS = {"schema", "version", "formula", "certified", "norm", "lipschitz", "log10_lipschitz",
          "largest_logit_lipschitz", "log10_largest_logit_lipschitz", "token_radius", "attack_radius",
          "domain_radius", "observed_lipschitz", "weights", "architecture", "layers", "matrices"}
CONSTANTS = {"schema": 1, "formula": "sound", "certified": True, "norm": "RMS to RMS, largest over tokens"}
WEIGHT_FIELDS = {"file": ("model.safetensors",), "sha256": str, "dtype": ("F32", "F16", "BF16")}


def check_fields(c, config):
    """All but the numbers, which the proof reads."""
    need(type(c) is dict and c.keys() == FIELDS, "its fields are not those of schema 1")
    for key, value in {**CONSTANTS, "architecture": config}.items():
        need(same(c[key], value), f"{key} is {c[key]}, not {value}")
    need(type(c["version"]) is str, "version must be a text")
    weights = c["weights"]
    need(type(weights) is dict and weights.keys() == WEIGHT_FIELDS.keys(), "the fields of weights")
    for key, allowed in WEIGHT_FIELDS.items():
        need(fits(weights[key], allowed), f"weights: {key} is {weights[key]}")
    need(fits(c["layers"], [dict]), "layers must be a list of objects")
    need(all(layer.keys() == LAYER_FIELDS for layer in c["layers"]), "the fields of layers")
    need(fits(c["matrices"], [dict]), "matrices must be a list of objects")
    need(all(type(entry.get("name")) is str for entry in c["matrices"]), "matrices must have names")


def number(value, what):
    """A stated number: finite, because every number of a JSON text is, and not negative."""
    need(type(value) in (int, float) and value >= 0, f"{what} is {value!r}, not a number >= 0")
    return float(value)


def check_shares(c):
    """A layer's part of log L in float64, with minus infinity for null; null where that is not finite, or L
    is 1. Logarithms are known to be numbers or null."""
    stated = [holder["log10_lipschitz"] for holder in (c, *c["layers"])]
    whole, *logs = (-math.inf if log is None else log for log in stated)
    for layer, before, log in zip(c["layers"], [0.0, *logs], logs):
        part, share = (log - before) / whole if whole else math.nan, layer["share"]
        is_near = type(share) in (int, float) and abs(share - part) <= 1e-6
        is_right = is_near if math.isfinite(part) else share is None
        need(is_right, f"{layer['name']}: share is {share}, not {part}")


class Matrices:
    """The entries of "matrices", and the tensors that they are about; knows which numbers were asked for."""
    SPECTRAL = {"norm", "heads", "scaled_heads", "scaled_columns"}

    def __init__(self, entries, tensors):
        self.tensors = tensors
        self.entries = {entry["name"]: entry for entry in entries}
        need(len(self.entries) == len(entries), "matrices: a name comes twice")
        self.asked = {}  # keys, by name

    def stated(self, what, name):
        entry, shape = self.entries.get(name, {}), [*self.tensors[name].shape]
        need(same(entry.get("shape"), shape), f"the shape of {name} must be stated as {shape}")
        need(what in entry, f"{what} of {name} is not stated")
        self.asked.setdefault(name, {"name", "shape", "method"}).add(what)
        return entry[what]

    def stated_list(self, what, name, heads):
        values = self.stated(what, name)
        need(type(values) is list and len(values) == heads, f"{what} of {name} must have {heads} numbers")
        return values

    def scales(self, name, heads):
        """Positive float32 numbers that the certificate chooses; 1 where it chooses none."""
        if "scales" not in self.entries.get(name, {}):
            return [1.0] * heads
        scales = [number(value, f"scales of {name}") for value in self.stated_list("scales", name, heads)]
        largest = float(np.finfo(np.float32).max)
        for scale in scales:
            need(0 < scale <= largest and float(np.float32(scale)) == scale, f"{name}: {scale} as a scale")
        need(any(scale != 1 for scale in scales), f"scales of {name} must not all be 1")
        return scales

    def refuse_what_nobody_asked_for(self):
        for name, entry in self.entries.items():
            need(entry.keys() == self.asked.get(name), f"matrices: {name}: other numbers than are needed")
            method = "cholesky" if entry.keys() & self.SPECTRAL else "sums"
            need(entry["method"] == method, f"the method of {name} must be {method}")


# ---- config.json

ACTIVATIONS = ("gelu_tanh", "gelu", "relu", "maxmin", "abs", "relu_squared", "tanh", "silu")
NORMS = ("none", "tanh", "rms_norm", "layer_norm", "center_norm")

# Every key with its default and what it may be. read_options fills in what is 0.
COMMON = {
    "architectures": ([], [str]),
    "torch_dtype": ("", str),
    "transformers_version": ("", str),
    "bridle_version": ("", str),
    "initialization": ("orthogonal", ("orthogonal", "normal", "xavier_spectral")),
    "final_scale": (1.0, ANY)}
MLP = {
    **COMMON,
    "model_type": ("", ("bridle_mlp",)),
    "layer_sizes": ([], [SIZE]),
    "mlp_activation": ("relu", ACTIVATIONS),
    "bias": (False, bool),
    "input_bound": (1.0, POSITIVE)}
TRANSFORMER = {
    **COMMON,
    "model_type": ("", ("bridle",)),
    "vocab_size": (0, SIZE),
    "real_vocab_size": (0, SIZE_OR_ZERO),
    "hidden_size": (256, SIZE),
    "num_hidden_layers": (3, SIZE),
    "num_attention_heads": (4, SIZE),
    "num_key_value_heads": (0, SIZE_OR_ZERO),
    "intermediate_size": (0, SIZE_OR_ZERO),
    "max_position_embeddings": (0, SIZE),
    "mixing": ("attention", ("attention", "quadrature")),
    "memory_channels": (0, SIZE_OR_ZERO),
    "content_heads": (0, SIZE_OR_ZERO),
    "content_size": (0, SIZE_OR_ZERO),
    "positions": ("rope", ("rope", "learned", "none")),
    "rope_theta": (10000.0, POSITIVE),
    "rope_half_truncated": (False, bool),
    "position_bias": (False, bool),
    "position_bias_offsets": (0, SIZE_OR_ZERO),
    "position_bias_start": (0.0, ANY),
    "position_bias_dilation": (1, SIZE),
    "attention_window": (0, SIZE_OR_ZERO),
    "window_block": (1, SIZE),
    "long_window_layers": ([], [SIZE_OR_ZERO]),
    "document_token": (-1, range(-1, LARGEST_SIZE)),
    "qk_norm": (False, bool),
    "qk_norm_epsilon": (1e-6, NOT_NEGATIVE),
    "value_norm": (False, bool),
    "softmax_scale": (1.0, ANY),
    "attention_output_scale": (1 / 3, ANY),
    "hidden_act": ("gelu_tanh", ACTIVATIONS),
    "activation_divisor": (1.1289, POSITIVE),
    "residual": ("convex", ("convex", "plain", "quadrature")),
    "gated": (False, bool),
    "attention_alpha": (0.0, ANY),
    "mlp_alpha": (0.0, ANY),
    "learned_alpha": ("none", ("none", "scalar", "vector")),
    "norm": ("none", NORMS),
    "norm_epsilon": (1e-5, NOT_NEGATIVE),
    "norm_gain": (True, bool),
    "norm_after": (False, bool),
    "learnable_scales": (False, bool),
    "bias": (False, bool),
    "dropout": (0.0, BELOW_ONE),
    "branch_dropout": (0.0, BELOW_ONE),
    "drop_path": (0.0, BELOW_ONE),
    "tie_embeddings": (False, bool),
    "logit_bias": (False, bool),
    "logit_soft_cap": (0.0, NOT_NEGATIVE)}
WORDS_OF_SWITCHES = {"learned_alpha": {False: "none", True: "scalar"}}  # keys that were switches once


def read_options(config):
    """The options of a model, with all that is 0 filled in."""
    need(type(config) is dict, "config.json must be an object")
    is_mlp = config.get("model_type") == "bridle_mlp"
    known = MLP if is_mlp else TRANSFORMER
    values = {key: default for key, (default, _) in known.items()}
    for key, value in config.items():
        need(key in known, f"config.json: {key[:100]} is not known")
        words = WORDS_OF_SWITCHES.get(key)
        values[key] = words[value] if words and type(value) is bool else value
    for key, (_, allowed) in known.items():
        need(fits(values[key], allowed), f"config.json: {key} = {str(values[key])[:100]}")
    o = types.SimpleNamespace(**values, is_mlp=is_mlp)
    if is_mlp:
        check_mlp(o)
    else:
        complete_transformer(o)
        check_transformer(o)
    return o


def check_mlp(o):
    need(len(o.layer_sizes) >= 2, "layer_sizes must be at least two sizes")
    hidden_sizes = o.layer_sizes[1:-1]
    need(o.mlp_activation != "maxmin" or all(size % 2 == 0 for size in hidden_sizes), "maxmin sorts pairs")
    need(not o.bias or o.mlp_activation != "relu_squared", "bias does not go with relu_squared")


def complete_transformer(o):
    o.real_vocab_size = o.real_vocab_size or o.vocab_size
    o.num_key_value_heads = o.num_key_value_heads or o.num_attention_heads
    o.intermediate_size = o.intermediate_size or 4 * o.hidden_size
    o.content_size = o.content_size or (o.hidden_size if o.content_heads else 0)
    o.position_bias_offsets = o.position_bias_offsets or o.max_position_embeddings
    o.attention_alpha = o.attention_alpha or 0.5 / o.num_hidden_layers
    o.mlp_alpha = o.mlp_alpha or 0.5 / o.num_hidden_layers
    o.head_size = o.hidden_size // o.num_attention_heads
    o.has_norm_gain = o.norm_gain and o.norm in ("rms_norm", "layer_norm", "center_norm")
    o.has_norm_bias = o.bias and o.norm in ("layer_norm", "center_norm")


def check_transformer(o):
    """What options have to do with one another."""
    need(o.real_vocab_size <= o.vocab_size, "real_vocab_size must be at most vocab_size")
    need(o.document_token < o.vocab_size, "document_token must be below vocab_size")
    need(o.intermediate_size in SIZE, "intermediate_size is out of range")
    need(o.hidden_act != "maxmin" or o.intermediate_size % 2 == 0, "maxmin sorts pairs")
    need(o.norm != "center_norm" or o.hidden_size > 1, "center_norm needs two entries")
    need(o.num_attention_heads % o.num_key_value_heads == 0,
         "num_attention_heads must be a multiple of num_key_value_heads")
    need(o.positions != "rope" or o.head_size % 2 == 0, "rope rotates pairs")
    need(not o.rope_half_truncated or (o.positions == "rope" and o.head_size % 4 == 0),
         "rope_half_truncated rotates half of the pairs")
    need(o.attention_window % o.window_block == 0, "attention_window must be a multiple of window_block")
    need(o.attention_window > 0 or (o.window_block == 1 and not o.long_window_layers),
         "blocks and long layers are those of a window")
    need(all(layer < o.num_hidden_layers for layer in o.long_window_layers),
         "long_window_layers must be below num_hidden_layers")
    need(not o.norm_after or o.norm != "none", "norm_after needs a norm")
    need(o.residual != "quadrature"
         or (o.mixing == "quadrature" and o.learned_alpha == "none" and not o.gated),
         "residual = quadrature goes with mixing = quadrature, without a learned alpha or a gate")
    if o.mixing == "quadrature":
        need(o.hidden_size % 32 == o.memory_channels % 32 == o.content_size % 32 == 0,
             "sizes must be multiples of 32")
        need(o.norm == "none" and o.positions == "none" and not o.qk_norm and not o.value_norm
             and not o.learnable_scales and o.num_key_value_heads == o.num_attention_heads,
             "what does not go with quadrature")
    else:
        need(o.memory_channels == 0, "memory_channels go with quadrature")
        need(o.content_heads == 0, "content_heads go with quadrature")
        need(o.hidden_size % o.num_attention_heads == 0,
             "hidden_size must be a multiple of num_attention_heads")


# ---- Names and shapes of the weights that the options ask for, one after the other

def linear_tensors(name, outputs, inputs, has_bias):
    yield f"{name}.weight", [outputs, inputs]
    if has_bias:
        yield f"{name}.bias", [outputs]


def norm_tensors(o, name):
    if o.has_norm_gain:
        yield f"{name}.weight", [o.hidden_size]
    if o.has_norm_bias:
        yield f"{name}.bias", [o.hidden_size]


def alpha_tensors(o, name):
    if o.learned_alpha != "none":
        yield f"{name}_alpha", [o.hidden_size if o.learned_alpha == "vector" else 1]


def attention_tensors(o, name):
    d, read = o.hidden_size, o.head_size * o.num_key_value_heads
    for part, rows in (("q", d), ("k", read), ("v", read), ("o", d)):
        yield from linear_tensors(f"{name}.{part}_proj", rows, d, o.bias)
    if o.position_bias:
        yield f"{name}.position_bias", [o.num_attention_heads, o.position_bias_offsets]
    if o.learnable_scales:
        yield f"{name}.output_scale", [1]


def mixing_tensors(o, name):
    d, heads, readers, channels = o.hidden_size, o.num_attention_heads, o.content_heads, o.memory_channels
    parts = 1 + heads + readers  # of the size of a token
    yield f"{name}.position_bias", [heads, o.position_bias_offsets]
    yield f"{name}.coefficients", [parts + (1 if channels else 0)]
    yield f"{name}.out_proj.weight", [d, parts * d + channels]
    if readers:
        yield f"{name}.content_q_proj.weight", [readers * o.content_size, d]
        yield f"{name}.content_k_proj.weight", [readers * o.content_size, d]
        yield f"{name}.content_position_bias", [readers, o.position_bias_offsets]
        yield f"{name}.content_log_range", [readers]
    if channels:
        yield f"{name}.memory_proj.weight", [channels, d]
        yield f"{name}.memory_log_decay", [channels]


def block_tensors(o, block):
    if o.mixing == "quadrature":
        yield from mixing_tensors(o, f"{block}.mixing")
    else:
        yield from attention_tensors(o, f"{block}.self_attn")
        yield from alpha_tensors(o, f"{block}.attention")
    if o.gated:
        yield from linear_tensors(f"{block}.mlp.gate_proj", o.intermediate_size, o.hidden_size, o.bias)
    yield from linear_tensors(f"{block}.mlp.up_proj", o.intermediate_size, o.hidden_size, o.bias)
    if o.residual == "quadrature":
        yield f"{block}.mlp.coefficients", [2]
        yield f"{block}.mlp.down_proj.weight", [o.hidden_size, o.hidden_size + o.intermediate_size]
    else:
        yield from linear_tensors(f"{block}.mlp.down_proj", o.hidden_size, o.intermediate_size, o.bias)
    yield from alpha_tensors(o, f"{block}.mlp")
    yield from norm_tensors(o, f"{block}.input_layernorm")
    yield from norm_tensors(o, f"{block}.post_attention_layernorm")


def mlp_tensors(o):
    for i, (inputs, outputs) in enumerate(zip(o.layer_sizes, o.layer_sizes[1:])):
        yield from linear_tensors(f"model.layers.{i}", outputs, inputs, o.bias)


def transformer_tensors(o):
    yield "model.embed_tokens.weight", [o.vocab_size, o.hidden_size]
    if o.positions == "learned":
        yield "model.embed_positions.weight", [o.max_position_embeddings, o.hidden_size]
    for i in range(o.num_hidden_layers):
        yield from block_tensors(o, f"model.layers.{i}")
    if not o.norm_after:
        yield from norm_tensors(o, "model.norm")
    if not o.tie_embeddings:
        yield "lm_head.weight", [o.vocab_size, o.hidden_size]
    if o.learnable_scales:
        yield "final_scale", [1]
    if o.logit_bias:
        yield "logit_bias", [o.real_vocab_size]


# ---- model.safetensors

WORDS = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
TENSOR_FIELDS = {"dtype": str, "shape": [int], "data_offsets": [int]}


def read_bytes(file, count):
    data = file.read(count)
    need(len(data) == count, "model.safetensors became shorter while it was read")
    return data


def read_header(file, size):
    """The header's bytes, and its tensors in the order of their places."""
    need(size >= 8, "model.safetensors has no header")
    first = read_bytes(file, 8)
    length = int.from_bytes(first, "little")
    need(length <= min(LARGEST_TEXT, size - 8), f"model.safetensors: a header of {length} bytes")
    text = read_bytes(file, length)
    need(text[:1] == b"{", "model.safetensors: the header must begin with '{'")
    header = parse_json(text, LARGEST_TEXT)
    metadata = header.pop("__metadata__", {})
    need(type(metadata) is dict and fits([*metadata.values()], [str]), "__metadata__ must hold texts")
    for name, entry in header.items():
        need(type(entry) is dict and entry.keys() == TENSOR_FIELDS.keys(), f"{name}: its fields")
        need(all(fits(entry[key], allowed) for key, allowed in TENSOR_FIELDS.items()), f"{name}: {entry}")
    return first + text, sorted(header.items(), key=lambda item: item[1]["data_offsets"])


def compare_tensors(tensors, o, dtype, data_size):
    """Before any data are read: what is there is what the options ask for, in one dtype, without gaps."""
    shapes = {name: entry["shape"] for name, entry in tensors}
    count = 0
    for name, shape in mlp_tensors(o) if o.is_mlp else transformer_tensors(o):
        need(shapes.get(name) == shape, f"{name} has the shape {shapes.get(name)} instead of {shape}")
        count += 1
    need(count == len(shapes), "model.safetensors holds a tensor that the model does not have")
    place = 0
    for name, entry in tensors:
        end = place + WORDS[dtype].itemsize * math.prod(entry["shape"])
        is_here = entry["dtype"] == dtype and entry["data_offsets"] == [place, end]
        need(is_here, f"{name} is {entry}, at byte {place}")
        place = end
    need(place == data_size, "the tensors are not all of model.safetensors")


def read_weights(file, size, o, stated):
    """The tensors, as float32, of the file whose digest and dtype are stated. What is hashed is decoded."""
    dtype = stated["dtype"]
    header, tensors = read_header(file, size)
    compare_tensors(tensors, o, dtype, size - len(header))
    data = read_bytes(file, size - len(header))
    digest = hashlib.sha256(header)
    digest.update(data)
    need(digest.hexdigest() == stated["sha256"], f"the SHA-256 of model.safetensors is {digest.hexdigest()}")
    result = {}
    for name, entry in tensors:
        words = np.frombuffer(data, WORDS[dtype], math.prod(entry["shape"]), entry["data_offsets"][0])
        if dtype == "BF16":  # the upper half of a float32
            words = (words.astype(np.uint32) << 16).view(np.float32)
        result[name] = words.astype(np.float32, copy=False).reshape(entry["shape"])
        need(np.isfinite(result[name]).all(), f"{name} holds NaN or infinity")
    return result
