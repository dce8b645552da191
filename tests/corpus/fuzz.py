#!/usr/bin/env python3
"""Differential fuzzing: mutates certified folders and stops where the two checkers disagree about the exit code.

    fuzz.py CHECK_FOLDERS --seconds 60          what ./test runs
    fuzz.py CHECK_FOLDERS --count 1000000       by hand
    fuzz.py CHECK_FOLDERS --seed 1 --start 4711 --count 1     one mutation again, with both messages

Mutation i depends on the seed and i alone. Stated numbers are moved by at least a millionth: closer to what can just be
proved the two arithmetics may differ in their last digits, as docs/reference/certificate.md says."""
import argparse
import collections
import hashlib
import json
import math
import pathlib
import random
import sys
import time

from corpus import CERTIFICATE, CONFIG, NAMES, WEIGHTS, WORDS, Checkers, Folder, Raw, at, load_bases

LITERALS = ["0", "-0", "-0.0", "1", "1.0", "-1", "1e0", "1e400", "-1e400", "1e-400", "5e-324",
            "1.7976931348623157e308",
            "9007199254740991", "9007199254740992", "18446744073709551616", "-9223372036854775809", "NaN",
            "Infinity",
            "-Infinity", "null", "true", "false", '""', '"a"', "[]", "{}", "[1]", "[[]]", '{"a":1}', '"\\ud800"',
            '"\\u0000"',
            "01", "1.", ".5", "+1", "2", "3", "4", "0.5", "16777216", "16777217", "30000", "1e38", "1e-45",
            "3.5e38"]
SPACES = [b" ", b"\n", b"\t", b"\r", b"\x0b", b"\x0c", b"\0", b"\xc2\xa0", b"\xef\xbb\xbf", b"\x1f"]
CONFIG_VALUES = {
    "hidden_act": ["gelu", "gelu_tanh", "relu", "maxmin", "abs", "relu_squared", "tanh"],
    "norm": ["none", "tanh", "rms_norm", "layer_norm", "center_norm"], "norm_gain": [True, False, 1],
    "qk_norm": [True, False, 0], "qk_norm_epsilon": [0, 0.02, 1e-6, 1, -1], "logit_soft_cap": [0, 1, 30.0, -1],
    "attention_window": [0, 1, 2, 16777216, 16777217, -1], "document_token": [-1, 0, 4, 5, -2],
    "value_norm": [True, False, 0], "norm_after": [True, False, 1], "rope_half_truncated": [True, False, None],
    "window_block": [1, 2, 0, -1, 16777217], "long_window_layers": [[], [0], [1], [-1], [0, 0], ["0"], 0],
    "branch_dropout": [0, 0.5, 1, -0.1], "drop_path": [0, 0.5, 1, -0.1], "mixing": ["attention", "quadrature", "x"], "memory_channels": [0, 32, 64, 16],
    "content_heads": [0, 1, 2, 3, -1], "content_size": [0, 32, 64, 48, -1],
    "positions": ["rope", "learned", "none"], "residual": ["convex", "plain"],
    "initialization": ["orthogonal", "normal", "xavier_spectral", "x"],
    "softmax_scale": [1, -1.0, 0.5, 2.0, 0], "attention_output_scale": [0.1, 0.3, 0.5, -0.2],
    "final_scale": [0.5, 1, -0.25, 4.0],
    "attention_alpha": [0, 0.1, 0.5, 1, -0.1, 2.0], "mlp_alpha": [0, 0.25, 1.0, 1.25],
    "activation_divisor": [1.1289, 1.2, 2, 0.5, 0],
    "dropout": [0, 0.25, 1, 1.0, 0.999], "rope_theta": [1, 100.0, 0, -1], "norm_epsilon": [0, 0.02, 0.1, 1e-5, 1],
    "position_bias_start": [0, -2.5, 3], "position_bias_dilation": [1, 2, 0], "position_bias_offsets": [0, 2, 3],
    "max_position_embeddings": [1, 3, 4, 0], "real_vocab_size": [0, 3, 4, 5, 6], "vocab_size": [4, 5],
    "num_hidden_layers": [1, 2],
    "num_attention_heads": [1, 2, 4], "num_key_value_heads": [0, 1, 2, 4, 3], "intermediate_size": [0, 6], "bias": [True, False, 0],
    "tie_embeddings": [True, False],
    "learned_alpha": ["none", "scalar", "vector", True, False, 1],
    "logit_bias": [True, False], "learnable_scales": [True, False], "position_bias": [True, False],
    "torch_dtype": ["x", 1], "architectures": [[], ["x"], [1]], "bridle_version": ["0", 0],
    "transformers_version": ["", None],
    "layer_sizes": [[3, 5, 2], [3, 2], [2, 4, 2, 3], [3, 5]],
    "mlp_activation": ["relu", "maxmin", "gelu", "gelu_tanh", "abs", "relu_squared", "tanh"],
    "input_bound": [0.5, 1, 2, 0.25], "model_type": ["bridle", "bridle_mlp", "x"], "note": [1]}


