"""A model of Bridle in plain PyTorch (1.12 or later); nothing else is needed.

    import modeling_bridle
    model = modeling_bridle.load("folder")   # of config.json and model.safetensors
    logits = model(inputs)                   # tokens [B, T] -> [B, T, V]; vectors [B, D] -> [B, C]

It computes what the certificate speaks of: `embed` gives the embedded sequence (or the vectors themselves), and
`forward_from` all the rest, which is what has the Lipschitz bound. Parameters have the names of the file, so that
state_dict() and load_state_dict() go both ways. Dropout is a matter of training and is not applied.
"""
import json
import math
import pathlib
import struct

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def read_safetensors(path):
    """Names and tensors: the length of the header, the header in JSON, the bytes."""
    data = bytearray(pathlib.Path(path).read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length].decode())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        raw = torch.frombuffer(data[begin:end], dtype=DTYPES[entry["dtype"]]) if end > begin else torch.empty(0)
        tensors[name] = raw.reshape(entry["shape"]).clone()
    return tensors


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def maxmin(x):
    """Sorts pairs of neighbours, the larger first."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((torch.maximum(a, b), torch.minimum(a, b)), -1).flatten(-2)


def relu_squared(x):
    return torch.relu(x).square()


ACTIVATIONS = {"gelu": F.gelu, "gelu_tanh": gelu_tanh, "relu": torch.relu, "maxmin": maxmin, "abs": torch.abs,
               "relu_squared": relu_squared, "tanh": torch.tanh, "silu": F.silu}


def divided_by_rms(x, epsilon):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)


def vector(*shape):
    return nn.Parameter(torch.zeros(*shape))


class Options:
    """config.json's keys as attributes; a key that this module does not know is refused."""

    def __init__(self, config, known):
        foreign = {"model_type", "architectures", "torch_dtype", "transformers_version", "bridle_version"}
        for key in config.keys() - known - foreign:
            raise ValueError(f"config.json: {key} is not known to this module")
        for key in known - config.keys():
            raise ValueError(f"config.json: {key} is missing")
        self.__dict__.update(config)


class Affine(nn.Module):
    def __init__(self, outputs, inputs, bias):
        super().__init__()
        self.weight = vector(outputs, inputs)
        self.bias = vector(outputs) if bias else None

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


