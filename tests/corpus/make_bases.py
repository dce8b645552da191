#!/usr/bin/env python3
"""Writes the models of bases/ and certifies them: make_bases.py BRIDLE FOLDER. Weights depend on the names alone.

The certificates in bases/ were written when their models were added here, most of them by version 0.1.0 before the rules
were made strict, and stay as they are: what was valid remains valid. check_corpus.py makes the folders anew and checks
those, too."""
import json
import pathlib
import random
import struct
import subprocess
import sys

SMALL = {"model_type": "bridle", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 6,
         "vocab_size": 5, "max_position_embeddings": 3}
# Name: dtype, deviation of the weights, configuration.
MODELS = {
    "mlp_relu": ("F32", 0.5, {"model_type": "bridle_mlp", "layer_sizes": [3, 5, 2], "final_scale": -2.0}),
    "mlp_maxmin": ("BF16", 0.5,
                   {"model_type": "bridle_mlp", "layer_sizes": [2, 4, 2, 3], "mlp_activation": "maxmin",
                                 "input_bound": 2, "initialization": "normal"}),
    "mlp_one_layer": ("F16", 0.5, {"model_type": "bridle_mlp", "layer_sizes": [3, 2], "architectures": ["Mlp"],
                                   "torch_dtype": "float16", "transformers_version": "4.0",
                                   "bridle_version": "0.1.0"}),
    "mlp_beyond_double": ("F32", 1e38, {"model_type": "bridle_mlp", "layer_sizes": [1] * 11}),
    "mlp_zero": ("F32", 0.5, {"model_type": "bridle_mlp", "layer_sizes": [2, 3, 2]}),
    "transformer": ("F32", 0.4, SMALL),
    "transformer_small_bound": ("F32", 0.02, {**SMALL, "num_hidden_layers": 2, "final_scale": 0.5}),
    "transformer_biased": ("F16", 0.4, {**SMALL, "bias": True, "norm": "layer_norm", "positions": "learned",
                                        "learnable_scales": True, "tie_embeddings": True, "real_vocab_size": 3,
                                        "hidden_act": "gelu"}),
    "transformer_normed": ("BF16", 0.4, {**SMALL, "norm": "rms_norm", "norm_epsilon": 0.01, "position_bias": True,
                                         "logit_bias": True, "residual": "plain", "positions": "none",
                                         "hidden_act": "relu", "real_vocab_size": 4, "dropout": 0.5}),
    "transformer_scaled_heads": ("F32", 0.4, {**SMALL, "norm": "tanh", "attention_alpha": 0.25, "mlp_alpha": 1.5,
                                              "softmax_scale": -1.5, "attention_output_scale": 0.5,
                                              "position_bias": True, "position_bias_offsets": 2}),
    "transformer_one_head": ("F32", 0.4, {**SMALL, "num_attention_heads": 1, "tie_embeddings": True}),
    "transformer_grouped": ("F32", 0.4, {**SMALL, "hidden_size": 8, "num_attention_heads": 4,
                                         "num_key_value_heads": 2, "hidden_act": "maxmin", "position_bias": True}),
    "transformer_grouped_biased": ("BF16", 0.4, {**SMALL, "num_key_value_heads": 1, "bias": True,
                                                 "positions": "none"}),
    "transformer_quadrature": ("F32", 0.3, {**SMALL, "hidden_size": 32, "mixing": "quadrature", "memory_channels": 32,
                                            "positions": "none", "hidden_act": "abs", "activation_divisor": 1.0,
                                            "learned_alpha": True, "mlp_alpha": 0.5, "attention_window": 2}),
    "transformer_speedrun": ("F32", 0.4, {**SMALL, "norm": "rms_norm", "norm_gain": False, "norm_epsilon": 0.01,
                                          "qk_norm": True, "qk_norm_epsilon": 0.01, "hidden_act": "relu_squared",
                                          "residual": "plain", "logit_soft_cap": 15.0}),
    "transformer_centered": ("BF16", 0.4, {**SMALL, "norm": "center_norm", "bias": True, "learned_alpha": True,
                                           "attention_window": 2, "document_token": 1, "drop_path": 0.5}),
    "transformer_vector_alpha": ("F32", 0.4, {**SMALL, "learned_alpha": "vector", "bias": True}),
    "transformer_lipsformer": ("F32", 0.4, {**SMALL, "learned_alpha": "vector", "residual": "plain",
                                            "norm": "center_norm", "qk_norm": True, "qk_norm_epsilon": 0.01}),
    "transformer_norms_after": ("F32", 0.4, {**SMALL, "norm": "center_norm", "norm_after": True, "value_norm": True,
                                             "qk_norm": True, "qk_norm_epsilon": 0.01, "residual": "plain",
                                             "attention_window": 2, "window_block": 2, "long_window_layers": [0],
                                             "branch_dropout": 0.5, "initialization": "xavier_spectral"}),
    "transformer_scaled_biased": ("F32", 0.4, {**SMALL, "bias": True, "positions": "none"}),
    "transformer_short_queries": ("F32", 0.4, {**SMALL, "qk_norm": True, "qk_norm_epsilon": 100.0,
                                                "intermediate_size": 5, "hidden_act": "relu"}),
    "transformer_short_values": ("F32", 0.4, {**SMALL, "qk_norm": True, "qk_norm_epsilon": 100.0,
                                               "value_norm": True}),
    "transformer_quadrature_deep": ("BF16", 0.3, {**SMALL, "hidden_size": 32, "num_hidden_layers": 2,
                                                  "mixing": "quadrature", "memory_channels": 32,
                                                  "positions": "none"}),
    "transformer_quadrature_plain": ("F16", 0.3, {**SMALL, "hidden_size": 32, "num_attention_heads": 1,
                                                  "mixing": "quadrature", "positions": "none"}),
    "transformer_quadrature_skip": ("F32", 0.3, {**SMALL, "hidden_size": 32, "intermediate_size": 24,
                                                 "mixing": "quadrature", "positions": "none", "bias": True,
                                                 "residual": "quadrature"}),
    "transformer_quadrature_content": ("F32", 0.3, {**SMALL, "hidden_size": 32, "mixing": "quadrature",
                                                    "content_heads": 2, "content_size": 64, "positions": "none",
                                                    "hidden_act": "abs", "activation_divisor": 1.0}),
    "transformer_quadrature_reading": ("BF16", 0.3, {**SMALL, "hidden_size": 32, "num_hidden_layers": 2,
                                                     "mixing": "quadrature", "memory_channels": 32,
                                                     "content_heads": 1, "positions": "none"}),
    "transformer_gated": ("F32", 0.4, {**SMALL, "gated": True, "hidden_act": "silu", "activation_divisor": 1.5,
                                       "norm": "rms_norm", "norm_epsilon": 0.01, "residual": "plain"}),
    "transformer_gated_biased": ("BF16", 0.4, {**SMALL, "gated": True, "bias": True, "hidden_act": "relu_squared",
                                               "intermediate_size": 2}),
    "mlp_biased": ("F32", 0.5, {"model_type": "bridle_mlp", "layer_sizes": [3, 5, 2], "bias": True,
                                "mlp_activation": "tanh", "final_scale": -2.0}),
    "mlp_gelu": ("F32", 0.5, {"model_type": "bridle_mlp", "layer_sizes": [3, 5, 4, 2], "mlp_activation": "gelu"}),
}