def paths_of(value, path=()):
    """Of everything inside a JSON value."""
    items = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths_of(inner, (*path, key))


def number_paths(value):
    return [p for p in paths_of(value) if type(at(value, p)) is float]


def away_from_one(dice):
    """A factor that moves a number by a millionth to a thousandfold, up or down."""
    size = 10.0 ** dice.uniform(-5.9, 3) if dice.random() < 0.2 else 10.0 ** dice.uniform(-5.9, -0.3)
    return 1 + size if dice.random() < 0.7 else 1 / (1 + size)


def loosened(base, decades=1.0):
    """The same folder with bounds that are ten times what they need to be, so that other numbers have room."""
    folder = Folder(base)
    c = folder.json(CERTIFICATE)
    for holder in (c, *c["layers"]):
        for key in ("lipschitz", "largest_logit_lipschitz", "activation"):
            if key in holder and holder["log10_" + key] is not None:
                holder["log10_" + key] += decades
                holder[key] = None if holder[key] is None else holder[key] * 10 ** decades
    fix_shares(c)
    folder.put_json(CERTIFICATE, c)
    return folder.files


def fix_shares(c):
    logs = [-math.inf if h["log10_lipschitz"] is None else h["log10_lipschitz"] for h in (c, *c["layers"])]
    for layer, before, log in zip(c["layers"], [0.0, *logs[1:]], logs[1:]):
        share = (log - before) / logs[0] if logs[0] else math.nan
        layer["share"] = share if math.isfinite(share) else None


def is_borderline(before, after):
    """Whether a number has been moved by less than a millionth."""
    if type(before) in (dict, list) and type(before) is type(after):
        pairs = ((before[key],
                  after[key]) for key in before if key in after) if type(before) is dict else zip(before, after)
        return any(is_borderline(*pair) for pair in pairs)
    if type(before) not in (int, float) or type(after) not in (int, float):
        return False
    return before != after and abs(before - after) < 1e-6 * max(abs(before), abs(after))


# ---- Mutations: functions of a folder and dice

def mutate_bytes(folder, dice):
    name = dice.choice(NAMES)
    data = bytearray(folder.files[name])
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        place, kind = dice.randrange(len(data) + 1), dice.randrange(5)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << dice.randrange(8)
        elif kind == 1:
            data[place:place] = bytes([dice.randrange(256)])
        elif kind == 2:
            del data[place:place + dice.choice((1, 1, 4, 100))]
        elif kind == 3:
            data[place:place + 1] = bytes([dice.choice(b'0123456789.-+eE{}[]",: \\untfl')])
        else:
            data[place:place] = dice.choice(SPACES)
    before, folder.files[name] = folder.files[name], bytes(data)
    try:
        if name == CERTIFICATE and is_borderline(json.loads(before), json.loads(folder.files[name])):
            folder.files[name] = before
    except (ValueError, RecursionError):
        pass  # it is no JSON any more
    return name == WEIGHTS


def mutate_literal(folder, dice):
    name = dice.choice((CERTIFICATE, CONFIG, "header"))
    whole = folder.json(name)
    path = dice.choice(list(paths_of(whole)))
    at(whole, path[:-1])[path[-1]] = Raw(dice.choice(LITERALS))
    folder.put_json(name, whole)
    return name == "header"


