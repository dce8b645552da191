#!/usr/bin/env python3
"""Checks a certificate.json against the model.safetensors and config.json beside it. No code of Bridle runs.

Every stated number about a weight is proved from the weight, in float64 with its rounding. Then the bound is
walked through the modules from the stated numbers, in arithmetic that always rounds up, and compared with
what is stated. Numbers of statements are those of docs/theory/modules.md; docs/checker.md says more. Exit
code 0: valid, or valid but not tight; 3: it does not hold; 1: a file cannot be read, or NumPy is missing; 2:
wrong usage."""
import argparse
import decimal
import math
import os
import pathlib
import sys
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for small factorisations threads cost more than they bring
sys.dont_write_bytecode = True  # a checker writes nothing
try:
    import numpy as np
    from certificate_files import (Matrices, Refused, Unreadable, check_fields, check_shares, need, number,
                                   open_regular, read_json, read_options, read_weights)
except ImportError as missing:
    sys.exit(f"check_certificate.py needs NumPy, and certificate_files.py beside it: {missing}")

# Largest derivatives: statement 3. That of relu_squared depends on where it is taken.
SLOPES = {"gelu_tanh": 1.128993068659, "gelu": 1.128904145186, "relu": 1.0, "maxmin": 1.0, "abs": 1.0,
          "tanh": 1.0, "silu": 1.099839320129}
LOG_OF_LARGEST = 308.25471555991674  # log10 of the largest double
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


# ---- Numbers that are never too small: none is negative, every result is rounded up, every divisor is exact

# A double has at most 767 digits, so that doubles, and 1 times a double, are exact. Exponents reach 10^18.
UP = decimal.Context(prec=800, rounding=decimal.ROUND_CEILING, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX,
                     traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow])
EXACT = decimal.Context(prec=1600, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[decimal.Inexact])
LOGARITHM = decimal.Context(prec=30, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[])
decimal.setcontext(UP)


def size_of(x):
    """The absolute value of a number, exactly."""
    return Decimal(abs(x))


def square(x):
    return x * x


def root(x):
    """The least number of 800 digits that is not below the square root. Python's is rounded to nearest."""
    near = Decimal(x).sqrt()
    return near if EXACT.multiply(near, near) >= x else near.next_plus()


def log10(x):
    return float(x.log10(LOGARITHM))


def float32_above(x):
    """The least float32 that is not below the number."""
    need(x <= Decimal(LARGEST_FLOAT32), "a scale is beyond float32")
    near = np.float32(float(x))
    around = (np.nextafter(near, np.float32(0)), near, np.nextafter(near, np.float32(np.inf)))
    return next(float(y) for y in around if Decimal(float(y)) >= x)


# ---- Proofs from the weights. Each returns a function of a limit: whether "at most limit" is proved

def gamma(k):
    """The relative error of k roundings in float64, u = 2^-53: ku/(1 - ku)."""
    return Fraction(k, 2 ** 53 - k)


def spectral_norm(weight):
    """sigma(W), W m x n with m >= n, scaled exactly to entries below 1: spectral_norm.md, statement 1.

    G = fl(W'W) is off by gamma_m |W|'|W|, of norm at most gamma_m ||W||_F^2, and by 2^-1022 for a product
    that underflows: e is the sum. Where tI - G is positive semidefinite, sigma^2 <= t + e. Let
    M = (t - c)I - G, its diagonal rounded by at most u(t + most). If its Cholesky factorisation ends,
    R'R = M + E, |E| <= g |R|'|R|, and the norm of E is at most g/(1 - g) tr M; c covers both."""
    w = np.array(weight if weight.shape[0] >= weight.shape[1] else weight.T, np.float64)
    m, n = w.shape
    _, exponent = math.frexp(max(w.max(), -w.min()))
    np.ldexp(w, -exponent, out=w)
    gram = w.T @ w
    diagonal = [Fraction(entry) for entry in gram.diagonal().tolist()]
    trace, g = sum(diagonal), gamma(n + 2)
    lost = n * int(np.count_nonzero(w)) * Fraction(1, 2 ** 1022)
    frobenius_squared = trace / (1 - gamma(m)) + lost  # not below ||W||_F^2
    e = gamma(m) * frobenius_squared + lost

    def proves(limit):
        limit_squared = (Fraction(limit) / Fraction(2) ** exponent) ** 2
        if limit_squared >= frobenius_squared:
            return True
        t = limit_squared - e
        c = g / (1 - g) * (n * t - trace) + (t + max(diagonal)) / 2 ** 52
        if t <= 0 or c >= t:
            return False
        shift = np.nextafter(float(t - c), 0.0)
        try:
            factor = np.linalg.cholesky(np.diag(np.full(n, shift)) - gram)
        except np.linalg.LinAlgError:
            return False
        return bool(np.isfinite(factor).all() and (factor.diagonal() > 0).all())
    return proves


