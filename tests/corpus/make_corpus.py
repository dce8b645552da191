#!/usr/bin/env python3
"""Writes cases.jsonl: edits of the folders in bases/ and the exit code that both checkers must give. One line a case:
{"name": ..., "base": ..., "code": 0, 1 or 3, "edits": [...]}. check_corpus.py runs them; docs/reference/certificate.md has the
rules."""
import json
import struct

from corpus import CERTIFICATE, CONFIG, HERE, WEIGHTS, edited, load_bases
from fuzz import loosened

BASES = load_bases()
CASES = {}


def case(name, code, *edits, base="transformer"):
    assert name not in CASES, name
    CASES[name] = {"name": name, "base": base, "code": code, "edits": [list(edit) for edit in edits]}


def value_at(base, name, *path):
    value = edited(BASES[base], []).json(name)
    for key in path:
        value = value[key]
    return value


# ---- JSON texts, in both files: what is no JSON cannot be read
def texts():
    for name, short, number in (CERTIFICATE, "certificate", '"attack_radius": 0.125'), (CONFIG, "config",
            '"hidden_size": 4'):
        word = number.split(":")[0]

        def text(title, code, *edits):
            case(f"text_{short}_{title}", code, *edits)
        for title, digits in {"newline": "0a", "spaces": "2020", "tab_and_return": "090d"}.items():
            text(f"ends_in_{title}", 0, ["insert_bytes", name, -1, digits])
            text(f"begins_with_{title}", 0, ["insert_bytes", name, 0, digits])
        for title, digits in {"zero": "00", "zero_and_object": "007b7d", "object": "7b7d", "comma": "2c",
                              "letter": "78",
                              "form_feed": "0c", "no_break_space": "c2a0", "mark": "efbbbf",
                              "comment": "2f2f"}.items():
            text(f"ends_in_{title}", 1, ["insert_bytes", name, -1, digits])
        for title, digits in {"mark": "efbbbf", "zero": "00", "form_feed": "0c",
                              "line_separator": "e280a8"}.items():
            text(f"begins_with_{title}", 1, ["insert_bytes", name, 0, digits])
        for literal in ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9007199254740992", "-9007199254740992",
                        "18446744073709551616", "-0", "01", "+1", ".5", "1.", "0x10", "1_0", "1e", "--1", "'a'",
                        "nan",
                        "True", "None", "", "1 2", "[1,]", "{\"a\":1,}", "{\"a\":1,\"a\":1}", "{1:1}", "\"\\x41\"",
                        "\"\\ud800\"", "\"\\udc00\\ud800\"", "\"\\ud800\\u0041\"", "\"\\u12\"", "\"\\u+123\"",
                        "\"a\tb\"",
                        "\"a\nb\"", "[" * 17 + "]" * 17, "[" * 3000 + "]" * 3000, "١"):
            text(f"holds_{len(literal)}_{literal[:24]!r}", 1, ["replace_text", name, number, f"{word}: {literal}"])
        for title, digits in {"ff": "ff", "overlong": "c080", "surrogate": "eda080", "beyond": "f4908080",
                              "cut": "e282",
                              "zero": "00", "tab": "09"}.items():
            place = BASES["transformer"][name].index(word.encode()) + 2
            text(f"has_bytes_{title}_in_a_key", 1, ["insert_bytes", name, place, digits])
        text("empty", 1, ["cut", name, 0])
        text("one_byte", 1, ["cut", name, 1])
        text("cut", 1, ["cut", name, 60])
        text("repeats_a_key", 1, ["replace_text", name, number, f"{number}, {number}"])
        text("repeats_an_escaped_key", 1,
             ["replace_text", name, number, f'{number}, {word.replace("d", chr(92) + "u0064")}: 1'])
        text("with_escaped_key", 0, ["replace_text", name, word, word.replace("d", "\\u0064", 1)])
        text("utf16", 1, ["encode", name, "utf-16"])
        text("utf16_without_mark", 1, ["encode", name, "utf-16-le"])
        text("as_long_as_can_be", 0, ["pad", name, 2 ** 22])
        text("too_long", 1, ["pad", name, 2 ** 22 + 1])
        for title, value in {"list": [], "null": None, "number": 1, "text": "a", "empty_object": {}}.items():
            text(f"is_{title}", 3, ["set_value", name, [], value])
    for literal, code in {'"\\ud83d\\ude00"': 0, '"\\u0000"': 0, '""': 0, '"\u007f\u00e9\U0001f600"': 0, '"\\/"': 0,
                          '"\\ud83d"': 1, '"\\ud83d\\ud83d"': 1, '"\\a"': 1}.items():
        case(f"text_version_{literal!r}", code, ["set_raw", CERTIFICATE, ["version"], literal])
    case("text_certificate_deep", 3, ["set_raw", CERTIFICATE, ["version"], "[" * 15 + "]" * 15])
    case("text_certificate_too_deep", 1, ["set_raw", CERTIFICATE, ["version"], "[" * 16 + "]" * 16])
    case("text_certificate_too_deep_in_one_place", 1,
         ["set_raw", CERTIFICATE, ["version"], "[1, " + "[" * 15 + "]" * 15 + ", 1]"])
    case("text_inner_key_twice", 1, ["replace_text", CERTIFICATE, '"share":', '"share": 1, "share":'])
    case("text_architecture_key_twice", 1,
         ["replace_text", CERTIFICATE, '"hidden_size": 4', '"hidden_size": 4, "hidden_size": 4'])


