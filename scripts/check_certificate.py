#!/usr/bin/env python3
"""Checks a certificate.json against the model.safetensors and config.json of a folder; shares no code with Bridle.

Exit code 0: valid, or valid but not tight; 3: it does not hold; 1: a file cannot be read; 2: wrong usage. The format
and its rules are in docs/certificate.md; numbers of statements below are those of docs/theory/modules.md. Every stated
number is proved from the weights, in float64 with its rounding. Then the bound is walked through the modules from the
stated numbers, in arithmetic of 100 bits that always rounds up, and compared with what the certificate states."""
import argparse, hashlib, json, math, os, pathlib, stat, sys, types
from fractions import Fraction
os.environ.setdefault("OMP_NUM_THREADS", "1")  # most factorisations are small: threads would wait for each other
import numpy as np

LARGEST_TEXT, DEEPEST_TEXT, MOST_KEYS = 2 ** 22, 16, 1000  # of a JSON text: bytes, nesting, keys of an object
LARGEST_INTEGER, LARGEST_SIZE = 2 ** 53 - 1, 2 ** 24  # of a JSON text; of anything that a configuration counts
LOG_OF_LARGEST, LARGEST_FLOAT32 = 308.25471555991674, float(np.finfo(np.float32).max)  # log10 of the largest double
FORMATS = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
# Largest derivatives of all activations: statement 3. That of relu_squared is for |x| at most 1/2; see activation().
SLOPES = {"gelu_tanh": 1.128993068659, "gelu": 1.128904145186, "relu": 1.0, "maxmin": 1.0, "abs": 1.0,
          "relu_squared": 1.0}
LAYER_FIELDS = {"name", "activation", "lipschitz", "log10_activation", "log10_lipschitz", "share"}
FIELDS = {"schema", "version", "formula", "certified", "norm", "lipschitz", "log10_lipschitz", "largest_logit_lipschitz",
          "log10_largest_logit_lipschitz", "token_radius", "attack_radius", "domain_radius", "observed_lipschitz",
          "weights", "architecture", "layers", "matrices"}
# The keys of config.json with their defaults. A tuple lists the words that are allowed, the default first; a key whose
# default is a float also takes an integer.
BOTH = {"initialization": ("orthogonal", "normal", "xavier_spectral"), "final_scale": 1.0}
MLP = {**BOTH, "layer_sizes": [], "mlp_activation": ("relu", *SLOPES), "input_bound": 1.0}
TRANSFORMER = {
    **BOTH, "vocab_size": 0, "real_vocab_size": 0, "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
    "mixing": ("attention", "quadrature"), "memory_channels": 0,
    "num_key_value_heads": 0, "intermediate_size": 0, "max_position_embeddings": 0,
    "positions": ("rope", "learned", "none"), "rope_theta": 10000.0, "rope_half_truncated": False, "hidden_act": tuple(SLOPES),
    "activation_divisor": 1.1289, "softmax_scale": 1.0, "attention_output_scale": 1 / 3, "residual": ("convex", "plain"),
    "attention_alpha": 0.0, "mlp_alpha": 0.0, "learned_alpha": ("none", "scalar", "vector"),
    "qk_norm": False, "qk_norm_epsilon": 1e-6, "value_norm": False,
    "attention_window": 0, "window_block": 1, "long_window_layers": [], "document_token": -1, "position_bias": False, "position_bias_offsets": 0,
    "position_bias_start": 0.0, "position_bias_dilation": 1, "logit_bias": False,
    "norm": ("none", "tanh", "rms_norm", "layer_norm", "center_norm"), "norm_epsilon": 1e-5, "norm_gain": True, "norm_after": False,
    "learnable_scales": False, "bias": False, "tie_embeddings": False, "dropout": 0.0, "branch_dropout": 0.0, "drop_path": 0.0,
    "logit_soft_cap": 0.0}
NORMS, BIASED_NORMS = ("rms_norm", "layer_norm", "center_norm"), ("layer_norm", "center_norm")
WORDS_BEFORE = {"learned_alpha": {False: "none", True: "scalar"}}  # of keys that were switches once
FOREIGN_TEXTS = {"torch_dtype", "transformers_version", "bridle_version"}  # of no consequence for the model
COUNTS = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
          "intermediate_size", "max_position_embeddings", "position_bias_offsets", "position_bias_dilation", "window_block")

class Unreadable(Exception):
    """A file cannot be read, or is not JSON and should be."""

class Refused(Exception):
    """The certificate does not hold."""

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

def read_bytes(file, count):
    data = file.read(count)
    need(len(data) == count, "model.safetensors became shorter while it was read")
    return data

def depth_of(value):
    inner = value.values() if type(value) is dict else value
    return 1 + max(map(depth_of, inner), default=0) if type(value) in (dict, list) else 0

def strict_number(text):
    """Also of NaN and Infinity, which Python takes for numbers."""
    value = float(text) if set(text) & set(".eE") else int(text[:18])
    if text == "-0" or not math.isfinite(value) or (type(value) is int and abs(value) > LARGEST_INTEGER):
        raise ValueError(f"it holds the number {text[:20]}")
    return value

