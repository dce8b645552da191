"""The peer's worker: a recipe's model, optimizer and constraint as one writes them in PyTorch, stepped on request.

peer_torch.py hands this text to a Python that may not see the file, with `answers` to write to. It reads one JSON line
{"settings": {...}, "mode": "bfloat16_compile", "threads": n, "check": false} and then, line by line, how many steps to
time; it answers each with the seconds per step and what it used of a processor since its last answer, or with
{"error": reason}. Between requests it blocks on its input.

A mode is float32 or bfloat16 (autocast; Muon and the soft cap multiply in bfloat16), eager or compile (torch.compile of
model and loss; the products of Muon and the soft cap gain nothing by it) and, if it ends in sdpa, attention is
scaled_dot_product_attention."""
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

# a, b, c of x ↦ ax + bx³ + cx⁵, a step each; the same lists as src/linalg/orthogonalize.cpp has.
COEFFICIENTS = {
    "six_step": [tuple(x / 1024 for x in abc) for abc in
                 ((3955, -8306, 5008), (3735, -6681, 3463), (3799, -6499, 3211),
                  (4019, -6385, 2906), (2677, -3029, 1162), (2172, -1833, 682))],
    "five_step": [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
                  (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)],
    "classic": [(3.4445, -4.7750, 2.0315)] * 5,
}


class Attention(nn.Module):
    def __init__(self, s, sdpa):
        super().__init__()
        self.sdpa = sdpa
        d, self.heads = s["model.hidden_size"], s["model.num_attention_heads"]
        self.qkv = nn.Linear(d, 3 * d, bias=s["model.bias"])
        self.out = nn.Linear(d, d, bias=s["model.bias"])
        self.scale = s["model.softmax_scale"] * self.heads / d
        self.output_scale = s["model.attention_output_scale"]
        self.dropout = s["model.dropout"]
        length, half = s["data.sequence_length"], d // self.heads // 2
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))
        self.rope = s["model.positions"] == "rope"
        angles = torch.outer(torch.arange(length), s["model.rope_theta"] ** (-torch.arange(half) / half))
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def apply_rope(self, x):  # [B, H, T, d_h]
        first, second = x.chunk(2, -1)
        cosine, sine = self.cosine.to(x.dtype), self.sine.to(x.dtype)
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)

    def forward(self, x):  # [B, T, d]
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if self.rope:
            q, k = self.apply_rope(q), self.apply_rope(k)
        heads = self.attend(q, k, v).transpose(1, 2).reshape(b, t, d)
        return self.out(heads * self.output_scale)

    def attend(self, q, k, v):  # [B, H, T, d_h]
        if self.sdpa:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True, scale=self.scale)
        logits = (q * self.scale) @ k.transpose(2, 3) + self.mask
        return F.dropout(logits.softmax(-1), self.dropout).to(v.dtype) @ v