# ---- The certificate's fields and their types
def fields():
    certificate = value_at("transformer", CERTIFICATE)
    others = {"null": None, "true": True, "false": False, "text": "x", "list": [], "object": {}, "minus": -1,
              "zero": 0}
    fine = {("version", "text"), ("observed_lipschitz", "null"), ("observed_lipschitz", "zero"),
            ("attack_radius", "zero"),
            ("certified", "true"), ("layers_1_log10_activation", "zero")}
    places = [[key] for key in certificate] + [["weights", key] for key in certificate["weights"]]
    places += [["layers", 1, key] for key in certificate["layers"][1]]
    places += [["matrices", 1, key] for key in certificate["matrices"][1]] + [["layers", 0], ["matrices", 0]]
    for place in places:
        title = "_".join(map(str, place))
        if len(place) != 2 or type(place[1]) is str:
            case(f"field_{title}_missing", 3, ["delete", CERTIFICATE, place])
        for other, value in others.items():
            case(f"field_{title}_is_{other}", 0 if (title, other) in fine else 3,
                 ["set_value", CERTIFICATE, place, value])
    for place in [], ["weights"], ["layers", 0], ["matrices", 0], ["architecture"]:
        case(f"field_further_in_{'_'.join(map(str, place)) or 'certificate'}", 3,
             ["set_value", CERTIFICATE, [*place, "note"], "kept"])
    for literal in "1.0", "1e0", "2", "true", '"1"', "0.1e1", "-1":
        case(f"field_schema_{literal}", 3, ["set_raw", CERTIFICATE, ["schema"], literal])
    case("field_certified_1", 3, ["set_value", CERTIFICATE, ["certified"], 1])
    for place in ["formula"], ["norm"], ["weights", "file"], ["weights", "sha256"], ["weights", "dtype"]:
        text = value_at("transformer", CERTIFICATE, *place)
        if type(text) is str:
            for title, changed in {"upper": text.upper(), "space": text + " ", "zero": text + "\0",
                                   "lower": text.lower()}.items():
                if changed != text:
                    case(f"field_{place[-1]}_{title}", 3, ["set_value", CERTIFICATE, place, changed])
    case("field_order_of_matrices", 0, ["set_value", CERTIFICATE, ["matrices"], certificate["matrices"][::-1]])
    case("field_order_of_fields", 0, ["set_value", CERTIFICATE, [], dict(reversed(certificate.items()))])
    case("field_order_of_layers", 3, ["set_value", CERTIFICATE, ["layers"], certificate["layers"][::-1]])
    case("field_numbers_as_integers", 0, ["set_raw", CERTIFICATE, ["attack_radius"], "0"],
         ["set_raw", CERTIFICATE, ["token_radius"], "1"],
         ["set_raw", CERTIFICATE, ["domain_radius"], "1"], *enlarged("transformer", 3.0))


def enlarged(base, decades):
    """Every stated bound larger by powers of ten, with shares that fit."""
    certificate = json.loads(loosened(BASES[base], decades)[CERTIFICATE])
    places = [[key] for key in certificate if "lipschitz" in key and key != "observed_lipschitz"] + [["layers"]]
    return [["set_value", CERTIFICATE, place, certificate[place[0]]] for place in places]