def euclidean_norm(weight, divisor=1):
    """The largest norm of a row. Squares of float32 are exact in float64, and fsum rounds once; 2^-1022 per
    column is what spectral_norm.md allows for underflow."""
    rows = weight.reshape(-1, weight.shape[-1])
    largest = max(math.fsum(np.square(row, dtype=np.float64).tolist()) for row in rows)
    above = Fraction(math.nextafter(largest, math.inf) if largest else 0)
    least = above + weight.shape[-1] * Fraction(1, 2 ** 1022)
    return lambda limit: Fraction(limit) ** 2 * divisor >= least


def largest_row_rms(weight):
    return euclidean_norm(weight, weight.shape[1])


def largest_entry(weight):
    largest = float(np.abs(weight).max())
    return lambda limit: limit >= largest


PROOFS = {"norm": spectral_norm, "heads": spectral_norm, "scaled_heads": spectral_norm,
          "scaled_columns": spectral_norm, "euclidean": euclidean_norm, "euclidean_heads": euclidean_norm,
          "largest_row_rms": largest_row_rms, "largest_entry": largest_entry}


class Facts(Matrices):
    """The stated numbers about weights, each proved when it is asked for."""

    def __init__(self, entries, tensors):
        super().__init__(entries, tensors)
        self.loose = []  # what could be smaller

    def prove(self, value, what, name, weight):
        x, proves = number(value, f"{what} of {name}"), PROOFS[what](weight)
        need(proves(x), f"{what} of {name} is stated as {x}, which the weights do not allow to prove")
        if x > 1e-100 and proves(x * 0.999):
            self.loose.append(f"{what} of {name} is stated as {x}")
        return size_of(x)

    def one(self, what, name, factor=1):
        """About a weight, or about its product with a factor for each of its entries."""
        weight = self.tensors[name] if type(factor) is int else self.tensors[name] * factor
        return self.prove(self.stated(what, name), what, name, weight)

    def per_head(self, what, name, heads):
        """About each of so many equal parts of the rows."""
        weight = self.tensors[name]
        parts = weight.reshape(heads, -1, *weight.shape[1:])
        values = self.stated_list(what, name, heads)
        return [self.prove(value, what, name, part) for value, part in zip(values, parts)]


# ---- The modules: docs/theory/modules.md

# The largest norm of a signal, and how much a change of the input has been stretched on the way to it.
Bound = namedtuple("Bound", "activation lipschitz")


def bias_rms(facts, name, size):
    """What a bias of so many entries adds to the norm of a signal."""
    return facts.one("euclidean", name) * root(Decimal(1) / size)


def linear(facts, name, x, has_bias):
    """Statement 1."""
    outputs, inputs = facts.tensors[f"{name}.weight"].shape
    gain = facts.one("norm", f"{name}.weight") * root(Decimal(inputs) / outputs)
    bias = bias_rms(facts, f"{name}.bias", outputs) if has_bias else 0
    return Bound(gain * x.activation + bias, gain * x.lipschitz)


def activation(kind, divisor, x, size):
    """Statements 2 and 3. No entry is larger than its vector, so relu_squared, f, has |f(x)| <= most |x| and
    f'(x) <= 2 most."""
    divisor = Decimal(divisor)
    if kind == "relu_squared":
        most = root(size) * x.activation
        return Bound(most * x.activation / divisor, 2 * most / divisor * x.lipschitz)
    return Bound(x.activation / divisor, Decimal(SLOPES[kind]) / divisor * x.lipschitz)


def largest_entry_of(kind, divisor, most):
    """Of |f(x)/divisor| for |x| <= most: |f(x)| <= |x|, or most |x|."""
    return (most if kind == "relu_squared" else 1) * most / Decimal(divisor)


def feed_forward(o, facts, name, x):
    """Statement 16 where there is a gate: f(gate)/divisor times up, entry by entry."""
    up = linear(facts, f"{name}.up_proj", x, o.bias)
    if not o.gated:
        up = activation(o.hidden_act, o.activation_divisor, up, o.intermediate_size)
        return linear(facts, f"{name}.down_proj", up, o.bias)
    gate = linear(facts, f"{name}.gate_proj", x, o.bias)

    def most_of(part, y):
        """No entry is larger than its row allows, or than the vector."""
        by_row = facts.one("largest_row_rms", f"{name}.{part}.weight") * o.hidden_size * x.activation
        bias = facts.one("largest_entry", f"{name}.{part}.bias") if o.bias else 0
        return min(by_row + bias, root(o.intermediate_size) * y.activation)
    most_up = most_of("up_proj", up)
    most_gate = largest_entry_of(o.hidden_act, o.activation_divisor, most_of("gate_proj", gate))
    gate = activation(o.hidden_act, o.activation_divisor, gate, o.intermediate_size)
    product = Bound(min(most_up * gate.activation, most_gate * up.activation),
                    most_up * gate.lipschitz + most_gate * up.lipschitz)
    return linear(facts, f"{name}.down_proj", product, o.bias)


