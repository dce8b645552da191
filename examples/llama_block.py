#!/usr/bin/env python3
"""A small Llama-style transformer in a training loop of one's own: Muon for its matrices, AdamW for the rest.

    llama_block.py [STEPS]

RMSNorm, rotary positions, grouped-query attention and SwiGLU, written in plain PyTorch. Every matrix has a cap;
queries, keys and values are capped head by head. The caps bound each matrix. They are no bound of the network: SwiGLU
multiplies two linear functions of its input, so what it stretches grows with its input.
"""
import sys

import torch
from torch import nn

import bridle

WIDTH, HEADS, GROUPS, INNER, VOCABULARY, LENGTH = 64, 4, 2, 128, 16, 32
SIZE = WIDTH // HEADS


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)


def rotate(x):
    """Rotary positions for [B, H, T, SIZE]."""
    frequency = 10000.0 ** (-torch.arange(0, SIZE, 2) / SIZE)
    angle = torch.arange(x.shape[2])[:, None] * frequency
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj = nn.Linear(WIDTH, GROUPS * SIZE, bias=False)
        self.v_proj = nn.Linear(WIDTH, GROUPS * SIZE, bias=False)
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = (
            layer(x).unflatten(-1, (-1, SIZE)).transpose(1, 2) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        k, v = (y.repeat_interleave(HEADS // GROUPS, 1) for y in (rotate(k), v))
        heads = bridle.causal_attention(rotate(q), k, v, scale=SIZE**-0.5)
        return self.o_proj(heads.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(WIDTH, INNER, bias=False)
        self.up_proj = nn.Linear(WIDTH, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.self_attn = RMSNorm(), Attention()
        self.post_attention_layernorm, self.mlp = RMSNorm(), FeedForward()

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.Sequential(Block(), Block())
        self.norm = RMSNorm()
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        return self.lm_head(self.norm(self.layers(self.embed_tokens(tokens))))


def sequences(count):
    """Every token is the sum of the two before it, modulo the size of the vocabulary."""
    columns = list(torch.randint(VOCABULARY, (2, count)))
    for _ in range(LENGTH - 1):
        columns.append((columns[-1] + columns[-2]) % VOCABULARY)
    return torch.stack(columns, 1)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    torch.manual_seed(0)
    model = Transformer()
    by_head = {"*.q_proj.weight": HEADS, "*.k_proj.weight": GROUPS, "*.v_proj.weight": GROUPS}
    matrices = {name: p for name, p in model.layers.named_parameters() if p.dim() == 2}
    in_matrices = {id(p) for p in matrices.values()}
    groups = [
        {"params": [p], "heads": next((n for key, n in by_head.items() if name.endswith(key[1:])), 1)}
        for name, p in matrices.items()
    ]
    muon = bridle.Muon(groups, lr=0.03, weight_decay=0.0, adjust_lr_fn="spectral_unclamped")
    adamw = torch.optim.AdamW([p for p in model.parameters() if id(p) not in in_matrices], lr=0.003)

    blocks = bridle.Constraint(model.layers, "soft_cap", max_norm=2.0, per_head=by_head).attach(muon)
    ends = bridle.Constraint(model, "normalize", max_norm={"embed_tokens.*": 1.0, "lm_head.*": 4.0}).attach(adamw)
    for step in range(steps):
        tokens = sequences(64)
        loss = nn.functional.cross_entropy(model(tokens[:, :-1])[:, 1:].flatten(0, 1), tokens[:, 2:].flatten())
        muon.zero_grad()
        adamw.zero_grad()
        loss.backward()
        muon.step()
        adamw.step()
        if (step + 1) % max(1, steps // 3) == 0:
            print(f"step {step + 1}   loss {loss.item():.3f}")
    for constraint in (blocks, ends):
        report = constraint.report()
        print(report)
        if not report.holds:
            sys.exit("a cap does not hold")


if __name__ == "__main__":
    main()