def mutate_structure(folder, dice):
    name = dice.choice((CERTIFICATE, CONFIG, "header"))
    whole = folder.json(name)
    paths = list(paths_of(whole))
    path, other = dice.choice(paths), dice.choice(paths)
    holder, kind = at(whole, path[:-1]), dice.randrange(5)
    if kind == 0:
        del holder[path[-1]]
    elif kind == 1:
        holder[path[-1]] = at(whole, other)
        if other == path[:len(other)]:  # it would hold itself
            holder[path[-1]] = None
    elif kind == 2 and type(holder) is dict:
        holder[dice.choice(["note", "", "norm", "name", "scales", "heads", "euclidean", "dtype",
                            "kind"])] = at(whole, path)
    elif kind == 3 and type(holder) is list:
        holder.append(holder[path[-1]])
    elif type(holder) is list:
        dice.shuffle(holder)
    else:
        items = list(holder.items())
        dice.shuffle(items)
        holder.clear()
        holder.update(items)
    folder.put_json(name, whole)
    return name == "header"


def mutate_numbers(folder, dice):
    c = folder.json(CERTIFICATE)
    where = dice.choice(("matrices", "matrices", "matrices", "layers", ""))
    paths = number_paths(c[where]) if where else [p for p in number_paths(c) if len(p) == 1]
    for path in dice.sample(paths, min(len(paths), dice.choice((1, 1, 2, 6)))):
        holder = at(c[where] if where else c, path[:-1])
        if str(path[-1]).startswith("log10"):
            holder[path[-1]] += dice.choice((1, 1, 1, -1)) * 10.0 ** dice.uniform(-5.9, 1)
        else:
            holder[path[-1]] *= away_from_one(dice)
        if not math.isfinite(holder[path[-1]]):
            holder[path[-1]] = None
    if dice.random() < 0.8:
        try:
            fix_shares(c)
        except (TypeError, KeyError):
            pass
    folder.put_json(CERTIFICATE, c)
    return False


def mutate_choices(folder, dice):
    """What a certificate is free to choose: radii, scales, what was observed, the version."""
    c = folder.json(CERTIFICATE)
    kind = dice.randrange(4)
    if kind == 0:
        c["observed_lipschitz"] = dice.choice((None, 0, 0.0, c["lipschitz"], 0.5, 1e300))
    elif kind == 1:
        c["attack_radius"] *= dice.choice((0, 0.5, 0.999, 1.001, 2))
        c["domain_radius"] = (c["token_radius"] + c["attack_radius"]) * dice.choice((0.999, 1.000001, 1.01, 2))
    elif kind == 2:
        entry = dice.choice(c["matrices"])
        heads = len(entry.get("heads", [0, 0]))
        entry["scales"] = [dice.choice((1, 1.0, 0.5, 2.0, 0.75, 0.1, 0, -1.0)) for _ in range(heads)]
    else:
        c["version"] = dice.choice(("", "0.2.0", "\u00e9", 1))
    folder.put_json(CERTIFICATE, c)
    return False


def mutate_config(folder, dice):
    config, c = folder.json(CONFIG), folder.json(CERTIFICATE)
    own = [key for key in CONFIG_VALUES if ("layer_sizes" in config) == (key in ("layer_sizes", "mlp_activation",
            "input_bound"))]
    key = dice.choice(own if dice.random() < 0.9 else list(CONFIG_VALUES))
    config[key] = dice.choice(CONFIG_VALUES[key])
    folder.put_json(CONFIG, config)
    if dice.random() < 0.95 and type(c.get("architecture")) is dict:
        c["architecture"][key] = config[key]
        folder.put_json(CERTIFICATE, c)
    return False