# ---- Numbers that are stated
def numbers():
    for base in BASES:
        certificate = value_at(base, CERTIFICATE)
        case(f"number_{base}_untouched", 0, base=base)
        if base not in ("mlp_zero",):
            case(f"number_{base}_larger", 0, *enlarged(base, 1.0), base=base)
        holders = [([], certificate, ("lipschitz", "largest_logit_lipschitz"))]
        holders.append((["layers", -1], certificate["layers"][-1], ("activation", "lipschitz")))
        for place, holder, keys in holders:
            for key in keys:
                title, there = f"{base}_{'layer_' if place else ''}{key}", [*place, key]
                log = [*place, "log10_" + key]
                if holder[key]:
                    case(f"number_{title}_lowered", 3, ["scale", CERTIFICATE, there, 0.999], base=base)
                    case(f"number_{title}_null", 3, ["set_value", CERTIFICATE, there, None], base=base)
                    if key != "lipschitz":
                        case(f"number_{title}_raised", 0, ["scale", CERTIFICATE, there, 1.1], base=base)
                if holder["log10_" + key] is not None:
                    case(f"number_{title}_log_lowered", 3, ["shift", CERTIFICATE, log, -1e-3], base=base)
                    case(f"number_{title}_log_null", 3, ["set_value", CERTIFICATE, log, None], base=base)
                if holder[key] == 0:
                    case(f"number_{title}_log_stated", 3, ["set_value", CERTIFICATE, log, 1.0], base=base)
        for i, entry in enumerate(certificate["matrices"]):
            for key in sorted(entry.keys() - {"name", "shape", "method", "scales"}):
                there = ["matrices", i, key] + ([0] if type(entry[key]) is list else [])
                if i < 3 or key in ("scaled_columns", "largest_entry"):
                    case(f"number_{base}_{entry['name']}_{key}_lowered",
                         3 if max([entry[key]] if type(entry[key]) is float else entry[key]) else 0,
                         ["scale", CERTIFICATE, there, 0.999], base=base)
                    case(f"number_{base}_{entry['name']}_{key}_missing", 3, ["delete", CERTIFICATE, there[:3]],
                         base=base)
        case(f"number_{base}_domain_lowered", 3, ["scale", CERTIFICATE, ["domain_radius"], 0.99], base=base)
        case(f"number_{base}_token_lowered", 3, ["scale", CERTIFICATE, ["token_radius"], 0.99], base=base)
        case(f"number_{base}_attack_raised", 3, ["shift", CERTIFICATE, ["attack_radius"], 0.01], base=base)
        case(f"number_{base}_attack_lowered", 0, ["scale", CERTIFICATE, ["attack_radius"], 0.5], base=base)
        case(f"number_{base}_matrix_twice", 3,
             ["append_value", CERTIFICATE, ["matrices"], certificate["matrices"][0]], base=base)
        case(f"number_{base}_matrix_missing", 3, ["delete", CERTIFICATE, ["matrices", 0]], base=base)
        case(f"number_{base}_layer_missing", 3, ["delete", CERTIFICATE, ["layers", -1]], base=base)
    for key in "token_radius", "attack_radius", "domain_radius", "observed_lipschitz", "log10_lipschitz", "lipschitz":
        case(f"number_{key}_huge", 0 if key == "lipschitz" else 3,
             ["set_raw", CERTIFICATE, [key], "1.7976931348623157e308"])
    case("number_radius_minus_zero", 0, ["set_raw", CERTIFICATE, ["attack_radius"], "-0.0"])
    case("number_radius_underflows", 0, ["set_raw", CERTIFICATE, ["attack_radius"], "1e-400"])
    case("number_observed_below", 0, ["set_value", CERTIFICATE, ["observed_lipschitz"], 1.5])
    case("number_observed_above", 3, ["set_value", CERTIFICATE, ["observed_lipschitz"], 2.5])
    case("number_observed_beyond_double", 0, ["set_value", CERTIFICATE, ["observed_lipschitz"], 1e308],
         base="mlp_beyond_double")
    case("number_null_with_small_log", 3, ["set_value", CERTIFICATE, ["log10_lipschitz"], 308.2],
         base="mlp_beyond_double")
    for share in None, 0.5, True, "x":
        case(f"number_share_{share}", 3, ["set_value", CERTIFICATE, ["layers", 1, "share"], share])
    case("number_share_of_zero", 3, ["set_value", CERTIFICATE, ["layers", 0, "share"], 0.5], base="mlp_zero")
    case("number_share_of_zero_null", 3, ["set_value", CERTIFICATE, ["layers", 0, "share"], None], base="mlp_zero")
    case("number_share_of_zero_last", 3, ["set_value", CERTIFICATE, ["layers", 1, "share"], 0.0], base="mlp_zero")
    case("number_share_in_last_digits", 0, ["shift", CERTIFICATE, ["layers", 1, "share"], 1e-8])


# ---- What is stated about weights
def matrices():
    certificate = value_at("transformer", CERTIFICATE)
    index = {entry["name"]: i for i, entry in enumerate(certificate["matrices"])}
    query = index["model.layers.0.self_attn.q_proj.weight"]
    for method in "gram", "svd", "sums", "Cholesky", "":
        case(f"matrix_method_{method or 'empty'}", 3,
             ["set_value", CERTIFICATE, ["matrices", query, "method"], method])
    case("matrix_method_of_sums", 3,
         ["set_value", CERTIFICATE, ["matrices", index["model.embed_tokens.weight"], "method"], "cholesky"])
    for title, shape in {"transposed_up": [4, 6], "longer": [6, 4, 1], "floats": [6.0, 4.0], "empty": [],
                         "minus": [-6, -4]}.items():
        case(f"matrix_shape_{title}", 3,
             ["set_value", CERTIFICATE, ["matrices", index["model.layers.0.mlp.up_proj.weight"], "shape"], shape])
    for title, heads in {"number": 3.0, "one": [3.0], "three": [3.0] * 3, "nested": [[3.0, 3.0]],
                         "null": [None, 3.0], "minus": [-1, 3.0],
                         "booleans": [True, True], "empty": []}.items():
        case(f"matrix_heads_{title}", 3, ["set_value", CERTIFICATE, ["matrices", query, "heads"], heads])
    for what in "norm", "largest_row_rms", "largest_entry", "euclidean", "scaled_columns", "scaled_heads":
        for name in ("model.embed_tokens.weight", "lm_head.weight", "model.layers.0.mlp.up_proj.weight",
                     "model.layers.0.self_attn.o_proj.weight"):
            if what not in certificate["matrices"][index[name]]:
                case(f"matrix_further_{what}_of_{name}", 3,
                     ["set_value", CERTIFICATE, ["matrices", index[name], what], 100.0])
    case("matrix_of_no_weight", 3,
         ["append_value", CERTIFICATE, ["matrices"], {"name": "x", "shape": [1], "method": "sums"}])
    case("matrix_renamed", 3,
         ["set_value", CERTIFICATE, ["matrices", query, "name"], "model.layers.00.self_attn.q_proj.weight"])
    scaled = value_at("transformer_scaled_heads", CERTIFICATE)["matrices"]
    output = next(i for i, entry in enumerate(scaled) if "scales" in entry)
    for title, scales in {"ones": [1, 1.0], "zero": [0, 1], "minus": [-1.0, 1.0], "no_float32": [0.1, 1.0],
                          "huge": [1e39, 1.0],
                          "three": [2.0] * 3, "number": 2.0, "empty": [], "text": ["1", "2"], "one": [2.0]}.items():
        case(f"matrix_scales_{title}", 3, ["set_value", CERTIFICATE, ["matrices", output, "scales"], scales],
             base="transformer_scaled_heads")
    case("matrix_scales_all_one_without_columns", 3,
         ["set_value", CERTIFICATE, ["matrices", index["model.layers.0.self_attn.o_proj.weight"], "scales"],
          [1.0, 1.0]])
    # With room in all that depends on them: the scales themselves are what decides.
    room = [*enlarged("transformer_scaled_heads", 3.0),
            ["scale", CERTIFICATE, ["matrices", output, "scaled_columns"], 4.0],
            *(["scale", CERTIFICATE, ["matrices", i, "scaled_heads"], 4.0]
              for i, entry in enumerate(scaled) if "scaled_heads" in entry)]
    first = scaled[output]["scales"][0]
    for title, code, scale in (("doubled", 0, 2 * first), ("halved", 0, first / 2), ("beside", 3, first * (1 + 2 ** -30)),
                               ("negative", 3, -first), ("boolean", 3, True), ("beyond", 3, 2.0 ** 128)):
        case(f"matrix_scales_with_room_{title}", code, *room,
             ["set_value", CERTIFICATE, ["matrices", output, "scales", 0], scale], base="transformer_scaled_heads")
    case("matrix_scales_missing", 3, ["delete", CERTIFICATE, ["matrices", output, "scales"]],
         base="transformer_scaled_heads")
    case("matrix_scales_of_query", 3, ["set_value", CERTIFICATE, ["matrices", query, "scales"], [2.0, 1.0]])
    case("matrix_scales_without_columns", 3,
         ["set_value", CERTIFICATE, ["matrices", index["model.layers.0.self_attn.o_proj.weight"], "scales"],
          [2.0, 1.0]])
    case("matrix_norms_of_double_size", 0, ["scale", CERTIFICATE, ["matrices", query, "norm"], 2.0])
    case("matrix_norm_huge", 0, ["set_raw", CERTIFICATE, ["matrices", query, "norm"], "1.7976931348623157e308"])
    case("matrix_norm_tiny", 3, ["set_raw", CERTIFICATE, ["matrices", query, "norm"], "5e-324"])


