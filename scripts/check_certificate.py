#!/usr/bin/env python3
"""Checks a certificate.json against the model.safetensors and config.json beside it; shares no code with Bridle. Exit
code 0: valid, or valid but not tight; 3: it does not hold; 1: a file cannot be read; 2: wrong usage. The format is in
docs/certificate.md, the mathematics in docs/theory. Every stated number is proved from the weights, in float64 with its
rounding; then the bound is walked in exact rationals, of which roots and layers' results are rounded up to 100 bits."""
import argparse, hashlib, json, math, os, pathlib, sys, types
from fractions import Fraction
os.environ.setdefault("OMP_NUM_THREADS", "1")  # most factorisations are small: threads would wait for each other
import numpy as np
FORMATS, LARGEST = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}, sys.float_info.max
SLOPES = {"gelu_tanh": Fraction("1.128993068659"), "gelu": Fraction("1.128904145186"), "relu": 1}  # largest derivatives
FOREIGN = {"model_type", "architectures", "torch_dtype", "transformers_version", "bridle_version"}  # of no consequence
MLP = dict(layer_sizes=[], mlp_activation=("relu", "maxmin"), input_bound=1.0, final_scale=1.0,
    initialization=("orthogonal", "normal"))
TRANSFORMER = dict(initialization=("orthogonal", "normal"), final_scale=1.0, residual=("convex", "plain"), dropout=0.0,
    vocab_size=0, real_vocab_size=0, hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=0,
    max_position_embeddings=0, positions=("rope", "learned", "none"), rope_theta=10000.0, hidden_act=tuple(SLOPES),
    activation_divisor=1.1289, softmax_scale=1.0, attention_output_scale=1 / 3, attention_alpha=0.0, mlp_alpha=0.0,
    position_bias=False, position_bias_offsets=0, position_bias_start=0.0, position_bias_dilation=1, logit_bias=False,
    norm=("none", "tanh", "rms_norm", "layer_norm"), norm_epsilon=1e-5, learnable_scales=False, bias=False, tie_embeddings=False)
def need(condition, message):
    if not condition: raise AssertionError(message)  # the certificate does not hold
# ---- Reading: JSON without NaN and repeated keys, safetensors without gaps and mixed types, config.json as Bridle does
def parse(data, where):
    unique = lambda pairs: dict(pairs) if len(dict(pairs)) == len(pairs) else need(False, f"{where}: a key comes twice")
    return json.loads(data.decode(), object_pairs_hook=unique, parse_constant=lambda x: need(False, f"{where} has {x}"))
def number(value, what, least=0):
    need(type(value) in (int, float) and least <= value <= LARGEST, f"{what} is {value!r}, not a number >= {least}")
    return Fraction(value)
def read_tensors(data, dtype):
    start, place, tensors = 8 + int.from_bytes(data[:8], "little"), 0, {}
    header = {name: entry for name, entry in parse(data[8:start], "the header").items() if name != "__metadata__"}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        (begin, end), count = entry["data_offsets"], math.prod(entry["shape"])
        need(begin == place < end == place + count * int(FORMATS[dtype][-1]) and end <= len(data) - start
             and entry["dtype"] == dtype and len(entry) == 3, f"model.safetensors, byte {place}: {name} is {entry}")
        place, values = end, np.frombuffer(data, FORMATS[dtype], count, start + begin)
        if dtype == "BF16": values = (values.astype(np.uint32) << 16).view(np.float32)  # the upper half of a float32
        tensors[name] = values.astype(np.float32, copy=False).reshape(entry["shape"])
        need(np.isfinite(tensors[name]).all(), f"{name} holds NaN or infinity")
    need(start + place == len(data), "model.safetensors: bytes follow the last tensor")
    return tensors
def read_options(config):  # the tables above hold the keys of each kind and their defaults; of a choice, the first
    known = {"bridle": TRANSFORMER, "bridle_mlp": MLP}[config["model_type"]]
    o = {key: like[0] if type(like) is tuple else like for key, like in {**MLP, **TRANSFORMER}.items()}
    for key in config.keys() - FOREIGN:
        o[key], like = config[key], known.get(key)
        kinds = {float: (int, float), tuple: (str,), type(None): ()}.get(type(like), (type(like),))
        need(type(o[key]) in kinds and (str not in kinds or o[key] in like), f"config.json: {key} = {o[key]} is wrong")
    return types.SimpleNamespace(**o)