def norm(o, facts, name, x):
    """Statement 4."""
    if o.norm in ("none", "tanh"):
        return x
    gain = facts.one("largest_entry", f"{name}.weight") if o.has_norm_gain else Decimal(1)
    bias = bias_rms(facts, f"{name}.bias", o.hidden_size) if o.has_norm_bias else 0
    if o.norm == "center_norm":
        gain = gain * o.hidden_size / (o.hidden_size - 1)
        return Bound(gain * x.activation + bias, gain * x.lipschitz)
    return Bound(gain + bias, gain * stretch_of_normalising(o.norm_epsilon) * x.lipschitz)


def stretch_of_normalising(epsilon):
    need(epsilon > 0, "a norm with an epsilon of 0 stretches without limit")
    return root(1 / Decimal(epsilon))


def attention(o, facts, name, x):
    """Statement 5. Rotary positions keep all norms (6); position biases are free if they are finite.

    Head g of keys and values serves query head h. For its queries, keys and values: q, k, v say how much a
    token is stretched to one, Q, K, V how long one can be, bq, bk, bv how long its bias is. The certificate
    may divide the head's values by S and multiply the output's columns by it."""
    d, H, G = o.hidden_size, o.num_attention_heads, o.num_key_value_heads
    weight = {part: f"{name}.{part}_proj.weight" for part in "qkvo"}
    output = [facts.one("norm", weight[part]) for part in "qkvo"][-1]
    heads = {part: facts.per_head("heads", weight[part], n) for part, n in (("q", H), ("k", G), ("v", G))}
    biases = {part: [Decimal(0)] * len(heads[part]) for part in "qkv"}
    if o.bias:
        biases = {part: facts.per_head("euclidean_heads", f"{name}.{part}_proj.bias", len(heads[part]))
                  for part in "qkv"}
    scales = [Decimal(S) for S in facts.scales(weight["o"], H)]
    if any(S != 1 for S in scales):
        columns = np.repeat([float(S) for S in scales], o.head_size)
        output = facts.one("scaled_columns", weight["o"], columns)
    if o.position_bias:
        facts.one("largest_entry", f"{name}.position_bias")
    R = root(d) * x.activation  # of a token
    softmax = size_of(o.softmax_scale) / o.head_size
    means = by_head = values = Decimal(0)  # sums over heads of squares: of lengths, of stretches, of v
    shared_scales = []
    for h, S in enumerate(scales):
        g = h * G // H
        q, k, v = heads["q"][h], heads["k"][g], heads["v"][g]
        bq, bk, bv = biases["q"][h], biases["k"][g], biases["v"][g]
        Q, K, V = q * R + bq, k * R + bk, v * R + bv
        mean = v * x.activation + bv * root(Decimal(1) / d)
        if o.qk_norm:
            slope, length = stretch_of_normalising(o.qk_norm_epsilon), root(o.head_size)
            q, k, Q, K = q * slope, k * slope, min(length, Q * slope), min(length, K * slope)
        if o.value_norm:
            slope, length = stretch_of_normalising(o.qk_norm_epsilon), root(o.head_size)
            v, V, mean = v * slope, min(length, V * slope), min(root(Decimal(1) / H), mean * slope)
        v, V, mean = v / S, V / S, mean / S
        means += square(mean)
        by_head += square(v + softmax * V * (q * K + Q * k))
        values += square(v)
        shared_scales.append(k * v)
    stretch = root(by_head)
    if not o.bias and not o.qk_norm and not o.value_norm:  # the form with a shared query
        rows = np.repeat([float32_above(scale) for scale in shared_scales], o.head_size)
        shared = facts.one("scaled_heads", weight["q"], rows[:, None])
        stretch = min(stretch, root(values) + 2 * softmax * d * square(x.activation) * shared)
    gain = output * output_scale(o, facts, f"{name}.output_scale", o.attention_output_scale)
    bias = bias_rms(facts, f"{name}.o_proj.bias", d) if o.bias else 0
    return Bound(gain * root(means) + bias, gain * stretch * x.lipschitz)