# ---- config.json, with an architecture that says the same
def configurations():
    def both(title, code, key, value, base="transformer"):
        case(f"config_{title}", code, ["both", key, value], base=base)
    for key in "final_scale", "input_bound":
        for value in None, "1", True, [1.0], {}:
            both(f"mlp_{key}_{json.dumps(value)}", 3, key, value, base="mlp_relu")
    for title, sizes in {"empty": [], "one": [3], "float": [3.0, 5.0, 2.0], "zero": [3, 0, 2], "minus": [3, -5, 2],
                         "huge": [3, 2 ** 24 + 1, 2],
                         "large": [2 ** 24, 2 ** 24], "30000": [30000, 30000], "text": "3",
                         "object": {"0": 3, "1": 2}, "booleans": [True, True],
                         "null": None, "nested": [[3, 5, 2]], "other": [3, 6, 2]}.items():
        both(f"layer_sizes_{title}", 3, "layer_sizes", sizes, base="mlp_relu")
    both("odd_maxmin", 3, "mlp_activation", "maxmin", base="mlp_relu")
    both("unknown_mlp_activation", 3, "mlp_activation", "gelu", base="mlp_relu")
    both("mlp_relu_stated", 0, "mlp_activation", "relu", base="mlp_relu")
    both("gelu_tanh_is_steeper", 3, "mlp_activation", "gelu_tanh", base="mlp_gelu")
    both("relu_is_flatter", 0, "mlp_activation", "relu", base="mlp_gelu")
    both("odd_maxmin_in_a_transformer", 3, "intermediate_size", 5, base="transformer_grouped")
    both("input_bound_zero", 3, "input_bound", 0, base="mlp_relu")
    both("input_bound_smaller", 0, "input_bound", 0.5, base="mlp_relu")
    both("input_bound_larger", 3, "input_bound", 1.5, base="mlp_relu")
    both("mlp_with_hidden_size", 3, "hidden_size", 4, base="mlp_relu")
    both("transformer_with_layer_sizes", 3, "layer_sizes", [3, 5, 2])
    both("transformer_with_mlp_activation", 3, "mlp_activation", "relu")
    needed = ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"]
    for key in (*needed, "intermediate_size", "position_bias_offsets", "position_bias_dilation", "real_vocab_size"):
        for value in -1, 2 ** 24 + 1, 2 ** 53 - 1, 1.0, 4.0, True, "4", None, [4]:
            both(f"{key}_{json.dumps(value)}", 3, key, value)
    for key in needed:
        both(f"{key}_0", 3, key, 0)
        case(f"config_{key}_left_out", 3, ["delete_both", key])
    for value in -1, 2 ** 24 + 1, 2 ** 53 - 1, 2.0, True, "2", None, [2], 3, 4:
        both(f"num_key_value_heads_{json.dumps(value)}", 3, "num_key_value_heads", value)
    both("num_key_value_heads_0", 0, "num_key_value_heads", 0)
    both("num_key_value_heads_all", 0, "num_key_value_heads", 2)
    both("num_key_value_heads_1", 3, "num_key_value_heads", 1)  # other shapes
    case("config_num_key_value_heads_left_out", 3, ["delete_both", "num_key_value_heads"], base="transformer_grouped")
    for value in 0, 1, 4:
        both(f"grouped_num_key_value_heads_{value}", 3, "num_key_value_heads", value, base="transformer_grouped")
    both("position_bias_dilation_0", 3, "position_bias_dilation", 0)
    both("num_hidden_layers_many", 3, "num_hidden_layers", 2 ** 24)
    both("intermediate_size_0", 3, "intermediate_size", 0)
    both("real_vocab_size_0", 0, "real_vocab_size", 0)
    both("real_vocab_size_all", 0, "real_vocab_size", 5)
    both("real_vocab_size_4", 3, "real_vocab_size", 4)
    both("real_vocab_size_6", 3, "real_vocab_size", 6)
    both("position_bias_offsets_0", 0, "position_bias_offsets", 0)
    both("position_bias_offsets_free", 0, "position_bias_offsets", 7)
    both("position_bias_dilation_2", 0, "position_bias_dilation", 2)
    both("max_position_embeddings_other", 0, "max_position_embeddings", 2 ** 24)
    both("heads_do_not_divide", 3, "num_attention_heads", 3)
    both("odd_heads_with_rope", 3, "num_attention_heads", 4)
    for key, values in {"rope_theta": (-1, 0, "1"), "dropout": (5, 1, -0.1, 1.0, "0"),
                        "activation_divisor": (0, -1, 0.0), "norm_epsilon": (-1, "0", True),
                        "softmax_scale": ("1", None), "attention_alpha": (None, True),
                        "position_bias_start": ("0", False), "final_scale": ([], 2.0, -2)}.items():
        for value in values:
            both(f"{key}_{json.dumps(value)}", 3, key, value)
    for key, values in {"rope_theta": (1, 1e-300, 1e308), "dropout": (0, 0.99, 0.0), "norm_epsilon": (0, 1, 0.0),
                        "softmax_scale": (1, -1, 0.5, 0, 0.0),
                        "attention_alpha": (0, 0.0, 0.5), "position_bias_start": (-3, 1e308),
                        "final_scale": (1, -1.0, 0.5),
                        "attention_output_scale": (0.3, -0.1, 0)}.items():
        for value in values:
            both(f"{key}_{json.dumps(value)}", 0, key, value)
    for key, words in {"positions": ("rope", "none"), "residual": ("convex",), "norm": ("none", "tanh"),
                       "initialization": ("orthogonal", "normal", "xavier_spectral"),
                       "hidden_act": ("gelu_tanh", "gelu", "relu", "maxmin")}.items():
        for word in words:
            both(f"{key}_{word}", 0, key, word)
        for word in "other", "", 0, None, True, words[0].upper(), words[0] + " ", [words[0]]:
            both(f"{key}_{json.dumps(word)}", 3, key, word)
    for key, word in {"positions": "learned", "residual": "plain", "norm": "rms_norm"}.items():
        both(f"{key}_{word}", 3, key, word)
    for key in "position_bias", "logit_bias", "learnable_scales", "bias", "tie_embeddings":
        both(f"{key}_false", 0, key, False)
        for value in True, 0, 1, None, "false", 0.0:
            both(f"{key}_{json.dumps(value)}", 3, key, value)
    for title, code, base, keys in (
            ("window_block_alone", 3, "transformer", {"window_block": 2}),
            ("window_block_whole", 0, "transformer_centered", {"window_block": 2}),
            ("window_block_no_divisor", 3, "transformer_centered", {"window_block": 3}),
            ("window_block_zero", 3, "transformer_centered", {"window_block": 0}),
            ("long_window_layers_alone", 3, "transformer", {"long_window_layers": [0]}),
            ("long_window_layers_none", 0, "transformer", {"long_window_layers": []}),
            ("long_window_layers_first", 0, "transformer_centered", {"long_window_layers": [0]}),
            ("long_window_layers_past", 3, "transformer_centered", {"long_window_layers": [0, 1]}),
            ("long_window_layers_minus", 3, "transformer_centered", {"long_window_layers": [-1]}),
            ("long_window_layers_text", 3, "transformer_centered", {"long_window_layers": "0"}),
            ("rope_half_truncated_heads_of_2", 3, "transformer", {"rope_half_truncated": True}),
            ("rope_half_truncated_heads_of_4", 0, "transformer_one_head", {"rope_half_truncated": True}),
            ("norm_after_without_norm", 3, "transformer", {"norm_after": True}),
            ("norm_after_tanh", 0, "transformer_scaled_heads", {"norm_after": True}),
            ("norm_after_other_tensors", 3, "transformer_centered", {"norm_after": True}),
            ("norm_before_other_tensors", 3, "transformer_norms_after", {"norm_after": False}),
            ("value_norm", 3, "transformer", {"value_norm": True}),
            ("no_value_norm", 0, "transformer_norms_after", {"value_norm": False}),
            ("branch_dropout", 0, "transformer", {"branch_dropout": 0.5}),
            ("branch_dropout_all", 3, "transformer", {"branch_dropout": 1}),
            ("branch_dropout_less_than_none", 3, "transformer", {"branch_dropout": -0.1})):
        for key, value in keys.items():
            both(title, code, key, value, base=base)
    for value in "none", False:
        both(f"learned_alpha_{json.dumps(value)}", 0, "learned_alpha", value)
    for value in "scalar", "vector", True, 0, 1, None, "true", "Vector", ["vector"]:
        both(f"learned_alpha_{json.dumps(value)}", 3, "learned_alpha", value)
    both("learned_alpha_true_is_scalar", 0, "learned_alpha", "scalar", base="transformer_centered")
    for value in "none", "scalar", True:
        both(f"vector_alpha_{json.dumps(value)}", 3, "learned_alpha", value, base="transformer_vector_alpha")
    both("vector_alpha_added", 3, "residual", "plain", base="transformer_vector_alpha")
    both("no_epsilon", 3, "norm_epsilon", 0.0, base="transformer_normed")
    both("larger_epsilon", 0, "norm_epsilon", 0.02, base="transformer_normed")
    both("smaller_epsilon", 3, "norm_epsilon", 0.005, base="transformer_normed")
    for key, fine, wrong in ("architectures", ([], ["A", "B"]), ("A", [1], {}, None)), ("torch_dtype", ("x", ""),
            (1, None, ["x"])), \
            ("transformers_version", ("4",), (4.0, True)), ("bridle_version", ("9",), (9, {})):
        for i, value in enumerate(fine):
            both(f"{key}_fine_{i}", 0, key, value)
        for i, value in enumerate(wrong):
            both(f"{key}_wrong_{i}", 3, key, value)
    for value in "llama", "", "Bridle", "bridle_mlp", 1, None, True, ["bridle"]:
        both(f"model_type_{json.dumps(value)}", 3, "model_type", value)
    case("config_model_type_left_out", 3, ["delete_both", "model_type"])
    for key in "kind", "hidden_sizes", "sliding_window", "", "Hidden_size", "hidden_size ", "é", "model":
        both(f"unknown_key_{key!r}", 3, key, 4)
    case("config_only_in_file", 3, ["set_value", CONFIG, ["dropout"], 0.0])
    case("config_only_in_certificate", 3, ["set_value", CERTIFICATE, ["architecture", "dropout"], 0.0])
    case("config_integer_and_float", 3, ["set_raw", CONFIG, ["final_scale"], "1"],
         ["set_raw", CERTIFICATE, ["architecture", "final_scale"], "1.0"])
    case("config_same_number_written_twice", 0, ["set_raw", CONFIG, ["final_scale"], "1e0"],
         ["set_raw", CERTIFICATE, ["architecture", "final_scale"], "1.00"])
    case("config_zero_and_minus_zero", 0, ["set_raw", CONFIG, ["dropout"], "-0.0"],
         ["set_raw", CERTIFICATE, ["architecture", "dropout"], "0.0"])
    case("config_true_and_1", 3, ["set_raw", CONFIG, ["bias"], "false"],
         ["set_raw", CERTIFICATE, ["architecture", "bias"], "0"])
    config = value_at("transformer", CONFIG)
    case("config_other_order", 0, ["set_value", CONFIG, [], dict(reversed(config.items()))])