def mutate_weights(folder, dice):
    header = json.loads(folder.header()[0])
    name = dice.choice([key for key in header if key != "__metadata__"])
    dtype, begin, end = folder.place(name)
    width, data = WORDS[dtype][1], bytearray(folder.files[WEIGHTS])
    if type(begin) is not int or type(end) is not int or not 0 <= begin < end <= len(data):
        raise ValueError("an earlier mutation has moved the tensor out of the file")
    for _ in range(dice.choice((1, 1, 3))):
        place = begin + width * dice.randrange((end - begin) // width)
        kind = dice.randrange(5)
        if kind == 0:
            data[place:place + width] = bytes(width)  # zero
        elif kind == 1:
            data[place + width - 1] ^= 0x80  # the sign
        elif kind == 2:
            data[place + dice.randrange(width)] ^= 1 << dice.randrange(8)
        elif kind == 3:
            data[place:place + width] = dice.randbytes(width)
        else:  # the exponent of every entry down by one or two: a smaller weight
            step = dice.choice((1, 2))
            exponent = {"F32": 23, "BF16": 7, "F16": 10}[dtype]
            for entry in range(begin, end, width):
                word = int.from_bytes(data[entry:entry + width], "little")
                if word >> exponent & (31 if dtype == "F16" else 255) > step:
                    data[entry:entry + width] = (word - (step << exponent)).to_bytes(width, "little")
    folder.files[WEIGHTS] = bytes(data)
    return True


MUTATIONS = [(mutate_bytes, 16), (mutate_literal, 16), (mutate_structure, 14), (mutate_numbers, 24),
             (mutate_choices, 6),
             (mutate_config, 10), (mutate_weights, 14)]


def mutated(bases, seed, i):
    """The folder, and the names of what was done to it."""
    dice = random.Random(f"{seed}:{i}")
    folder, done = Folder(dice.choice(bases)), []
    for _ in range(dice.choice((1, 1, 1, 2))):
        mutation = dice.choices([m for m, _ in MUTATIONS], [w for _, w in MUTATIONS])[0]
        try:
            touched = mutation(folder, dice)
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError, ArithmeticError):
            continue  # an earlier mutation has left nothing that it could work on
        done.append(mutation.__name__)
        if touched and dice.random() < 0.9:
            new = hashlib.sha256(folder.files[WEIGHTS]).hexdigest().encode()
            try:
                old = json.loads(folder.files[CERTIFICATE])["weights"]["sha256"].encode()
                folder.files[CERTIFICATE] = folder.files[CERTIFICATE].replace(old, new)
            except (KeyError, ValueError, TypeError, AttributeError):
                pass
    return folder, done


def kind_of(code, message):
    late = code == 3 and any(words in message for words in ("cannot be proved", "the stated norms give"))
    return "accepted" if code == 0 else "refused by a proof" if late else f"exit code {code}"


def keep(folder, name):
    kept = pathlib.Path(name).absolute()
    kept.mkdir(exist_ok=True)
    folder.write(kept)
    return kept


def run(checkers, bases, a):
    """How many mutations were made, and of what kind they were; none where the checkers disagree."""
    kinds, began, i, end = collections.Counter(), time.monotonic(), a.start, a.start + a.count
    while i < end and time.monotonic() - began < a.seconds:
        batch = [(j, *mutated(bases, a.seed, j)) for j in range(i, min(i + checkers.MOST, end))]
        for (j, folder, done), (bridle, python) in zip(batch,
                                                       checkers.verdicts([folder for _, folder, _ in batch])):
            if a.count == 1:
                print(done, bridle, python, sep="\n")
            if bridle[0] != python[0]:
                kept = keep(folder, f"disagreement_{a.seed}_{j}")
                print(f"seed {a.seed}, mutation {j} ({', '.join(done)}), kept in {kept}:")
                print(f"  bridle {bridle}\n  Python {python}")
                return None
            kinds[kind_of(*bridle)] += 1
        i += len(batch)
        if i % 50000 < len(batch):
            print(i, dict(kinds), f"{time.monotonic() - began:.0f} s", flush=True)
    return kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--count", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    a = parser.parse_args()
    bases = [files for base in load_bases().values() for files in (base, loosened(base))]
    with Checkers(a.driver) as checkers:
        kinds = run(checkers, bases, a)
    if not kinds:
        return 1
    found = dict(sorted(kinds.items()))
    print(f"seed {a.seed}, from {a.start}: {kinds.total()} mutations without a disagreement: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