def root(x):  # never too small: the least multiple of `unit` whose square is not below x; root(x ** 2) rounds x
    unit = Fraction(2) ** ((Fraction(x).numerator.bit_length() - Fraction(x).denominator.bit_length()) // 2 - 100)
    return (math.isqrt(math.ceil(x / unit ** 2) - 1) + 1) * unit if x else Fraction(0)
def float32_above(x):
    return next(y for y in map(float, (np.float32(x), np.nextafter(np.float32(x), np.float32(np.inf)))) if y >= x)
gamma = lambda k: Fraction(k, 2 ** 53 - k)  # the relative error of k roundings in float64, u = 2^-53: ku/(1 - ku)
# ---- Proofs from the weights. Each returns a function: limit -> whether "at most limit" is proved
def spectral(w):
    """sigma(W), W m x n with m >= n, scaled exactly to entries below 1. G = fl(W'W) is off by gamma_m |W|'|W|, of norm
    at most gamma_m ||W||_F^2, and by 2^-1022 for a product that underflows: e is the sum. Where tI - G is positive
    semidefinite, sigma^2 <= t + e. Let M = (t - c)I - G, its diagonal rounded by at most u(t + most). If its Cholesky
    factorisation ends, R'R = M + E, |E| <= g |R|'|R|, and the norm of E is at most g/(1 - g) tr M; c covers both."""
    w = np.array(w if w.shape[0] >= w.shape[1] else w.T, np.float64)
    (m, n), exponent = w.shape, math.frexp(max(w.max(), -w.min()))[1]
    gram = np.ldexp(w, -exponent, out=w).T @ w
    lost, g = n * int(np.count_nonzero(w)) * Fraction(1, 2 ** 1022), gamma(n + 2)
    trace, most = sum(map(Fraction, gram.diagonal().tolist())), Fraction(float(gram.diagonal().max()))
    frobenius = trace / (1 - gamma(m)) + lost  # not below ||W||_F^2
    e = gamma(m) * frobenius + lost
    def proves(limit):
        t = (limit / Fraction(2) ** exponent) ** 2 - e
        c = g / (1 - g) * (n * t - trace) + (t + most) / 2 ** 52
        if t + e >= frobenius or t <= 0 or c >= t: return t + e >= frobenius
        try: factor = np.linalg.cholesky(np.diag(np.full(n, np.nextafter(float(t - c), 0.0))) - gram)
        except np.linalg.LinAlgError: return False
        return bool(np.isfinite(factor).all() and (factor.diagonal() > 0).all())
    return proves
def euclidean(w, divisor=1):  # the largest of the rows; squares of float32 are exact in float64, and fsum rounds once
    square = max(math.fsum(np.square(row, dtype=np.float64).tolist()) for row in w.reshape(-1, w.shape[-1]))
    return lambda limit: limit ** 2 * divisor >= Fraction(math.nextafter(square, math.inf) if square else 0)
PROOFS = dict(euclidean=euclidean, euclidean_heads=euclidean, largest_row_rms=lambda w: euclidean(w, w.shape[1]),
              largest_entry=lambda w: lambda limit: limit >= float(np.abs(w).max()),  # all others are spectral
              scales=lambda w: lambda limit: limit > 0 and float32_above(limit) == limit)  # a choice, not a fact
# ---- The walk: docs/theory/modules.md. x is (activation, lipschitz); take() gives a stated number that has been proved
def walk(o, tensors, take, token, domain):
    d, H, P, n, layers = o.hidden_size, o.num_attention_heads, o.max_position_embeddings, o.layer_sizes, []
    need(min(o.activation_divisor, o.num_hidden_layers, o.norm_epsilon if "_" in o.norm else 1) > 0, "it has no bound")
    scale = lambda name, value: take("largest_entry", name, 1) if o.learnable_scales else abs(Fraction(value))
    offset = lambda name, size, bias: take("euclidean", name + ".bias", size) * root(Fraction(1, size)) if bias else 0
    def after(name, x):
        layers.append((name, *(root(number ** 2) for number in x)))
        return layers[-1][1:]
    def linear(name, x, outputs, inputs, bias=o.bias):
        gain = take("norm", name + ".weight", outputs, inputs) * root(Fraction(inputs, outputs))
        return gain * x[0] + offset(name, outputs, bias), gain * x[1]
    def norm(name, x):
        if o.norm in ("none", "tanh"): return x
        gain, slope = take("largest_entry", name + ".weight", d), root(1 / Fraction(o.norm_epsilon))
        return gain + offset(name, d, o.bias and o.norm == "layer_norm"), gain * slope * x[1]
    def attention(name, x):
        wq, wk, wv, wo = (f"{name}.{p}_proj.weight" for p in "qkvo")
        output = [take("norm", w, d, d) for w in (wq, wk, wv, wo)][-1]
        q, k, v = (take("heads", w, d, d, heads=H) for w in (wq, wk, wv))
        b = [take("euclidean_heads", f"{name}.{p}_proj.bias", d, heads=H) if o.bias else [0] * H for p in "qkv"]
        S, s = take("scales", wo, d, d, heads=H, default=[1] * H), abs(Fraction(o.softmax_scale)) * H / d
        if set(S) != {1}: output = take("scaled_columns", wo, d, d, w=tensors[wo] * np.repeat(np.float64(S), d // H))
        # Every token has |x| <= root(d) * x[0], so queries, keys and values of head h are at most Q[h], K[h], V[h].
        Q, K, V = ([size * root(d) * x[0] + bias for size, bias in zip(*pair)] for pair in zip((q, k, v), b))
        stretch = root(sum(((v[h] + s * V[h] * (q[h] * K[h] + Q[h] * k[h])) / S[h]) ** 2 for h in range(H)))
        if not o.bias:
            D = np.repeat([float32_above(k[h] * v[h] / S[h]) for h in range(H)], d // H)
            shared = take("scaled_heads", wq, d, d, w=tensors[wq] * D[:, None])
            stretch = min(stretch, root(sum((v[h] / S[h]) ** 2 for h in range(H))) + 2 * s * d * x[0] ** 2 * shared)
        activation = root(sum(((v[h] * x[0] + b[2][h] * root(Fraction(1, d))) / S[h]) ** 2 for h in range(H)))
        if o.position_bias: take("largest_entry", name + ".position_bias", H, o.position_bias_offsets or P)  # is free
        gain = output * scale(name + ".output_scale", o.attention_output_scale)
        return gain * activation + offset(name + ".o_proj", d, o.bias), gain * stretch * x[1]
    def residual(name, x, y, alpha):
        alpha = Fraction(alpha or 0.5 / o.num_hidden_layers)
        rest, share = (abs(1 - alpha), abs(alpha)) if o.residual == "convex" else (1, 1)
        return after(name, [rest * a + share * b for a, b in zip(x, y)])
    def head(name, x, outputs, inputs):  # the stretch to any one logit is the last thing it gives
        final = scale("final_scale", o.final_scale)
        a, lipschitz = (final * number for number in linear(name, x, outputs, inputs, bias=False))
        if not n and o.logit_bias: a += take("euclidean", "logit_bias", outputs) * root(Fraction(1, outputs))
        after(name, (a, lipschitz))
        return layers, x[1] * take("largest_row_rms", name + ".weight", outputs, inputs) * inputs * final
    x, table, inner = (domain, Fraction(1)), "model.embed_tokens.weight", o.intermediate_size or 4 * d
    need(token >= (o.input_bound if n else take("largest_row_rms", table, o.vocab_size, d)),
         f"token_radius = {float(token)} is below the input_bound, or the largest row of the embedding")
    need(o.mlp_activation == "relu" or all(size % 2 == 0 for size in n[1:-1]), "maxmin takes pairs")
    for i in range(len(n) - 2): x = after(f"model.layers.{i}", linear(f"model.layers.{i}", x, n[i + 1], n[i]))
    if n: return head(f"model.layers.{len(n) - 2}", x, n[-1], n[-2])
    if o.positions == "learned": x = domain + take("largest_row_rms", "model.embed_positions.weight", P, d), x[1]
    x = after("model.embed_tokens", x)
    for name in map("model.layers.{}".format, range(o.num_hidden_layers)):
        y = attention(name + ".self_attn", norm(name + ".input_layernorm", x))
        x = residual(name + ".self_attn", x, y, o.attention_alpha)
        y = linear(name + ".mlp.up_proj", norm(name + ".post_attention_layernorm", x), inner, d)
        y = y[0] / Fraction(o.activation_divisor), y[1] * SLOPES[o.hidden_act] / Fraction(o.activation_divisor)
        x = residual(name + ".mlp", x, linear(name + ".mlp.down_proj", y, d, inner), o.mlp_alpha)
    w, real = tensors.get("lm_head.weight", tensors[table]), o.real_vocab_size or o.vocab_size
    need((w is tensors[table]) == o.tie_embeddings and w.shape == (o.vocab_size, d), "lm_head.weight is another")
    tensors["lm_head.weight"] = w[:real]
    return head("lm_head", norm("model.norm", x), real, d)
# ---- The statement
def check(c, config, data):
    loose, used, dtype, sha = [], set(), c["weights"]["dtype"], hashlib.sha256(data).hexdigest()
    for key, value in dict(schema=1, formula="sound", certified=True, norm="RMS to RMS, largest over tokens",
            architecture=config, weights=dict(file="model.safetensors", sha256=sha, dtype=dtype)).items():
        need(json.dumps(c[key], sort_keys=True) == json.dumps(value, sort_keys=True), f"{key} is {c[key]}, not {value}")
    tensors, entries = read_tensors(data, dtype), {entry["name"]: entry for entry in c["matrices"]}
    need(len(entries) == len(c["matrices"]), "matrices: a name comes twice")
    def take(what, name, *shape, heads=0, w=None, default=None):  # one stated number, or one a head, each proved
        need(name in tensors and tensors[name].shape == shape, f"model.safetensors has no {name} of shape {shape}")
        used.add(name)
        entry, w = entries.get(name, {}), tensors[name] if w is None else w
        got = entry.pop(what, default) if heads else [entry.pop(what, None)]
        need(entry.get("shape") == [*shape] and type(got) is list and len(got) == (heads or 1), f"no {what} of {name}")
        numbers = [number(x, f"{what} of {name}") for x in got]
        for x, part in zip(numbers, w.reshape(heads, -1, *shape[1:]) if heads else [w]):
            proves = PROOFS.get(what, spectral)(part)
            need(proves(x), f"{what} of {name} is stated as {float(x)}, which the weights do not allow to prove")
            if what != "scales" and x > 1e-100 and proves(x * 999 / 1000): loose.append(f"{what} of {name} {float(x)}")
        return numbers if heads else numbers[0]
    token, attack, domain = (number(c[key], key) for key in ("token_radius", "attack_radius", "domain_radius"))
    need(domain >= token + attack, f"domain_radius = {float(domain)} is below token_radius + attack_radius")
    layers, logit = walk(read_options(config), tensors, take, token, domain)
    need(used == set(tensors), f"model.safetensors has {set(tensors) - used}, and the model has not")
    for name, entry in entries.items():
        for what in entry.keys() & {"norm", "scaled_columns"}: take(what, name, *entry["shape"])  # true, if not needed
        need(name in used and entry.keys() == {"name", "shape", "method"}, f"matrices: the model does not have {entry}")
    need([entry["name"] for entry in c["layers"]] == [layer[0] for layer in layers], "layers: not those of the model")
    claims = [(c, "lipschitz", layers[-1][2]), (c, "largest_logit_lipschitz", logit)]
    for e, layer in zip(c["layers"], layers): claims += [(e, "activation", layer[1]), (e, "lipschitz", layer[2])]
    for stated, key, x in claims:  # null stands for a number beyond a double, and for the logarithm of zero
        value, log = stated[key], stated["log10_" + key]
        low = math.log10(x.numerator) - math.log10(x.denominator) if x else -math.inf
        what = f"{stated.get('name', 'model')}: {key} is {value}, its log10 is {log}; the walk gives 10^{low:.12f}"
        log = -math.inf if log is None and value == 0 else number(log, what, -LARGEST)
        need((log > 308 if value is None else number(value, what) >= x) and log >= low - 1e-12 * max(1, abs(low)), what)
        if log > max(low + 4.4e-7, -100) or (value or 0) > max(x * 1000001 / 1000000, 1e-100): loose.append(what)
    total, logs = c["log10_lipschitz"], [0] + [entry["log10_lipschitz"] for entry in c["layers"]]
    for entry, before, log in zip(c["layers"], logs, logs[1:]):
        share, what, off = entry["share"], f"{entry['name']}: share is {entry['share']}", 0
        if total: off = abs(float(number(share, what, -LARGEST)) * total - log + before) - 1e-6 * abs(total) - 1e-12
        need(len(entry) == 6 and off <= 0 and (total or share is None), what)
    observed = 0 if c["observed_lipschitz"] is None else number(c["observed_lipschitz"], "observed_lipschitz")
    need(c["lipschitz"] is None or observed <= c["lipschitz"], f"observed_lipschitz = {float(observed)} is larger")
    need(len(c) == 17 and type(c["version"]) is str, f"its fields are not those of schema 1: {sorted(c)}")
    print("valid, not tight" if loose else "valid", *loose, sep="\n  ")
    print(f"lipschitz {c['lipschitz']} (log10 {total}) for all inputs of norm at most {c['domain_radius']}")
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("certificate", type=pathlib.Path)
parser.add_argument("--model", type=pathlib.Path, metavar="DIR", help="the folder of the other two files")
a = parser.parse_args()
folder = a.model or a.certificate.parent
try:
    files = [path.read_bytes() for path in (a.certificate, folder / "config.json", folder / "model.safetensors")]
    try: texts = parse(files[0], "the certificate"), parse(files[1], "config.json")
    except (ValueError, RecursionError) as error: sys.exit(f"a file is not JSON: {error}")
    check(*texts, files[2])
except OSError as error: sys.exit(str(error))
except Exception as e: sys.exit(print("the certificate fails:", e if type(e) is AssertionError else repr(e)) or 3)