# Options of blocks, with the values that both accept, and refuse, in the place of what a base says.
OPTIONS = {
    "transformer": {
        "attention_window": ((0, 1, 2 ** 24), (-1, 2 ** 24 + 1, 1.0, True, None)),
        "document_token": ((-1, 0, 4), (-2, 5, 0.0, False)),
        "drop_path": ((0, 0.5, 0.0), (1, 1.0, -0.1, "0")),
        "logit_soft_cap": ((0, 30, 0.5), (-1, True, None)),
        "qk_norm": ((False,), (True, 0, 1, None)),
        "qk_norm_epsilon": ((0, 1, 0.01), (-1, -1e-9, "0", True)),
        "norm_gain": ((True, False), (1, None)),
        "mixing": (("attention",), ("quadrature", "other", "", 1)),
        "memory_channels": ((0,), (-1, 32, 1.0, True, 2 ** 24 + 1)),
        "content_heads": ((0,), (-1, 1, 1.0, True, 2 ** 24 + 1)),
        "content_size": ((0, 5, 2 ** 24), (-1, 1.0, True, 2 ** 24 + 1)),
        "hidden_act": (("abs",), ("relu_squared", "abs ")),
        "norm": (("none",), ("center_norm", "layer_norm")),
        "mlp_alpha": ((0, 0.5), (None, "0", 1.0, -2)),
        "attention_output_scale": ((0.2,), (None, "0", 1)),
        "position_bias_start": ((1,), (None,)),
        "position_bias_dilation": ((2 ** 24,), ())},
    "transformer_quadrature": {
        "norm": (("none",), ("tanh", "rms_norm")),
        "positions": (("none",), ("rope", "learned")),
        "qk_norm": ((False,), (True,)),
        "learnable_scales": ((False,), (True,)),
        "num_key_value_heads": ((0, 2), (1,)),
        "num_attention_heads": ((), (1, 3, 4)),
        "memory_channels": ((), (0, 16, 31, 64)),
        "position_bias_offsets": ((0, 3), (2, 4)),
        "position_bias": ((False, True), ()),
        "attention_window": ((0, 1), ()),
        "learned_alpha": (("scalar",), ("none", "vector")),
        "mixing": ((), ("attention",)),
        "residual": (("plain",), ("other", "quadrature"))},
    "transformer_quadrature_skip": {
        "residual": ((), ("convex", "plain")),
        "learned_alpha": (("none", False), ("scalar", "vector", True)),
        "mixing": ((), ("attention",)),
        "mlp_alpha": ((0.5,), ()),
        "intermediate_size": ((), (0, 16, 32))},
    "transformer_quadrature_content": {
        "content_heads": ((), (0, 1, 3)),
        "content_size": ((), (0, 16, 32, 48, 128)),
        "memory_channels": ((0,), (32,)),
        "position_bias_offsets": ((0, 3), (2, 4)),
        "mixing": ((), ("attention",))},
    "transformer_quadrature_reading": {
        "content_heads": ((1,), (0, 2)),
        "content_size": ((0, 32), (16, 64)),
        "memory_channels": ((), (0, 64))},
    "transformer_speedrun": {
        "qk_norm": ((), (False,)),
        "qk_norm_epsilon": ((0.02, 1), (0, 0.005)),
        "norm_gain": ((), (True,)),
        "norm": (("layer_norm",), ("none", "layer_norm_")),
        "norm_epsilon": ((0.02,), (0, 0.005)),
        "activation_divisor": ((2.0,), (1.0,))},
    "transformer_short_queries": {
        "hidden_act": (("abs",), ("maxmin", "gelu")),  # maxmin sorts pairs, and five entries are no pairs
        "qk_norm_epsilon": ((200, 1e300), (50.0, 0)),
        "softmax_scale": ((0.5, -0.5, 0), (2,))},
    "transformer_centered": {
        "norm_gain": ((), (False,)),
        "bias": ((), (False,)),
        "norm_epsilon": ((0, 1), (-1,)),
        "document_token": ((), (5,))},
    "transformer_normed": {"norm_gain": ((), (False,)), "norm": (("layer_norm",), ("center_norm", "none", "tanh"))},
    "mlp_relu": {"mlp_activation": (("abs",), ("relu_squared", "gelu_tanh"))},
    "mlp_gelu": {"mlp_activation": (("abs",), ("relu_squared", "maxmin"))}}