class Norm(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.kind, self.epsilon, self.size = o.norm, o.norm_epsilon, o.hidden_size
        scaled = o.norm in ("rms_norm", "layer_norm", "center_norm")
        self.weight = vector(o.hidden_size) if scaled and o.norm_gain else None
        self.bias = vector(o.hidden_size) if scaled and o.norm != "rms_norm" and o.bias else None

    def forward(self, x):
        if self.kind == "none":
            return x
        if self.kind == "tanh":
            return torch.tanh(x)
        if self.kind == "layer_norm":
            return F.layer_norm(x, (self.size,), self.weight, self.bias, self.epsilon)
        if self.kind == "rms_norm":
            y = divided_by_rms(x, self.epsilon)
        else:
            y = (x - x.mean(-1, keepdim=True)) * (self.size / (self.size - 1))
        y = y if self.weight is None else y * self.weight
        return y if self.bias is None else y + self.bias


class Visibility:
    """Which tokens a token sees: those before it, in its window and its document."""

    def __init__(self, o, layer):
        short = bool(o.long_window_layers) and layer not in o.long_window_layers
        self.block, blocks = o.window_block, o.attention_window // o.window_block
        self.reach = self.block * (max(blocks // 2, 1) if short else blocks)

    def mask(self, like, begins):
        """0 where token i sees token j, else minus infinity: [B or 1, 1, T, T]."""
        token = torch.arange(like.shape[1], device=like.device)[:, None]
        hidden = (token.T > token)[None]
        if self.reach > 0:
            end = token - token % self.block + self.block
            hidden = hidden | (token.T < end - self.reach)
        if begins is not None:
            hidden = hidden | (token.T < begins[:, :, None])
        return torch.zeros((), dtype=like.dtype, device=like.device).masked_fill(hidden, -math.inf)[:, None]


def biases_by_distance(table, length):
    """[H, offsets] -> [H, T, T]; the last offset serves all that are farther."""
    place = torch.arange(length, device=table.device)
    offset = (place[:, None] - place).clamp(0, table.shape[1] - 1)
    return table[:, offset]


class Attention(nn.Module):
    def __init__(self, o, layer):
        super().__init__()
        self.o, self.sees = o, Visibility(o, layer)
        self.heads, self.groups = o.num_attention_heads, o.num_key_value_heads
        self.size = o.hidden_size // self.heads
        narrow = self.groups * self.size
        self.q_proj, self.o_proj = (Affine(o.hidden_size, o.hidden_size, o.bias) for _ in range(2))
        self.k_proj, self.v_proj = (Affine(narrow, o.hidden_size, o.bias) for _ in range(2))
        self.position_bias = vector(self.heads, o.position_bias_offsets) if o.position_bias else None
        self.output_scale = vector(1) if o.learnable_scales else None

    def rotated(self, x):
        """The pair (x_i, x_{i + h/2}) of a head turns by an angle that grows with the position."""
        half = self.size // 2
        turned = half // 2 if self.o.rope_half_truncated else half
        last = max(turned - 1, 1) if self.o.rope_half_truncated else half
        power = torch.arange(turned, dtype=torch.float64, device=x.device) / -last
        frequencies = F.pad(torch.tensor(self.o.rope_theta, dtype=torch.float64) ** power, (0, half - turned))
        angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float64, device=x.device), frequencies)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)

    def forward(self, x, begins):
        def split(y):
            return y.view(*y.shape[:2], -1, self.size).transpose(1, 2)

        q, k, v = split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x))
        if self.o.positions == "rope":
            q, k = self.rotated(q), self.rotated(k)
        if self.o.qk_norm:
            q, k = divided_by_rms(q, self.o.qk_norm_epsilon), divided_by_rms(k, self.o.qk_norm_epsilon)
        if self.o.value_norm:
            v = divided_by_rms(v, self.o.qk_norm_epsilon)
        if self.groups != self.heads:
            k, v = (y.repeat_interleave(self.heads // self.groups, 1) for y in (k, v))
        logits = (q * (self.o.softmax_scale * self.heads / self.o.hidden_size)) @ k.transpose(2, 3)
        added = self.sees.mask(x, begins)
        if self.position_bias is not None:
            added = biases_by_distance(self.position_bias, x.shape[1]) + added
        y = (torch.softmax(logits + added, -1) @ v).transpose(1, 2).reshape(x.shape)
        return self.o_proj(y * (self.o.attention_output_scale if self.output_scale is None else self.output_scale))


class Linear(nn.Module):
    """A weight alone."""

    def __init__(self, rows, columns):
        super().__init__()
        self.weight = vector(rows, columns)


class Mixing(nn.Module):
    """Quadrature mixing: heads by position, decaying maxima and the skip, through one matrix."""

    def __init__(self, o, layer):
        super().__init__()
        self.sees, self.heads, self.size = Visibility(o, layer), o.num_attention_heads, o.hidden_size
        self.channels, self.readers = o.memory_channels, o.content_heads
        parts = 1 + self.heads + self.readers
        self.position_bias = vector(self.heads, o.position_bias_offsets)
        self.coefficients = vector(parts + (1 if self.channels else 0))
        self.out_proj = Linear(self.size, parts * self.size + self.channels)
        if self.readers:
            self.content_q_proj = Linear(self.readers * o.content_size, self.size)
            self.content_k_proj = Linear(self.readers * o.content_size, self.size)
            self.content_position_bias = vector(self.readers, o.position_bias_offsets)
            self.content_log_range = vector(self.readers)
        if self.channels:
            self.memory_proj = Linear(self.channels, self.size)
            self.memory_log_decay = vector(self.channels)

    def memory(self, x, begins):
        """max over j <= i of v_j - decay*(i - j), of the document's tokens."""
        v = F.linear(x, self.memory_proj.weight) * (1 / math.sqrt(self.channels * self.size))
        decay = self.memory_log_decay.clamp_max(10.0).exp()
        if begins is None:
            place = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)[:, None] * decay
            return (v + place).cummax(1).values - place
        rows = [v[:, 0]]
        for t in range(1, x.shape[1]):
            fresh = (begins[:, t] == t)[:, None]
            rows.append(torch.where(fresh, v[:, t], torch.maximum(v[:, t], rows[-1] - decay)))
        return torch.stack(rows, 1)

    def content(self, x, begins):
        """Means of tokens by what they are, each divided by the price of its range."""
        q, k = (F.linear(x, p.weight).unflatten(-1, (self.readers, -1)).transpose(1, 2)
                for p in (self.content_q_proj, self.content_k_proj))
        ranges = self.content_log_range.clamp_max(10.0).exp()
        logits = (q * (ranges / q.shape[-1])[:, None, None]) @ k.transpose(2, 3)
        logits = logits + biases_by_distance(self.content_position_bias, x.shape[1]) + self.sees.mask(x, begins)
        prices = (ranges.square() + 1).sqrt() + ranges
        return torch.softmax(logits, -1) @ x[:, None] / prices[:, None, None]

    def forward(self, x, begins):
        weights = torch.softmax(biases_by_distance(self.position_bias, x.shape[1]) + self.sees.mask(x, begins), -1)
        means = weights @ x[:, None]
        parts = [x * self.coefficients[0], *(means[:, h] * self.coefficients[1 + h] for h in range(self.heads))]
        if self.readers:
            read = self.content(x, begins)
            parts += (read[:, k] * self.coefficients[1 + self.heads + k] for k in range(self.readers))
        if self.channels:
            parts.append(self.memory(x, begins) * self.coefficients[-1])
        return F.linear(torch.cat(parts, -1), self.out_proj.weight)


class FeedForward(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.activation, self.divisor = ACTIVATIONS[o.hidden_act], o.activation_divisor
        self.gate_proj = Affine(o.intermediate_size, o.hidden_size, o.bias) if o.gated else None
        self.up_proj = Affine(o.intermediate_size, o.hidden_size, o.bias)
        self.down_proj = Affine(o.hidden_size, o.intermediate_size, o.bias)

    def active(self, x):
        return self.activation(x) if self.divisor == 1.0 else self.activation(x) / self.divisor

    def forward(self, x):
        if self.gate_proj is None:
            return self.down_proj(self.active(self.up_proj(x)))
        return self.down_proj(self.active(self.gate_proj(x)) * self.up_proj(x))


class QuadratureFeedForward(nn.Module):
    """The skip is a part of the last matrix, as in quadrature mixing."""

    def __init__(self, o):
        super().__init__()
        self.activation = ACTIVATIONS[o.hidden_act]
        self.divisor = o.activation_divisor * math.sqrt(o.intermediate_size / o.hidden_size)
        self.up_proj = Affine(o.intermediate_size, o.hidden_size, o.bias)
        self.coefficients = vector(2)
        self.down_proj = Linear(o.hidden_size, o.hidden_size + o.intermediate_size)

    def forward(self, x):
        fed = self.activation(self.up_proj(x)) / self.divisor
        parts = x * self.coefficients[0], fed * self.coefficients[1]
        return F.linear(torch.cat(parts, -1), self.down_proj.weight)


class Block(nn.Module):
    def __init__(self, o, layer):
        super().__init__()
        self.convex, self.norm_after = o.residual == "convex", o.norm_after
        self.alphas = (o.attention_alpha, o.mlp_alpha)
        entries = {"none": 0, "scalar": 1, "vector": o.hidden_size}[o.learned_alpha]
        if o.mixing == "quadrature":
            self.mixing = Mixing(o, layer)
        else:
            self.input_layernorm, self.self_attn = Norm(o), Attention(o, layer)
            self.attention_alpha = vector(entries) if entries else None
        if o.residual == "quadrature":
            self.mlp = QuadratureFeedForward(o)
            return
        self.post_attention_layernorm, self.mlp = Norm(o), FeedForward(o)
        self.mlp_alpha = vector(entries) if entries else None

    def residual(self, x, branch, learned, fixed):
        alpha = fixed if learned is None else learned
        if self.convex:
            return torch.lerp(x, branch, alpha if learned is None else alpha.expand_as(x))
        return x + branch if learned is None else x + branch * alpha

    def branch(self, x, norm, module, learned, fixed):
        y = self.residual(x, module(x if self.norm_after else norm(x)), learned, fixed)
        return norm(y) if self.norm_after else y

    def forward(self, x, begins):
        if hasattr(self, "mixing"):
            x = self.mixing(x, begins)
        else:
            x = self.branch(x, self.input_layernorm, lambda y: self.self_attn(y, begins), self.attention_alpha,
                            self.alphas[0])
        if isinstance(self.mlp, QuadratureFeedForward):
            return self.mlp(x)
        return self.branch(x, self.post_attention_layernorm, self.mlp, self.mlp_alpha, self.alphas[1])


class BridleTransformer(nn.Module):
    KEYS = {"vocab_size", "real_vocab_size", "hidden_size", "num_hidden_layers", "mixing", "memory_channels",
            "content_heads", "content_size",
            "num_attention_heads", "num_key_value_heads", "intermediate_size", "max_position_embeddings",
            "positions", "rope_theta", "rope_half_truncated", "hidden_act", "activation_divisor", "gated",
            "softmax_scale", "attention_output_scale", "residual", "attention_alpha", "mlp_alpha", "learned_alpha",
            "position_bias", "position_bias_offsets", "position_bias_start", "position_bias_dilation", "qk_norm",
            "qk_norm_epsilon", "value_norm", "attention_window", "window_block", "long_window_layers",
            "document_token", "logit_bias", "norm", "norm_after", "norm_epsilon", "norm_gain", "learnable_scales",
            "bias", "tie_embeddings", "dropout", "branch_dropout", "drop_path", "logit_soft_cap", "initialization",
            "final_scale"}

    def __init__(self, config):
        super().__init__()
        self.o = o = Options(config, self.KEYS)
        self.model = nn.Module()
        self.model.embed_tokens = Linear(o.vocab_size, o.hidden_size)
        if o.positions == "learned":
            self.model.embed_positions = Linear(o.max_position_embeddings, o.hidden_size)
        self.model.layers = nn.ModuleList(Block(o, i) for i in range(o.num_hidden_layers))
        if not o.norm_after:
            self.model.norm = Norm(o)
        if not o.tie_embeddings:
            self.lm_head = Linear(o.vocab_size, o.hidden_size)
        self.final_scale = vector(1) if o.learnable_scales else None
        self.logit_bias = vector(o.real_vocab_size) if o.logit_bias else None

    def begins(self, tokens):
        """Where each token's document begins; None without documents."""
        if self.o.document_token < 0:
            return None
        place = torch.arange(tokens.shape[1], device=tokens.device)
        return (place * (tokens == self.o.document_token)).cummax(1).values

    def embed(self, tokens):
        return F.embedding(tokens, self.model.embed_tokens.weight)

    def forward_from(self, x, begins=None):
        """[B, T, d], without positions -> logits [B, T, V]."""
        if self.o.positions == "learned":
            x = x + self.model.embed_positions.weight[:x.shape[1]]
        for block in self.model.layers:
            x = block(x, begins)
        if not self.o.norm_after:
            x = self.model.norm(x)
        head = self.model.embed_tokens if self.o.tie_embeddings else self.lm_head
        logits = F.linear(x, head.weight[:self.o.real_vocab_size])
        logits = logits * (self.o.final_scale if self.final_scale is None else self.final_scale)
        if self.logit_bias is not None:
            logits = logits + self.logit_bias
        cap = self.o.logit_soft_cap
        return torch.tanh(logits / cap) * cap if cap else logits

    def forward(self, tokens):
        return self.forward_from(self.embed(tokens), self.begins(tokens))


class BridleMlp(nn.Module):
    KEYS = {"layer_sizes", "mlp_activation", "bias", "input_bound", "initialization", "final_scale"}

    def __init__(self, config):
        super().__init__()
        self.o = o = Options(config, self.KEYS)
        self.model = nn.Module()
        pairs = zip(o.layer_sizes, o.layer_sizes[1:])
        self.model.layers = nn.ModuleList(Affine(outputs, inputs, o.bias) for inputs, outputs in pairs)

    def embed(self, x):
        return x

    def forward_from(self, x):
        *hidden, last = self.model.layers
        for layer in hidden:
            x = ACTIVATIONS[self.o.mlp_activation](layer(x))
        logits = F.linear(x, last.weight) * self.o.final_scale
        return logits if last.bias is None else logits + last.bias

    def forward(self, x):
        return self.forward_from(x)


def load(folder, dtype=None):
    """The model of a folder with config.json and model.safetensors, for evaluation."""
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    kinds = {"bridle": BridleTransformer, "bridle_mlp": BridleMlp}
    if config.get("model_type") not in kinds:
        raise ValueError(f"config.json: model_type must be one of {', '.join(kinds)}, got {config.get('model_type')}")
    model = kinds[config["model_type"]](config)
    tensors = read_safetensors(folder / "model.safetensors")
    model = model.to(next(iter(tensors.values())).dtype)
    model.load_state_dict(tensors, strict=True)
    return model.eval() if dtype is None else model.to(dtype).eval()