def shapes_of(config):
    """By hand, so that a mistake in the checkers' own lists would be seen."""
    if "layer_sizes" in config:
        sizes = config["layer_sizes"]
        shapes = {f"model.layers.{i}.weight": [m, n] for i, (n, m) in enumerate(zip(sizes, sizes[1:]))}
        if config.get("bias"):
            shapes.update({f"model.layers.{i}.bias": [m] for i, m in enumerate(sizes[1:])})
        return shapes
    d, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    read = d // heads * config.get("num_key_value_heads", heads)
    norm, bias = config.get("norm", "none"), config.get("bias", False)
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], d]}
    if config.get("positions") == "learned":
        shapes["model.embed_positions.weight"] = [config["max_position_embeddings"], d]
    norms = [] if config.get("norm_after") else ["model.norm"]
    for i in range(config["num_hidden_layers"]):
        block = f"model.layers.{i}"
        attention = {"self_attn.q_proj": [d, d], "self_attn.k_proj": [read, d], "self_attn.v_proj": [read, d],
                     "self_attn.o_proj": [d, d]}
        channels, mixes = config.get("memory_channels", 0), config.get("mixing") == "quadrature"
        layers = {**({} if mixes else attention), "mlp.up_proj": [inner, d], "mlp.down_proj": [d, inner]}
        if config.get("gated"):
            layers["mlp.gate_proj"] = [inner, d]
        if config.get("residual") == "quadrature":
            shapes[f"{block}.mlp.coefficients"] = [2]
            shapes[f"{block}.mlp.down_proj.weight"] = [d, d + layers.pop("mlp.down_proj")[1]]
        readers, length = config.get("content_heads", 0), config["max_position_embeddings"]
        if mixes:
            shapes[f"{block}.mixing.position_bias"] = [heads, config["max_position_embeddings"]]
            shapes[f"{block}.mixing.coefficients"] = [heads + 1 + readers + (channels > 0)]
            shapes[f"{block}.mixing.out_proj.weight"] = [d, d + heads * d + readers * d + channels]
        if readers:
            for part in "qk":
                rows = readers * config.get("content_size", d)
                shapes[f"{block}.mixing.content_{part}_proj.weight"] = [rows, d]
            shapes[f"{block}.mixing.content_position_bias"] = [readers, length]
            shapes[f"{block}.mixing.content_log_range"] = [readers]
        if channels:
            shapes[f"{block}.mixing.memory_proj.weight"] = [channels, d]
            shapes[f"{block}.mixing.memory_log_decay"] = [channels]
        for branch in ("mlp",) if mixes else ("attention", "mlp"):
            if config.get("learned_alpha"):
                shapes[f"{block}.{branch}_alpha"] = [d if config["learned_alpha"] == "vector" else 1]
        for name, shape in layers.items():
            shapes[f"{block}.{name}.weight"] = shape
            if bias:
                shapes[f"{block}.{name}.bias"] = shape[:1]
        norms += [f"{block}.input_layernorm", f"{block}.post_attention_layernorm"]
        if config.get("position_bias"):
            offsets = config.get("position_bias_offsets", config["max_position_embeddings"])
            shapes[f"{block}.self_attn.position_bias"] = [heads, offsets]
        if config.get("learnable_scales"):
            shapes[f"{block}.self_attn.output_scale"] = [1]
    for name in norms if norm in ("rms_norm", "layer_norm", "center_norm") else []:
        if config.get("norm_gain", True):
            shapes[name + ".weight"] = [d]
        if bias and norm in ("layer_norm", "center_norm"):
            shapes[name + ".bias"] = [d]
    if not config.get("tie_embeddings"):
        shapes["lm_head.weight"] = [config["vocab_size"], d]
    if config.get("learnable_scales"):
        shapes["final_scale"] = [1]
    if config.get("logit_bias"):
        shapes["logit_bias"] = [config.get("real_vocab_size", config["vocab_size"])]
    return shapes