def options_of_blocks():
    for base, keys in OPTIONS.items():
        for key, (fine, wrong) in keys.items():
            for code, values in (0, fine), (3, wrong):
                for value in values:
                    case(f"option_{base}_{key}_{json.dumps(value)}", code, ["both", key, value], base=base)


# ---- model.safetensors; sealed, so that the digest is not what fails
def weights():
    def sealed(title, code, *edits, base="transformer"):
        case(f"weights_{title}", code, *edits, ["seal"], base=base)
    header, table = value_at("transformer", "header"), "model.embed_tokens.weight"
    size = len(BASES["transformer"][WEIGHTS])
    case("weights_not_sealed", 3, ["tensor_word", table, 0, 0])
    sealed("smaller_entry", 0, ["tensor_word", table, 0, 0])
    sealed("larger_entry", 3, ["tensor_word", table, 0, 0x7f000000])
    for title, word in {"nan": 0x7fc00000, "minus_nan": 0xffc00000, "infinity": 0x7f800000,
                        "minus_infinity": 0xff800000}.items():
        sealed(title, 3, ["tensor_word", table, 3, word])
    sealed("minus_zero", 0, ["tensor_word", table, 0, 0x80000000])
    sealed("denormal", 0, ["tensor_word", table, 0, 1])
    sealed("nan_in_a_padded_row", 3, ["tensor_word", "lm_head.weight", 19, 0x7fc0], base="transformer_normed")
    sealed("large_in_a_padded_row", 0, ["tensor_word", "lm_head.weight", 19, 0x4f00], base="transformer_normed")
    sealed("nan_in_a_position_bias", 3, ["tensor_word", "model.layers.0.self_attn.position_bias", 0, 0x7fc0],
           base="transformer_normed")
    sealed("infinite_half", 3, ["tensor_word", "model.layers.0.weight", 0, 0x7c00], base="mlp_one_layer")
    for title, text in {"space": " ", "newline": "\n", "tabs": "\t\t\r\n", "many": " " * 100}.items():
        sealed(f"header_ends_in_{title}", 0, ["header_text", "", text])
        sealed(f"header_begins_with_{title}", 3, ["header_text", text, ""])
    for title, text in {"zero": "\0", "object": "{}", "letter": "x", "form_feed": "\f"}.items():
        sealed(f"header_ends_in_{title}", 3, ["header_text", "", text])
    sealed("header_with_mark", 3, ["header_text", "\ufeff", ""])
    for title, value in {"null": None, "list": [], "text": "pt", "number": {"a": 1}, "nested": {"a": {}},
                         "true": {"a": True}}.items():
        sealed(f"metadata_{title}", 3, ["set_value", "header", ["__metadata__"], value])
    for title, value in {"empty": {}, "long": {"a": "b" * 1000}, "empty_key": {"": ""}}.items():
        sealed(f"metadata_{title}", 0, ["set_value", "header", ["__metadata__"], value])
    sealed("metadata_left_out", 0, ["delete", "header", ["__metadata__"]])
    sealed("metadata_half_a_pair", 3, ["set_raw", "header", ["__metadata__"], '{"a": "\\ud800"}'])
    sealed("metadata_key_twice", 3, ["set_raw", "header", ["__metadata__"], '{"a": "1", "a": "1"}'])
    sealed("name_twice", 3, ["replace_text", WEIGHTS, '"__metadata__"', '"lm_head.weight"'])
    for field, values in {"dtype": ("F16", "F64", "I32", "BOOL", "I8", "f32", "", None, 32, ["F32"]),
                          "shape": ([4, 5], [20], [5, 4, 1], [], [5.0, 4.0], [5, -4], [True, 20], "5x4", None,
                                    [0, 4], [5, "4"]),
                          "data_offsets": ([0, 79], [0, 84], [1, 81], [4, 84], [80, 0], [0], [0, 80, 80],
                                           [0.0, 80.0], [False, 80], None, [-1, 80], {})}.items():
        for i, value in enumerate(values):
            sealed(f"{field}_{i}", 3, ["set_value", "header", [table, field], value])
        sealed(f"{field}_missing", 3, ["delete", "header", [table, field]])
    for literal in ("[0, 8e1]", "[-0, 80]", "[0, 80.0]", "[0, 18446744073709551696]", "[00, 80]", "[0, 80, ]",
                    "[0, 1e400]"):
        sealed(f"data_offsets_{literal}", 3, ["set_raw", "header", [table, "data_offsets"], literal])
    sealed("further_field", 3, ["set_value", "header", [table, "note"], 1])
    for i, value in enumerate((None, [], 1, "F32", {})):
        sealed(f"entry_{i}", 3, ["set_value", "header", [table], value])
    sealed("further_tensor", 3,
           ["set_value", "header", ["x"], {"dtype": "F32", "shape": [1], "data_offsets": offsets(header, 4)}],
           ["append_data", "00000000"])
    sealed("further_empty_tensor", 3,
           ["set_value", "header", ["x"], {"dtype": "F32", "shape": [0], "data_offsets": offsets(header, 0)}])
    sealed("further_empty_tensor_of_another_type", 3,
           ["set_value", "header", ["x"], {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]}])
    sealed("missing_tensor", 3, ["delete", "header", ["lm_head.weight"]])
    sealed("renamed_tensor", 3, ["replace_text", WEIGHTS, '"lm_head.weight"', '"lm_head.weighs"'])
    sealed("escaped_name", 0, ["set_value", "header", [], header])
    sealed("another_order_of_names", 0, ["set_value", "header", [], dict(reversed(header.items()))])
    first, second = (f"model.layers.0.self_attn.{p}_proj.weight" for p in "qk")
    sealed("overlapping", 3, ["set_value", "header", [second, "data_offsets"], header[first]["data_offsets"]])
    sealed("exchanged", 3, ["set_value", "header", [second, "data_offsets"], header[first]["data_offsets"]],
           ["set_value", "header", [first, "data_offsets"], header[second]["data_offsets"]])
    sealed("trailing_byte", 3, ["append_data", "00"])
    sealed("trailing_bytes", 3, ["append_data", "00" * 400])
    for size_left in 0, 1, 7, 8, 9, 20, 200, size - 4, size - 1:
        sealed(f"cut_to_{size_left}", 3, ["cut", WEIGHTS, size_left])
    for length in 0, 1, 2 ** 22 + 1, 2 ** 31, 2 ** 63, 2 ** 64 - 1, size - 8, size - 7:
        sealed(f"header_length_{length}", 3, ["put_bytes", WEIGHTS, 0, struct.pack("<Q", length).hex()])
    sealed("header_of_most_bytes", 0, ["pad_header", 2 ** 22])
    sealed("header_of_too_many_bytes", 3, ["pad_header", 2 ** 22 + 1])
    sealed("other_floats", 3, ["set_value", CERTIFICATE, ["weights", "dtype"], "BF16"], base="mlp_one_layer")
    sealed("halves_as_bfloats", 3, ["replace_text", WEIGHTS, '"F16"', '"BF16"'], base="mlp_one_layer")