def output_scale(o, facts, name, value):
    return facts.one("largest_entry", name) if o.learnable_scales else size_of(value)


def residual(o, facts, name, x, y):
    """Statement 7. The entries of a learned alpha are float32 numbers, and exact."""
    fixed = getattr(o, name.split(".")[-1] + "_alpha") if o.residual == "convex" else 1
    alpha = facts.tensors.get(f"{name}_alpha", np.float64([fixed]))
    least, largest = Decimal(float(alpha.min())), Decimal(float(alpha.max()))
    kept = max(1 - least, largest - 1) if o.residual == "convex" else Decimal(1)  # the largest |1 - alpha|
    added = max(largest, -least)  # the largest |alpha|
    sums = [kept * a + added * b for a, b in zip(x, y)]
    if o.residual == "convex" and 0 <= least < largest <= 1:
        means = [root(kept * square(a) + added * square(b)) for a, b in zip(x, y)]
        return Bound(*map(min, sums, means))
    return Bound(*sums)


def embedding(o, facts, domain):
    """Statement 8."""
    if o.positions == "learned":
        domain = domain + facts.one("largest_row_rms", "model.embed_positions.weight")
    return Bound(domain, Decimal(1))


def head(facts, name, x, final_scale):
    """Statement 9; a soft cap of the logits has slopes of at most 1. Also: the stretch to one logit."""
    inputs = facts.tensors[f"{name}.weight"].shape[1]
    logit = facts.one("largest_row_rms", f"{name}.weight") * inputs * final_scale * x.lipschitz
    y = linear(facts, name, x, has_bias=False)
    return Bound(y.activation * final_scale, y.lipschitz * final_scale), logit


def content(o, facts, name, x):
    """Statement 13: the stretch of heads that are divided by their price is at most this, or 1."""
    weights = [f"{name}.content_{part}_proj.weight" for part in "qk"]
    for vector in ("position_bias", "log_range"):
        facts.one("largest_entry", f"{name}.content_{vector}")  # finite
    for weight in weights:
        facts.one("norm", weight)  # stated of every matrix
    queries, keys = (facts.per_head("heads", weight, o.content_heads) for weight in weights)
    return max(q * k for q, k in zip(queries, keys)) * o.hidden_size / o.content_size * square(x.activation)


def mixing(o, facts, name, x):
    """Statements 11 and 12: every part of what M reads is 1-Lipschitz, or has the stretch of the memory's
    largest row, or of a content head, times its coefficient; the parts add in quadrature."""
    facts.one("largest_entry", f"{name}.position_bias")  # finite
    part = Decimal(1)
    if o.memory_channels:
        facts.one("largest_entry", f"{name}.memory_log_decay")
        part = max(part, facts.one("largest_row_rms", f"{name}.memory_proj.weight"))
    stretch = max(part, content(o, facts, name, x)) if o.content_heads else part
    coefficients = facts.one("euclidean", f"{name}.coefficients")
    gain = facts.one("norm", f"{name}.out_proj.weight") * coefficients
    return Bound(part * gain * x.activation, stretch * gain * x.lipschitz)


def quadrature_feed_forward(o, facts, name, x):
    """Statement 15: the skip and f, whose vectors are made as long as tokens, add in quadrature."""
    y = linear(facts, f"{name}.up_proj", x, o.bias)
    y = activation(o.hidden_act, o.activation_divisor, y, o.intermediate_size)
    gain = facts.one("norm", f"{name}.down_proj.weight") * facts.one("euclidean", f"{name}.coefficients")
    rounded = 1 + Decimal(2) ** -50  # of the divisor
    return Bound(*(gain * max(a, b * rounded) for a, b in zip(x, y)))


# ---- The walk. Names of layers with their bounds, and the stretch to a single logit

def walk_mlp(o, facts, domain):
    x, layers = Bound(domain, Decimal(1)), []
    *hidden, last = (f"model.layers.{i}" for i in range(len(o.layer_sizes) - 1))
    for name, size in zip(hidden, o.layer_sizes[1:]):
        x = activation(o.mlp_activation, 1, linear(facts, name, x, o.bias), size)
        layers.append((name, x))
    x, logit = head(facts, last, x, size_of(o.final_scale))
    if o.bias:
        x = Bound(x.activation + bias_rms(facts, f"{last}.bias", o.layer_sizes[-1]), x.lipschitz)
    return [*layers, (last, x)], logit