def packed(values, dtype):
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    data = struct.pack(f"<{len(values)}f", *values)
    if dtype == "BF16":  # the upper halves
        return b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
    return data


def values_of(name, shape, deviation, model, dice):
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    values = [deviation * dice.gauss(0, 1) for _ in range(count)]
    if model == "mlp_beyond_double":
        values = [1e38 for _ in values]
    if model == "mlp_zero" and name == "model.layers.1.weight":
        values = [0.0 for _ in values]
    if model == "transformer_quadrature_content" and "content_" in name:
        values = [2.0 * x for x in values]  # norms beyond 1, which count
    if model == "transformer_quadrature_reading" and "content_" in name:
        values = [0.25 * x for x in values]  # and norms that do not
    if model == "transformer_quadrature_deep" and "memory_proj" in name:
        values = [8.0 * x for x in values]  # rows that are longer than 1
    if model.startswith("transformer_scaled") and name.endswith(("v_proj.weight", "o_proj.weight")):
        # The first head has large values and small columns, so that scales help.
        first = [i < count // 2 if "v_proj" in name else i % 4 < 2 for i in range(count)]
        large = "v_proj" in name
        values = [x * (8.0 if large else 0.125) if one else x for x, one in zip(values, first)]
    if model == "transformer_vector_alpha" and name.endswith("_alpha"):
        values = [min(1.0, abs(x)) for x in values]  # means of both: the other formula
    return values


def write_model(folder, name):
    dtype, deviation, config = MODELS[name]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    dice, header, data = random.Random(name), {"__metadata__": {"format": "pt"}}, b""
    for tensor, shape in shapes_of(config).items():
        new = packed(values_of(tensor, shape, deviation, name, dice), dtype)
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(new)]}
        data += new
    text = json.dumps(header, separators=(",", ":")).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


def make(bridle, folder):
    for name in MODELS:
        write_model(folder / name, name)
        subprocess.run([bridle, "certify", folder / name, "--search", "0", "--radius", "0.125"], check=True,
                       stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    make(sys.argv[1], pathlib.Path(sys.argv[2]))