def parse_json(data, most_keys):
    """The value of a JSON text. Raises ValueError or RecursionError for all that readers could take in two ways."""
    def unique(pairs):
        if len(dict(pairs)) != len(pairs) or len(pairs) > most_keys:
            raise ValueError("a key comes twice, or there are too many")
        return dict(pairs)
    if len(data) > LARGEST_TEXT:
        raise ValueError(f"it has more than {LARGEST_TEXT} bytes")
    value = json.loads(data.decode(), object_pairs_hook=unique, parse_int=strict_number, parse_float=strict_number,
                       parse_constant=strict_number)
    if depth_of(value) > DEEPEST_TEXT:
        raise ValueError(f"it is nested more than {DEEPEST_TEXT} deep")
    if b"\\u" in data:
        json.dumps(value, ensure_ascii=False).encode()  # raises UnicodeEncodeError, a ValueError, for half a pair
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

def is_list_of(kind, value):
    return type(value) is list and all(type(entry) is kind for entry in value)

# ---- config.json

def has_type_of(value, like):
    if type(like) is tuple:
        return type(value) is str and value in like
    if type(like) is list:
        return is_list_of(int, value)
    return type(value) is type(like) or (type(like) is float and type(value) is int)

def read_options(config):
    """The options of a model, with all that is 0 filled in."""
    need(type(config) is dict and config.get("model_type") in ("bridle", "bridle_mlp"), "config.json: the model_type")
    known = TRANSFORMER if config["model_type"] == "bridle" else MLP
    o = types.SimpleNamespace(**{key: like[0] if type(like) is tuple else like for key, like in known.items()})
    for key, value in config.items():
        if key in FOREIGN_TEXTS:
            need(type(value) is str, f"config.json: {key} must be a text")
        elif key == "architectures":
            need(is_list_of(str, value), "config.json: architectures must be a list of texts")
        elif key != "model_type":
            value = WORDS_BEFORE.get(key, {}).get(value, value) if type(value) is bool else value
            need(key in known and has_type_of(value, known[key]), f"config.json: {key[:100]} = {str(value)[:100]}")
            setattr(o, key, value)
    o.is_mlp = known is MLP
    (check_mlp if o.is_mlp else complete_transformer)(o)
    return o

def check_mlp(o):
    sizes_fit = all(1 <= size <= LARGEST_SIZE for size in o.layer_sizes)
    need(len(o.layer_sizes) >= 2 and sizes_fit, "layer_sizes must be at least two sizes from 1 to 2^24")
    need(o.input_bound > 0, "input_bound must be positive")
    need(o.mlp_activation != "maxmin" or all(size % 2 == 0 for size in o.layer_sizes[1:-1]), "maxmin sorts pairs")