def walk_transformer(o, facts, domain):
    x = embedding(o, facts, domain)
    layers = [("model.embed_tokens", x)]

    def before(name, y):
        return y if o.norm_after else norm(o, facts, name, y)

    def after(name, y):
        return norm(o, facts, name, y) if o.norm_after else y

    for block in (f"model.layers.{i}" for i in range(o.num_hidden_layers)):
        if o.mixing == "quadrature":
            mixer = f"{block}.mixing"
            x = mixing(o, facts, mixer, x)
        else:
            mixer = f"{block}.self_attn"
            y = attention(o, facts, mixer, before(f"{block}.input_layernorm", x))
            y = residual(o, facts, f"{block}.attention", x, y)
            x = after(f"{block}.input_layernorm", y)
        layers.append((mixer, x))
        if o.residual == "quadrature":
            x = quadrature_feed_forward(o, facts, f"{block}.mlp", x)
        else:
            y = before(f"{block}.post_attention_layernorm", x)
            y = feed_forward(o, facts, f"{block}.mlp", y)
            y = residual(o, facts, f"{block}.mlp", x, y)
            x = after(f"{block}.post_attention_layernorm", y)
        layers.append((f"{block}.mlp", x))
    x = before("model.norm", x)
    x, logit = head(facts, "lm_head", x, output_scale(o, facts, "final_scale", o.final_scale))
    if o.logit_bias:
        x = Bound(x.activation + bias_rms(facts, "logit_bias", o.real_vocab_size), x.lipschitz)
    return [*layers, ("lm_head", x)], logit


# ---- The statement

def compare_bound(stated, key, walked, loose):
    """A bound beyond a double is null, and so is the logarithm of zero; nothing else is."""
    value, log, least = stated[key], stated[f"log10_{key}"], log10(walked)
    name = stated.get("name", "model")
    what = f"{name}: {key} is {value}, its log10 is {log}; the walk gives 10^{least:.12f}"
    is_zero = value is not None and number(value, what) == 0
    need(log is None if is_zero else type(log) in (int, float), what)
    need(log >= LOG_OF_LARGEST if value is None else size_of(value) >= walked, what)
    need(is_zero or log >= least - 1e-12 * max(1.0, abs(least)), what)
    too_large = least < 308 if value is None else value > 1e-100 and size_of(value * 0.999999) >= walked
    if too_large or (not is_zero and log > max(least + 4.4e-7, -100)):
        loose.append(what)


def compare_radii(c, o, facts):
    """The norm of inputs for which all is stated: what inputs reach, and how far an attack moves them."""
    keys = ("token_radius", "attack_radius", "domain_radius")
    token, attack, domain = (size_of(number(c[key], key)) for key in keys)
    need(domain >= token + attack, "domain_radius is below token_radius + attack_radius")
    least = size_of(o.input_bound) if o.is_mlp else facts.one("largest_row_rms", "model.embed_tokens.weight")
    need(token >= least, f"token_radius = {c['token_radius']} is below what inputs reach")
    return domain


def check(c, config, file, size):
    """All that docs/reference/certificate.md asks for, of opened files; returns what could be smaller."""
    o = read_options(config)
    check_fields(c, config)
    tensors = read_weights(file, size, o, c["weights"])
    if not o.is_mlp:  # the rows that are tokens
        tied = tensors["model.embed_tokens.weight"]
        tensors["lm_head.weight"] = tensors.get("lm_head.weight", tied)[:o.real_vocab_size]
    facts = Facts(c["matrices"], tensors)
    domain = compare_radii(c, o, facts)
    layers, logit = (walk_mlp if o.is_mlp else walk_transformer)(o, facts, domain)
    facts.refuse_what_nobody_asked_for()
    names = [name for name, _ in layers]
    need([layer["name"] for layer in c["layers"]] == names, f"layers must be {names}")
    for stated, (_, x) in zip(c["layers"], layers):
        compare_bound(stated, "activation", x.activation, facts.loose)
        compare_bound(stated, "lipschitz", x.lipschitz, facts.loose)
    compare_bound(c, "lipschitz", layers[-1][1].lipschitz, facts.loose)
    compare_bound(c, "largest_logit_lipschitz", logit, facts.loose)
    check_shares(c)
    observed = 0 if c["observed_lipschitz"] is None else number(c["observed_lipschitz"], "what was observed")
    need(c["lipschitz"] is None or observed <= c["lipschitz"], "observed_lipschitz is above the bound")
    return facts.loose


def check_folder(certificate, folder):
    """The certificate, and what in it could be smaller. Raises Unreadable or Refused. Every file is opened
    once, and all of them before anything is judged."""
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
    bound, log, radius = c["lipschitz"], c["log10_lipschitz"], c["domain_radius"]
    print(f"lipschitz {bound} (log10 {log}) for inputs of norm at most {radius}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