class LayerNorm(nn.Module):  # PyTorch's own has no way to leave out the bias alone
    def __init__(self, size, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


def make_norm(s):
    return LayerNorm(s["model.hidden_size"], s["model.bias"]) if s["model.norm"] == "layer_norm" else nn.Identity()


class Block(nn.Module):
    def __init__(self, s, sdpa):
        super().__init__()
        d = s["model.hidden_size"]
        self.norms = nn.ModuleList([make_norm(s), make_norm(s)])
        self.attention = Attention(s, sdpa)
        self.up = nn.Linear(d, s["model.intermediate_size"], bias=s["model.bias"])
        self.down = nn.Linear(s["model.intermediate_size"], d, bias=s["model.bias"])
        self.act, self.divisor, self.dropout = s["model.hidden_act"], s["model.activation_divisor"], s["model.dropout"]
        self.convex = s["model.residual"] == "convex"
        self.alphas = s["model.attention_alpha"], s["model.mlp_alpha"]

    def join(self, x, branch, alpha):
        branch = F.dropout(branch, self.dropout)
        return torch.lerp(x, branch.to(x.dtype), alpha) if self.convex else x + branch

    def feed_forward(self, x):
        x = self.up(x)
        x = F.relu(x) if self.act == "relu" else F.gelu(x, approximate="tanh" if self.act == "gelu_tanh" else "none")
        return self.down(x if self.divisor == 1.0 else x / self.divisor)

    def forward(self, x):
        x = self.join(x, self.attention(self.norms[0](x)), self.alphas[0])
        return self.join(x, self.feed_forward(self.norms[1](x)), self.alphas[1])


class Transformer(nn.Module):
    def __init__(self, s, sdpa):
        super().__init__()
        d, vocabulary = s["model.hidden_size"], s["model.vocab_size"]
        self.embedding = nn.Embedding(vocabulary, d)
        learned = s["model.positions"] == "learned"
        self.positions = nn.Parameter(0.02 * torch.randn(s["data.sequence_length"], d)) if learned else None
        self.blocks = nn.Sequential(*(Block(s, sdpa) for _ in range(s["model.num_hidden_layers"])))
        self.norm = make_norm(s)
        self.head = nn.Linear(d, vocabulary, bias=False)
        if s["model.tie_embeddings"]:
            self.head.weight = self.embedding.weight
        self.final_scale = s["model.final_scale"]

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = self.blocks(x if self.positions is None else x + self.positions)
        return self.head(self.norm(x)).flatten(0, 1) * self.final_scale


class MaxMin(nn.Module):
    def forward(self, x):
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((torch.maximum(a, b), torch.minimum(a, b)), -1).flatten(-2)


def make_model(s, sdpa):
    if s["model.kind"] != "mlp":
        return Transformer(s, sdpa)
    activation = MaxMin if s["model.mlp_activation"] == "maxmin" else nn.ReLU
    layers = []
    for rows, columns in zip(s["model.layer_sizes"][1:], s["model.layer_sizes"]):
        layers += [nn.Linear(columns, rows, bias=False), activation()]
    return nn.Sequential(*layers[:-1])


def random_batch(s):
    if s["model.kind"] == "mlp":
        sizes, count = s["model.layer_sizes"], s["data.batch_size"]
        return torch.rand(count, sizes[0]), torch.randint(sizes[-1], (count,))
    tokens = torch.randint(s["model.real_vocab_size"], (s["data.batch_size"], s["data.sequence_length"] + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)


def apply_polynomials(x, steps):
    """Odd polynomials of the singular values, in the plain form: the Gram matrix on the shorter side."""
    tall = x.size(0) > x.size(1)
    x = x.t() if tall else x
    for a, b, c in steps:
        gram = x @ x.t()
        side = gram if c == 0 else torch.addmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.addmm(x, side, x, beta=a, alpha=b if c == 0 else 1.0)
    return x.t() if tall else x


class Rules:
    """Muon for matrices, normalised rows for the embedding, Adam for the rest; AdamW for all if the recipe says so."""

    def __init__(self, model, s, products):
        self.s, self.products = s, products
        self.embedding = model.embedding.weight if hasattr(model, "embedding") else None
        fused = {layer.qkv for layer in model.modules() if isinstance(layer, Attention)}
        # Queries, keys and values are matrices of their own.
        self.matrices = {layer.weight: layer.weight.detach().chunk(3 if layer in fused else 1)
                         for layer in model.modules()
                         if isinstance(layer, nn.Linear) and layer.weight is not self.embedding}
        muon = s["optimizer.method"] == "muon"
        own = [*self.matrices, *([] if self.embedding is None else [self.embedding])] if muon else []
        self.momentum = {p: torch.zeros_like(p) for p in own}
        rest = [p for p in model.parameters() if p not in self.momentum]
        self.adam = torch.optim.AdamW(rest, lr=1e-3, foreach=True) if rest else None
        self.vectors = {part: F.normalize(torch.randn(part.size(1)), dim=0) for part in self.parts()}

    def parts(self):
        return [part for parts in self.matrices.values() for part in parts]

    @torch.no_grad()
    def step(self):
        if self.adam:
            self.adam.step()
        for p, m in self.momentum.items():
            m.lerp_(p.grad, 1 - self.s["optimizer.momentum"])
            if p is self.embedding:
                p.sub_(F.normalize(m, dim=1), alpha=1e-3)
                continue
            parts = self.matrices[p]
            for weight, direction in zip(parts, m.chunk(len(parts))):
                weight.sub_(self.orthogonal(direction), alpha=1e-3 * (weight.size(0) / weight.size(1)) ** 0.5)
        self.constrain()

    def orthogonal(self, m):
        x = m.to(self.products)
        return apply_polynomials(x / (x.norm() + 1e-12), COEFFICIENTS[self.s["optimizer.ns_coefficients"]]).to(m.dtype)

    def cap(self, weight):
        return self.s["constraint.sigma_max"] * (weight.size(0) / weight.size(1)) ** 0.5

    def soft_cap(self, weight):
        x = (weight / self.cap(weight)).to(self.products)
        return apply_polynomials(x, [(1.0, -0.05, 0), (1.0, 0.05, 0)]) * self.cap(weight)

    def constrain(self):
        if self.embedding is not None and self.s["constraint.embedding_cap"] > 0:
            rms = self.embedding.square().mean(1, keepdim=True).sqrt()
            self.embedding.div_((rms / self.s["constraint.embedding_cap"]).clamp_min(1.0))
        for weight in self.parts():
            if self.s["constraint.method"] == "soft_cap":
                weight.copy_(self.soft_cap(weight))
            elif self.s["constraint.method"].startswith("normalize"):
                # A round of power iteration, as in torch.nn.utils.parametrizations.spectral_norm.
                u = F.normalize(weight @ self.vectors[weight], dim=0)
                v = self.vectors[weight] = F.normalize(weight.t() @ u, dim=0)
                weight.div_((u @ weight @ v / self.cap(weight)).clamp_min(1.0))


class Trainer:
    """The model, its batch and its rules in one mode; the same seed gives the same weights and batch in every mode."""

    def __init__(self, s, mode):
        precision, how, *attention = mode.split("_")
        self.low, self.accumulate = precision == "bfloat16", s["training.accumulate"]
        torch.manual_seed(0)
        self.model, self.batch = make_model(s, attention == ["sdpa"]), random_batch(s)
        if how == "compile":
            self.loss = torch.compile(self.loss, fullgraph=True, dynamic=False)
        self.rules = Rules(self.model, s, torch.bfloat16 if self.low else torch.float32)

    def loss(self, inputs, targets):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.low):
            logits = self.model(inputs)
        return F.cross_entropy(logits.float(), targets)

    def gradients(self):
        """The loss of the batch, with its gradients in the parameters."""
        for p in self.model.parameters():
            p.grad = None
        for _ in range(self.accumulate):
            loss = self.loss(*self.batch)
            loss.backward()
        return loss.detach()

    def step(self):
        self.gradients()
        self.rules.step()

    def seconds(self):
        start = time.perf_counter()
        self.step()
        return time.perf_counter() - start


def difference(s, mode):
    """How far a mode's loss and gradients are from those of float32_eager, relative to these."""
    s = {**s, "model.dropout": 0.0}
    found = []
    for trainer in (Trainer(s, mode), Trainer(s, "float32_eager")):
        found.append([trainer.gradients(), *(p.grad for p in trainer.model.parameters())])
    return max(((a - b).norm() / b.norm()).item() for a, b in zip(*found))


def prepare(request):
    """A trainer that has done what only the first steps do: compilation, memory, threads, primitives."""
    torch.set_num_threads(request["threads"])
    trainer = Trainer(request["settings"], request["mode"])
    for _ in range(2):
        trainer.step()
    return trainer, {"parameters": sum(p.numel() for p in trainer.model.parameters()), "torch": torch.__version__}


def answer(facts):
    print(json.dumps(facts), file=answers, flush=True)  # peer_torch.py's START has opened it


def serve():
    request = json.loads(sys.stdin.readline())
    if request["check"]:
        return answer({"difference": difference(request["settings"], request["mode"]), "torch": torch.__version__})
    trainer, facts = prepare(request)
    answer(facts)
    since, used = time.perf_counter(), time.process_time()
    for line in sys.stdin:
        idle = (time.process_time() - used) / (time.perf_counter() - since)
        answer({"seconds": [trainer.seconds() for _ in range(int(line))], "idle_share": idle})
        since, used = time.perf_counter(), time.process_time()


def main():
    try:
        serve()
    except Exception as error:
        # torch.compile names the cause in the second line.
        answer({"error": " ".join(f"{type(error).__name__}: {error}".splitlines()[:2])})


if __name__ == "__main__":
    main()