def complete_transformer(o):
    o.intermediate_size = o.intermediate_size or 4 * o.hidden_size
    o.num_key_value_heads = o.num_key_value_heads or o.num_attention_heads
    o.real_vocab_size = o.real_vocab_size or o.vocab_size
    o.position_bias_offsets = o.position_bias_offsets or o.max_position_embeddings
    for key in COUNTS:
        need(1 <= getattr(o, key) <= LARGEST_SIZE, f"{key} = {getattr(o, key)} is out of range")
    need(1 <= o.real_vocab_size <= o.vocab_size, f"real_vocab_size = {o.real_vocab_size} is out of range")
    need(o.mixing == "quadrature" or o.hidden_size % o.num_attention_heads == 0, "hidden_size is not a multiple of num_attention_heads")
    need(o.num_attention_heads % o.num_key_value_heads == 0,
         "num_attention_heads is not a multiple of num_key_value_heads")
    need(o.positions != "rope" or o.hidden_size // o.num_attention_heads % 2 == 0, "rope rotates pairs")
    need(o.hidden_act != "maxmin" or o.intermediate_size % 2 == 0, "maxmin sorts pairs")
    quadrature = o.mixing == "quadrature"
    need(0 <= o.memory_channels <= (LARGEST_SIZE if quadrature else 0), "memory_channels is out of range")
    need(not quadrature or o.hidden_size % 32 == o.memory_channels % 32 == 0, "sizes must be multiples of 32")
    need(not quadrature or (o.norm, o.positions, o.qk_norm, o.value_norm, o.learnable_scales, o.num_key_value_heads)
         == ("none", "none", False, False, False, o.num_attention_heads), "what does not go with quadrature")
    need(o.attention_window % o.window_block == 0, "attention_window is not a multiple of window_block")
    need(o.attention_window > 0 or (o.window_block == 1 and not o.long_window_layers), "blocks without a window")
    need(all(0 <= layer < o.num_hidden_layers for layer in o.long_window_layers), "long_window_layers")
    need(not o.rope_half_truncated or (o.positions == "rope" and o.hidden_size // o.num_attention_heads % 4 == 0),
         "rope_half_truncated")
    need(not o.norm_after or o.norm != "none", "norm_after needs a norm")
    need(0 <= o.branch_dropout < 1, "branch_dropout is out of range")
    need(0 <= o.attention_window <= LARGEST_SIZE and -1 <= o.document_token < o.vocab_size, "window or document_token")
    need(o.qk_norm_epsilon >= 0 and 0 <= o.drop_path < 1 and o.logit_soft_cap >= 0, "epsilon, drop_path or soft cap")
    need(o.norm != "center_norm" or o.hidden_size > 1, "center_norm needs two entries")
    need(o.activation_divisor > 0 and o.rope_theta > 0 and o.norm_epsilon >= 0 and 0 <= o.dropout < 1,
         "activation_divisor, rope_theta, norm_epsilon or dropout is out of range")
    o.attention_alpha = o.attention_alpha or 0.5 / o.num_hidden_layers
    o.mlp_alpha = o.mlp_alpha or 0.5 / o.num_hidden_layers

def expected_tensors(o):
    """Names and shapes of all weights that the options ask for, one after the other."""
    if o.is_mlp:
        for i, (inputs, outputs) in enumerate(zip(o.layer_sizes, o.layer_sizes[1:])):
            yield f"model.layers.{i}.weight", [outputs, inputs]
        return
    d, inner = o.hidden_size, o.intermediate_size
    norm_parts = ["weight"] * (o.norm_gain and o.norm in NORMS) + ["bias"] * (o.bias and o.norm in BIASED_NORMS)
    linear_parts = ["weight", "bias"] if o.bias else ["weight"]
    read = d // o.num_attention_heads * o.num_key_value_heads  # rows of keys and of values
    attention = {f"self_attn.{p}_proj": [read if p in "kv" else d, d] for p in "qkvo"}
    quadrature, heads = o.mixing == "quadrature", o.num_attention_heads
    linears = {**({} if quadrature else attention), "mlp.up_proj": [inner, d], "mlp.down_proj": [d, inner]}
    yield "model.embed_tokens.weight", [o.vocab_size, d]
    yield from [("model.embed_positions.weight", [o.max_position_embeddings, d])] if o.positions == "learned" else []
    for block in (f"model.layers.{i}." for i in range(o.num_hidden_layers)):
        for name, shape in linears.items():
            yield from ((f"{block}{name}.{part}", shape if part == "weight" else shape[:1]) for part in linear_parts)
        for part in norm_parts:
            yield f"{block}input_layernorm.{part}", [d]
            yield f"{block}post_attention_layernorm.{part}", [d]
        if quadrature:
            yield f"{block}mixing.position_bias", [heads, o.position_bias_offsets]
            yield f"{block}mixing.coefficients", [1 + heads + (o.memory_channels > 0)]
            yield f"{block}mixing.out_proj.weight", [d, (1 + heads) * d + o.memory_channels]
        if o.memory_channels:
            yield f"{block}mixing.memory_proj.weight", [o.memory_channels, d]
            yield f"{block}mixing.memory_log_decay", [o.memory_channels]
        if o.position_bias and not quadrature:
            yield f"{block}self_attn.position_bias", [o.num_attention_heads, o.position_bias_offsets]
        if o.learnable_scales:
            yield f"{block}self_attn.output_scale", [1]
        if o.learned_alpha != "none":
            entries = d if o.learned_alpha == "vector" else 1
            yield from ((f"{block}{branch}_alpha", [entries]) for branch in (("mlp",) if quadrature else ("attention", "mlp")))
    yield from ((f"model.norm.{part}", [d]) for part in norm_parts if not o.norm_after)
    yield from [] if o.tie_embeddings else [("lm_head.weight", [o.vocab_size, d])]
    yield from [("final_scale", [1])] if o.learnable_scales else []
    yield from [("logit_bias", [o.real_vocab_size])] if o.logit_bias else []

# ---- model.safetensors

def read_header(file, size):
    """The header's bytes, and its tensors in the order of their places."""
    need(size >= 8, "model.safetensors has no header")
    first = read_bytes(file, 8)
    length = int.from_bytes(first, "little")
    need(length <= min(LARGEST_TEXT, size - 8), f"model.safetensors: a header of {length} bytes")
    text = read_bytes(file, length)
    need(text[:1] == b"{", "model.safetensors: the header does not begin with '{'")
    header = parse_json(text, LARGEST_TEXT)
    metadata = header.pop("__metadata__", {})
    need(type(metadata) is dict and is_list_of(str, list(metadata.values())), "__metadata__ must hold texts")
    for name, entry in header.items():
        need(type(entry) is dict and entry.keys() == {"dtype", "shape", "data_offsets"}, f"{name}: its fields")
        need(is_list_of(int, entry["shape"]) and is_list_of(int, entry["data_offsets"]), f"{name}: shape or place")
    return first + text, sorted(header.items(), key=lambda item: item[1]["data_offsets"])

def compare_shapes(tensors, o, dtype, data_size):
    """Before any data are read: what is there is what the options ask for, in one dtype, without gaps."""
    shapes, count = {name: entry["shape"] for name, entry in tensors}, 0
    for name, shape in expected_tensors(o):
        need(shapes.get(name) == shape, f"{name} has the shape {shapes.get(name)} instead of {shape}")
        count += 1
    need(count == len(shapes), "model.safetensors holds a tensor that the model does not have")
    place, width = 0, int(FORMATS[dtype][-1])
    for name, entry in tensors:
        end = place + width * math.prod(entry["shape"])
        need(entry["dtype"] == dtype and entry["data_offsets"] == [place, end], f"{name} is {entry}, at byte {place}")
        place = end
    need(place == data_size, "the tensors are not all of model.safetensors")

def read_weights(file, size, o, stated):
    """The tensors of the file whose digest and dtype are stated. What is hashed is what is decoded."""
    need(stated["dtype"] in FORMATS, f"dtype is {stated['dtype']!r}")
    header, tensors = read_header(file, size)
    compare_shapes(tensors, o, stated["dtype"], size - len(header))
    data = read_bytes(file, size - len(header))
    digest = hashlib.sha256(header)
    digest.update(data)
    need(digest.hexdigest() == stated["sha256"], f"the SHA-256 of model.safetensors is {digest.hexdigest()}")
    result = {}
    for name, entry in tensors:
        count, begin = math.prod(entry["shape"]), entry["data_offsets"][0]
        values = np.frombuffer(data, FORMATS[stated["dtype"]], count, begin)
        if stated["dtype"] == "BF16":  # the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        result[name] = values.astype(np.float32, copy=False).reshape(entry["shape"])
        need(np.isfinite(result[name]).all(), f"{name} holds NaN or infinity")
    return result

# ---- Numbers that are never too small

class Up:
    """mantissa * 2^exponent; every operation rounds up to 100 bits. Divisors are taken as exact."""
    def __init__(self, mantissa, exponent=0):
        extra = max(mantissa.bit_length() - 100, 0)
        self.mantissa, self.exponent = -(-mantissa >> extra), exponent + extra

    @staticmethod
    def of(x):
        """The absolute value: exact for doubles and for integers below 2^100."""
        if type(x) is Up:
            return x
        numerator, denominator = abs(x).as_integer_ratio()
        return Up(numerator, 1 - denominator.bit_length())

    def __add__(self, other):
        small, large = sorted((self, Up.of(other)), key=lambda x: x.exponent if x.mantissa else -math.inf)
        gap = large.exponent - small.exponent
        if not small.mantissa:
            return large
        if gap >= 300:  # the small one is less than 2^-200 units of the large one
            return Up((large.mantissa << 200) + 1, large.exponent - 200)
        return Up((large.mantissa << gap) + small.mantissa, small.exponent)

    def __mul__(self, other):
        other = Up.of(other)
        return Up(self.mantissa * other.mantissa, self.exponent + other.exponent)

    def __truediv__(self, other):
        other = Up.of(other)
        return Up(-((-self.mantissa << 200) // other.mantissa), self.exponent - 200 - other.exponent)

    def __ge__(self, other):
        if not self.mantissa or not other.mantissa or abs(self.exponent - other.exponent) > 100:
            return not other.mantissa or (self.mantissa > 0 and self.exponent > other.exponent)
        least = min(self.exponent, other.exponent)
        return self.mantissa << self.exponent - least >= other.mantissa << other.exponent - least

    def root(self):
        odd = self.exponent % 2
        square = self.mantissa << 200 + odd
        return Up(math.isqrt(square - 1) + 1 if square else 0, (self.exponent - odd) // 2 - 100)

    def log10(self):
        return math.log10(self.mantissa) + self.exponent * math.log10(2) if self.mantissa else -math.inf

def root_of_ratio(a, b):
    return (Up.of(a) / b).root()

def min_up(a, b):
    return b if a >= b else a

def total(numbers):
    return sum(numbers, Up(0))

def float32_above(x):
    """The least float32 that is not below x."""
    need(Up.of(LARGEST_FLOAT32) >= x, "a scale is beyond float32")
    near = np.float32(math.ldexp(float(x.mantissa), max(x.exponent, -1200)))
    around = np.nextafter(near, np.float32(0)), near, np.nextafter(near, np.float32(np.inf))
    return next(float(y) for y in around if Up.of(float(y)) >= x)

# ---- Proofs from the weights. Each returns a function of a limit: whether "at most limit" is proved

def gamma(k):
    """The relative error of k roundings in float64, u = 2^-53: ku/(1 - ku)."""
    return Fraction(k, 2 ** 53 - k)

def spectral(w):
    """sigma(W), W m x n with m >= n, scaled exactly to entries below 1: spectral_norm.md, statement 1. G = fl(W'W) is off
    by gamma_m |W|'|W|, of norm at most gamma_m ||W||_F^2, and by 2^-1022 for a product that underflows: e is the sum.
    Where tI - G is positive semidefinite, sigma^2 <= t + e. Let M = (t - c)I - G, its diagonal rounded by at most
    u(t + most). If its Cholesky factorisation ends, R'R = M + E, |E| <= g |R|'|R|, and the norm of E is at most
    g/(1 - g) tr M; c covers both."""
    w = np.array(w if w.shape[0] >= w.shape[1] else w.T, np.float64)
    (m, n), exponent = w.shape, math.frexp(max(w.max(), -w.min()))[1]
    gram = np.ldexp(w, -exponent, out=w).T @ w
    diagonal, g = gram.diagonal().tolist(), gamma(n + 2)
    lost, trace = n * int(np.count_nonzero(w)) * Fraction(1, 2 ** 1022), sum(map(Fraction, diagonal))
    frobenius = trace / (1 - gamma(m)) + lost  # not below ||W||_F^2
    e = gamma(m) * frobenius + lost
    def proves(limit):
        t = (Fraction(limit) / Fraction(2) ** exponent) ** 2 - e
        if t + e >= frobenius:
            return True
        c = g / (1 - g) * (n * t - trace) + (t + Fraction(max(diagonal))) / 2 ** 52
        if t <= 0 or c >= t:
            return False
        try:
            factor = np.linalg.cholesky(np.diag(np.full(n, np.nextafter(float(t - c), 0.0))) - gram)
        except np.linalg.LinAlgError:
            return False
        return bool(np.isfinite(factor).all() and (factor.diagonal() > 0).all())
    return proves

def euclidean(w, divisor=1):
    """The largest norm of a row. Squares of float32 are exact in float64, and fsum rounds once; 2^-1022 a column is what
    spectral_norm.md allows for underflow."""
    square = max(math.fsum(np.square(row, dtype=np.float64).tolist()) for row in w.reshape(-1, w.shape[-1]))
    least = Fraction(math.nextafter(square, math.inf) if square else 0) + Fraction(w.shape[-1], 2 ** 1022)
    return lambda limit: Fraction(limit) ** 2 * divisor >= least

SPECTRAL = {"norm": spectral, "heads": spectral, "scaled_heads": spectral, "scaled_columns": spectral}
PROOFS = {**SPECTRAL, "euclidean": euclidean, "euclidean_heads": euclidean,
          "largest_row_rms": lambda w: euclidean(w, w.shape[1]),
          "largest_entry": lambda w: lambda limit: limit >= float(np.abs(w).max())}

def number(value, what):
    """A stated number: finite, because every number of a JSON text is, and not negative."""
    need(type(value) in (int, float) and value >= 0, f"{what} is {value!r}, not a number >= 0")
    return float(value)

class Facts:
    """The stated numbers about weights, each proved when it is asked for."""
    def __init__(self, entries, tensors):
        need(is_list_of(dict, entries) and all(type(e.get("name")) is str for e in entries), "matrices must be objects")
        self.entries, self.tensors = {entry["name"]: entry for entry in entries}, tensors
        need(len(self.entries) == len(entries), "matrices: a name comes twice")
        self.asked, self.loose = {}, []  # keys that were asked for, by name; numbers that could be smaller

    def stated(self, name, what):
        entry = self.entries.get(name, {})
        need(same(entry.get("shape"), [*self.tensors[name].shape]), f"the shape of {name} is not stated as it is")
        need(what in entry, f"{what} of {name} is not stated")
        self.asked.setdefault(name, {"name", "shape", "method"}).add(what)
        return entry[what]

    def prove(self, value, what, name, w):
        x, proves = number(value, f"{what} of {name}"), PROOFS[what](w)
        need(proves(x), f"{what} of {name} is stated as {x}, which the weights do not allow to prove")
        if x > 1e-100 and proves(x * 0.999):
            self.loose.append(f"{what} of {name} is stated as {x}")
        return Up.of(x)

    def one(self, what, name, w=None):
        return self.prove(self.stated(name, what), what, name, self.tensors[name] if w is None else w)

    def listed(self, what, name, heads):
        values = self.stated(name, what)
        need(type(values) is list and len(values) == heads, f"{what} of {name} must have {heads} numbers")
        return values

    def per_head(self, what, name, heads):
        parts = self.tensors[name].reshape(heads, -1, *self.tensors[name].shape[1:])
        return [self.prove(value, what, name, part) for value, part in zip(self.listed(what, name, heads), parts)]

    def scales(self, name, heads):
        """Positive float32 numbers that the certificate chooses; 1 where it chooses none."""
        if "scales" not in self.entries.get(name, {}):
            return [1.0] * heads
        scales = [number(value, f"scales of {name}") for value in self.listed("scales", name, heads)]
        need(all(0 < s <= LARGEST_FLOAT32 and float(np.float32(s)) == s for s in scales), "scales must be float32")
        need(any(s != 1 for s in scales), f"scales of {name} must not all be 1")
        return scales

    def refuse_what_nobody_asked_for(self):
        for name, entry in self.entries.items():
            need(entry.keys() == self.asked.get(name), f"matrices: {name} states other numbers than are needed")
            need(entry["method"] == ("cholesky" if entry.keys() & SPECTRAL.keys() else "sums"), f"method of {name}")

# ---- The walk: docs/theory/modules.md. x is (activation, lipschitz), both never too small

def bias_rms(facts, name, size, has_bias):
    return facts.one("euclidean", name) * root_of_ratio(1, size) if has_bias else Up(0)

def linear(facts, name, x, has_bias):
    """Statement 1."""
    outputs, inputs = facts.tensors[name + ".weight"].shape
    gain = facts.one("norm", name + ".weight") * root_of_ratio(inputs, outputs)
    return gain * x[0] + bias_rms(facts, name + ".bias", outputs, has_bias), gain * x[1]

def activation(kind, divisor, x, size):
    """Statements 2 and 3. No entry is larger than its vector, so relu_squared has |f(x)| <= most |x|, f'(x) <= 2 most."""
    if kind == "relu_squared":
        most = Up.of(size).root() * x[0]
        return most * x[0] / divisor, most * 2 / divisor * x[1]
    return x[0] / divisor, x[1] * (Up.of(SLOPES[kind]) / divisor)

def norm(o, facts, name, x):
    """Statement 4."""
    if o.norm in ("none", "tanh"):
        return x
    gain = facts.one("largest_entry", name + ".weight") if o.norm_gain else Up(1)
    offset = bias_rms(facts, name + ".bias", o.hidden_size, o.bias and o.norm in BIASED_NORMS)
    if o.norm == "center_norm":
        gain = gain * (Up.of(o.hidden_size) / (o.hidden_size - 1))
        return gain * x[0] + offset, gain * x[1]
    need(o.norm_epsilon > 0, "a norm with an epsilon of 0 stretches without limit")
    return gain + offset, gain * (Up(1) / o.norm_epsilon).root() * x[1]

def scale(o, facts, name, value):
    return facts.one("largest_entry", name) if o.learnable_scales else Up.of(value)

def attention(o, facts, name, x):
    """Statement 5; rotary positions leave all norms as they are (6), and position biases are free if they are finite.
    Lists are by query head: a head of keys or values stands there once for each query head that it serves."""
    d, H, G, heads = o.hidden_size, o.num_attention_heads, o.num_key_value_heads, range(o.num_attention_heads)
    served = lambda numbers: [numbers[h * len(numbers) // H] for h in heads]
    wq, wk, wv, wo = (f"{name}.{p}_proj.weight" for p in "qkvo")
    output = [facts.one("norm", w) for w in (wq, wk, wv, wo)][-1]
    q, k, v = (served(facts.per_head("heads", w, n)) for w, n in ((wq, H), (wk, G), (wv, G)))
    bq, bk, bv = [[Up(0)] * H] * 3
    if o.bias:
        bq, bk, bv = (served(facts.per_head("euclidean_heads", f"{name}.{p}_proj.bias", n))
                      for p, n in zip("qkv", (H, G, G)))
    S = facts.scales(wo, H)
    if any(s != 1 for s in S):
        output = facts.one("scaled_columns", wo, facts.tensors[wo] * np.repeat(np.float64(S), d // H))
    if o.position_bias:
        facts.one("largest_entry", name + ".position_bias")
    # Every token has |x| <= R, so queries, keys and values of head h are at most Q[h], K[h], V[h].
    R, s = Up.of(d).root() * x[0], Up.of(o.softmax_scale) / (d // H)
    Q, K, V = ([norms[h] * R + biases[h] for h in heads] for norms, biases in ((q, bq), (k, bk), (v, bv)))
    if o.qk_norm:  # a quotient by the RMS stretches by at most 1/sqrt(epsilon), and its length is at most sqrt(d/H)
        need(o.qk_norm_epsilon > 0, "a norm with an epsilon of 0 stretches without limit")
        slope, length = (Up(1) / o.qk_norm_epsilon).root(), root_of_ratio(d, H)
        q, k = ([n * slope for n in norms] for norms in (q, k))
        Q, K = ([min_up(length, n * slope) for n in norms] for norms in (Q, K))
    largest = [v[h] * x[0] + bv[h] * root_of_ratio(1, d) for h in heads]
    if o.value_norm:
        need(o.qk_norm_epsilon > 0, "a norm with an epsilon of 0 stretches without limit")
        slope, length = (Up(1) / o.qk_norm_epsilon).root(), root_of_ratio(d, H)
        largest = [min_up(root_of_ratio(1, H), n * slope) for n in largest]
        v, V = [n * slope for n in v], [min_up(length, n * slope) for n in V]
    by_head = [v[h] / S[h] + s * (V[h] / S[h]) * (q[h] * K[h] + Q[h] * k[h]) for h in heads]
    stretch = total(head * head for head in by_head).root()
    if not o.bias and not o.qk_norm and not o.value_norm:
        D = np.repeat([float32_above(k[h] * (v[h] / S[h])) for h in heads], d // H)
        shared = facts.one("scaled_heads", wq, facts.tensors[wq] * D[:, None])
        other = total((v[h] / S[h]) * (v[h] / S[h]) for h in heads).root() + s * 2 * d * x[0] * x[0] * shared
        stretch = min_up(stretch, other)
    largest = [largest[h] / S[h] for h in heads]
    gain = output * scale(o, facts, name + ".output_scale", o.attention_output_scale)
    offset = bias_rms(facts, name + ".o_proj.bias", d, o.bias)
    return gain * total(value * value for value in largest).root() + offset, gain * stretch * x[1]

def mixing(o, facts, name, x):
    """Statements 11 and 12: every part of what M reads is 1-Lipschitz, or has the stretch of the memory's largest row, times
    its coefficient; the parts add in quadrature."""
    facts.one("largest_entry", name + ".position_bias")
    gain = Up(1)
    if o.memory_channels:
        facts.one("largest_entry", name + ".memory_log_decay")
        row = facts.one("largest_row_rms", name + ".memory_proj.weight")
        gain = row if row >= gain else gain
    gain = gain * facts.one("norm", name + ".out_proj.weight") * facts.one("euclidean", name + ".coefficients")
    return gain * x[0], gain * x[1]

def residual(o, facts, name, x, y):
    """Statement 7. The entries of a learned alpha are float32 numbers, and exact."""
    fixed = getattr(o, name.split(".")[-1] + "_alpha") if o.residual == "convex" else 1
    alpha = facts.tensors.get(f"{name}_alpha", np.float64([fixed]))
    least, largest = Fraction(float(alpha.min())), Fraction(float(alpha.max()))
    kept = max(abs(1 - least), abs(1 - largest)) if o.residual == "convex" else 1
    added = max(abs(least), abs(largest))
    sums = [Up.of(kept) * before + Up.of(added) * branch for before, branch in zip(x, y)]
    if o.residual == "plain" or not 0 <= least < largest <= 1:
        return tuple(sums)
    roots = [(Up.of(kept) * before * before + Up.of(added) * branch * branch).root() for before, branch in zip(x, y)]
    return tuple(map(min_up, sums, roots))

def embedding(o, facts, domain):
    """Statement 8."""
    if o.positions == "learned":
        domain = domain + facts.one("largest_row_rms", "model.embed_positions.weight")
    return domain, Up(1)

def head(o, facts, name, x, final_scale):
    """Statement 9; a soft cap of the logits has slopes of at most 1. The last number is the stretch to any one logit."""
    inputs = facts.tensors[name + ".weight"].shape[1]
    logit = x[1] * facts.one("largest_row_rms", name + ".weight") * inputs * final_scale
    y = linear(facts, name, x, has_bias=False)
    offset = Up(0) if o.is_mlp else bias_rms(facts, "logit_bias", o.real_vocab_size, o.logit_bias)
    return (y[0] * final_scale + offset, y[1] * final_scale), logit

def walk_mlp(o, facts, domain):
    x, layers, names = (domain, Up(1)), [], [f"model.layers.{i}" for i in range(len(o.layer_sizes) - 1)]
    for name in names[:-1]:
        x = activation(o.mlp_activation, 1, linear(facts, name, x, has_bias=False), len(facts.tensors[name + ".weight"]))
        layers.append((name, x))
    x, logit = head(o, facts, names[-1], x, Up.of(o.final_scale))
    return [*layers, (names[-1], x)], logit

def walk_transformer(o, facts, domain):
    x = embedding(o, facts, domain)
    before = lambda name, y: y if o.norm_after else norm(o, facts, name, y)
    after = lambda name, y: norm(o, facts, name, y) if o.norm_after else y
    layers = [("model.embed_tokens", x)]
    for block in (f"model.layers.{i}" for i in range(o.num_hidden_layers)):
        if o.mixing == "quadrature":
            x = mixing(o, facts, block + ".mixing", x)
        else:
            y = attention(o, facts, block + ".self_attn", before(block + ".input_layernorm", x))
            x = after(block + ".input_layernorm", residual(o, facts, block + ".attention", x, y))
        layers.append((block + (".mixing" if o.mixing == "quadrature" else ".self_attn"), x))
        y = linear(facts, block + ".mlp.up_proj", before(block + ".post_attention_layernorm", x), o.bias)
        active = activation(o.hidden_act, o.activation_divisor, y, o.intermediate_size)
        x = residual(o, facts, block + ".mlp", x, linear(facts, block + ".mlp.down_proj", active, o.bias))
        x = after(block + ".post_attention_layernorm", x)
        layers.append((block + ".mlp", x))
    x = before("model.norm", x)
    x, logit = head(o, facts, "lm_head", x, scale(o, facts, "final_scale", o.final_scale))
    return [*layers, ("lm_head", x)], logit

# ---- The statement

def compare_bound(stated, key, walked, loose):
    """A bound beyond a double is null, and so is the logarithm of zero; nothing else is."""
    value, log, least = stated[key], stated["log10_" + key], walked.log10()
    what = f"{stated.get('name', 'model')}: {key} is {value}, its log10 is {log}; the walk gives 10^{least:.12f}"
    need(log is None or type(log) in (int, float), what)
    need((log is None) == (value is not None and number(value, what) == 0), what)
    need(log >= LOG_OF_LARGEST if value is None else Up.of(number(value, what)) >= walked, what)
    need(log is None or log >= least - 1e-12 * max(1.0, abs(least)), what)
    too_large = least < 308 if value is None else value > 1e-100 and Up.of(value * 0.999999) >= walked
    if too_large or (log is not None and log > max(least + 4.4e-7, -100)):
        loose.append(what)

def compare_shares(c):
    """A layer's part of log L in float64, with minus infinity for null; null where that is not finite or L is 1."""
    stated = [holder["log10_lipschitz"] for holder in (c, *c["layers"])]
    whole, *logs = (-math.inf if log is None else log for log in stated)
    for layer, before, log in zip(c["layers"], [0.0, *logs], logs):
        part, share = (log - before) / whole if whole else math.nan, layer["share"]
        is_near = type(share) in (int, float) and abs(share - part) <= 1e-6
        need(is_near if math.isfinite(part) else share is None, f"{layer['name']}: share is {share}, not {part}")

def check_fields(c, config):
    need(type(c) is dict and c.keys() == FIELDS, "its fields are not those of schema 1")
    for key, value in {"schema": 1, "formula": "sound", "certified": True, "norm": "RMS to RMS, largest over tokens",
                       "architecture": config}.items():
        need(same(c[key], value), f"{key} is {c[key]}, not {value}")
    weights = c["weights"]
    need(type(weights) is dict and weights.keys() == {"file", "sha256", "dtype"}, "the fields of weights")
    need(is_list_of(str, [c["version"], *weights.values()]), "version and weights must hold texts")
    need(weights["file"] == "model.safetensors", f"weights are in {weights['file']}")
    need(is_list_of(dict, c["layers"]) and all(layer.keys() == LAYER_FIELDS for layer in c["layers"]), "layers' fields")

def check(c, config, file, size):
    """Everything that docs/certificate.md lists, of files that have been opened; returns what could be smaller."""
    o = read_options(config)
    check_fields(c, config)
    tensors = read_weights(file, size, o, c["weights"])
    if not o.is_mlp:
        table = tensors["model.embed_tokens.weight"]
        tensors["lm_head.weight"] = tensors.get("lm_head.weight", table)[:o.real_vocab_size]
    facts = Facts(c["matrices"], tensors)
    token, attack, domain = (Up.of(number(c[f"{key}_radius"], key)) for key in ("token", "attack", "domain"))
    need(domain >= token + attack, "domain_radius is below token_radius + attack_radius")
    least = Up.of(o.input_bound) if o.is_mlp else facts.one("largest_row_rms", "model.embed_tokens.weight")
    need(token >= least, f"token_radius = {c['token_radius']} is below what inputs reach")
    layers, logit = (walk_mlp if o.is_mlp else walk_transformer)(o, facts, domain)
    facts.refuse_what_nobody_asked_for()
    need([layer["name"] for layer in c["layers"]] == [name for name, _ in layers], "layers: not those of the model")
    for stated, (_, x) in zip(c["layers"], layers):
        compare_bound(stated, "activation", x[0], facts.loose)
        compare_bound(stated, "lipschitz", x[1], facts.loose)
    compare_bound(c, "lipschitz", layers[-1][1][1], facts.loose)
    compare_bound(c, "largest_logit_lipschitz", logit, facts.loose)
    compare_shares(c)
    observed = 0 if c["observed_lipschitz"] is None else number(c["observed_lipschitz"], "observed_lipschitz")
    need(c["lipschitz"] is None or observed <= c["lipschitz"], f"observed_lipschitz = {observed} is above the bound")
    return facts.loose

def check_folder(certificate, folder):
    """The certificate, and what in it could be smaller. Raises Unreadable or Refused. Every file is opened once, and all
    of them before anything is judged."""
    c, config = read_json(certificate), read_json(pathlib.Path(folder) / "config.json")
    file, size = open_regular(pathlib.Path(folder) / "model.safetensors")
    with file:
        try:
            return c, check(c, config, file, size)
        except Refused:
            raise
        except Exception as error:  # whatever goes wrong from here on, nothing has been proved
            raise Refused(repr(error)) from error

def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("certificate", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, metavar="DIR", help="the folder of the other two files")
    arguments = parser.parse_args()
    try:
        c, loose = check_folder(arguments.certificate, arguments.model or arguments.certificate.parent)
    except Unreadable as error:
        return str(error)
    except Refused as error:
        print("the certificate fails:", error)
        return 3
    print("valid, not tight" if loose else "valid", *loose, sep="\n  ")
    print(f"lipschitz {c['lipschitz']} (log10 {c['log10_lipschitz']}) for inputs of norm at most {c['domain_radius']}")
    return 0

if __name__ == "__main__":
    sys.exit(main())