def data_size(header):
    return max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")


def offsets(header, size):
    return [data_size(header), data_size(header) + size]


# ---- What stands in the place of a file
def files():
    for name in CERTIFICATE, CONFIG, WEIGHTS:
        for kind in "missing", "fifo", "directory", "dangling":
            case(f"file_{name}_{kind}", 1, ["instead", name, kind])
        case(f"file_{name}_symlink", 0, ["instead", name, "symlink"])
        case(f"file_{name}_of_8_gigabytes", 3 if name == WEIGHTS else 1, ["instead", name, "sparse", 2 ** 33])
        case(f"file_{name}_missing_beside_a_certificate_that_fails", 1, ["set_value", CERTIFICATE, ["schema"], 2],
             ["instead", name, "missing"])
    case("file_config_no_json_beside_a_certificate_that_fails", 1, ["set_value", CERTIFICATE, ["schema"], 2],
         ["cut", CONFIG, 3])
    case("file_certificate_no_json_beside_a_config_that_fails", 1, ["set_value", CONFIG, [], 1],
         ["cut", CERTIFICATE, 3])


for make in texts, fields, numbers, matrices, configurations, options_of_blocks, weights, files:
    make()
with open(HERE / "cases.jsonl", "w", encoding="utf-8") as out:
    for line in CASES.values():
        out.write(json.dumps(line) + "\n")
print(len(CASES), "cases:", {code: sum(c["code"] == code for c in CASES.values()) for code in (0, 1, 3)})
