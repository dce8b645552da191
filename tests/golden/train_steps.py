#!/usr/bin/env python3
"""Golden reference for training: ten steps of small Lipschitz-bounded networks in plain PyTorch.

Written from the definitions, not from Bridle's sources, so that agreement means something. One file per case:
    python3 tests/golden/train_steps.py            writes train_CASE.safetensors beside this script
    python3 tests/golden/train_steps.py --check    finite differences, and how far float32 is from float64 in every case
Everything is float32, as in the trainer; set-up (QR, sup of the polynomial, strength of the soft cap) is float64.
The trainer itself aims its soft cap lower by a margin of order 1e-6 for float32's sake; this reference does not."""
import json
import math
import pathlib
import struct
import sys

import torch

torch.set_num_threads(1)
STEPS = 10
MLP = dict(sizes=(48, 32, 32, 10), batch=16)
TRANSFORMER = dict(vocabulary=29, width=32, blocks=2, heads=4, mlp_width=128, sequence=24, batch=6, softmax_scale=1.5,
                   attention_output_scale=1 / 3, gelu_divisor=1.1289, rope_base=10000.0, final_scale=2.0)
MOMENTUM, BETA2, EPSILON, INFLATION_LIMIT = 0.9, 0.95, 1e-12, 16.0
SIX_STEPS = [tuple(x / 1024 for x in abc) for abc in (
    (3955, -8306, 5008), (3735, -6681, 3463), (3799, -6499, 3211),
    (4019, -6385, 2906), (2677, -3029, 1162), (2172, -1833, 682))]


def case(model, optimizer, constraint, start, lr, weight_decay, sensitivity=1):
    return dict(model=model, optimizer=optimizer, constraint=constraint, start=start, learning_rate=lr,
                weight_decay=weight_decay, residual_sensitivity=sensitivity, sigma_max=1.2)


# At 0.5 the steps stay in the middle range of the soft cap's rule. The larger rates also reach its upper range (steps
# so long that the matrix is first scaled down) and make "normalise" bind in the transformer.
CASES = {
    "mlp_muon_softcap": case("mlp", "muon", "softcap", "zero", 0.5, 0.0),
    "mlp_muon_normalise": case("mlp", "muon", "normalise", "zero", 0.5, 0.0),
    "mlp_adamw": case("mlp", "adamw", "none", "zero", 0.01, 0.1),
    "mlp_muon_softcap_random": case("mlp", "muon", "softcap", "random", 1.5, 0.1),
    "transformer_muon_softcap": case("transformer", "muon", "softcap", "zero", 0.5, 0.0),
    "transformer_muon_normalise": case("transformer", "muon", "normalise", "zero", 0.5, 0.0),
    "transformer_adamw": case("transformer", "adamw", "none", "zero", 0.01, 0.1),
    "transformer_muon_softcap_random": case("transformer", "muon", "softcap", "random", 6.0, 0.1),
    "transformer_muon_normalise_random": case("transformer", "muon", "normalise", "random", 3.0, 0.1),
    "transformer_adamw_random": case("transformer", "adamw", "none", "random", 0.01, 0.1),
    "transformer_muon_softcap_sensitivity2": case("transformer", "muon", "softcap", "random", 0.5, 0.1, 2),
}


def mlp_loss(weights, inputs, labels):
    x = (inputs @ weights["model.layers.0.weight"].T).clamp(min=0)
    x = (x @ weights["model.layers.1.weight"].T).clamp(min=0)
    return cross_entropy(x @ weights["model.layers.2.weight"].T, labels)


def transformer_loss(weights, tokens, targets):
    t = TRANSFORMER
    alpha = 1 / (2 * t["blocks"])
    x = weights["model.embed_tokens.weight"][tokens]  # [B, T, d]
    for n in range(t["blocks"]):
        layer = f"model.layers.{n}."
        x = (1 - alpha) * x + alpha * attention(x, weights, layer + "self_attn.")
        up, down = weights[layer + "mlp.up_proj.weight"], weights[layer + "mlp.down_proj.weight"]
        x = (1 - alpha) * x + alpha * ((gelu_tanh(x @ up.T) / t["gelu_divisor"]) @ down.T)
    logits = t["final_scale"] * (x @ weights["lm_head.weight"].T)
    return cross_entropy(logits.reshape(-1, t["vocabulary"]), targets.reshape(-1))


def attention(x, weights, prefix):
    t = TRANSFORMER
    batch, length, width = x.shape
    head_size = width // t["heads"]

    def heads(name):  # [B, H, T, d_h]
        y = x @ weights[f"{prefix}{name}_proj.weight"].T
        return y.reshape(batch, length, t["heads"], head_size).transpose(1, 2)

    q, k, v = rotate(heads("q")), rotate(heads("k")), heads("v")
    logits = t["softmax_scale"] / head_size * (q @ k.transpose(-1, -2))
    logits = logits.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
    mixed = (torch.softmax(logits, dim=-1) @ v).transpose(1, 2).reshape(batch, length, width)
    return t["attention_output_scale"] * (mixed @ weights[prefix + "o_proj.weight"].T)


def rotate(x):
    """Rotary positions, half-split: component i turns with component i + d_h/2."""
    length, head_size = x.shape[-2:]
    frequency = TRANSFORMER["rope_base"] ** (-2 * torch.arange(head_size // 2, dtype=torch.float64) / head_size)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :head_size // 2], x[..., head_size // 2:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def cross_entropy(logits, targets):
    return (torch.logsumexp(logits, dim=-1) - logits.gather(-1, targets[:, None])[:, 0]).mean()


def rms_factor(w):
    """√(out/in): a matrix of this spectral norm has RMS→RMS norm 1."""
    return math.sqrt(w.shape[0] / w.shape[1])


def rms_norm(w):
    return float(torch.linalg.svdvals(w.double())[0]) / rms_factor(w)


def initial_weights(model, start):
    """The same matrices for both starts but for those that begin at zero: "random" gives these RMS→RMS norm 1/4."""
    random = torch.Generator().manual_seed(20250801)

    def gaussian(rows, columns):
        return torch.randn(rows, columns, generator=random, dtype=torch.float64)

    def semi_orthogonal(rows, columns):
        g = gaussian(rows, columns)
        q, r = torch.linalg.qr(g if rows >= columns else g.T)
        q = q * torch.sign(torch.diagonal(r))
        return (q if rows >= columns else q.T) * math.sqrt(rows / columns)

    def zero_or_small(rows, columns):
        g = gaussian(rows, columns)
        return g * 0 if start == "zero" else g * (0.25 / rms_norm(g))

    weights = {}
    if model == "mlp":
        for i, (columns, rows) in enumerate(zip(MLP["sizes"], MLP["sizes"][1:])):
            weights[f"model.layers.{i}.weight"] = (semi_orthogonal if i < 2 else zero_or_small)(rows, columns)
    else:
        d, vocabulary, inner = (TRANSFORMER[key] for key in ("width", "vocabulary", "mlp_width"))
        table = gaussian(vocabulary, d)
        weights["model.embed_tokens.weight"] = table / table.square().mean(1, keepdim=True).sqrt()
        for n in range(TRANSFORMER["blocks"]):
            layer = f"model.layers.{n}."
            for name in "qkv":
                weights[f"{layer}self_attn.{name}_proj.weight"] = semi_orthogonal(d, d)
            weights[layer + "self_attn.o_proj.weight"] = zero_or_small(d, d)
            weights[layer + "mlp.up_proj.weight"] = semi_orthogonal(inner, d)
            weights[layer + "mlp.down_proj.weight"] = zero_or_small(d, inner)
        weights["lm_head.weight"] = zero_or_small(vocabulary, d)
    return {name: w.float().contiguous() for name, w in weights.items()}


def make_batches(model):
    """MLP: "pixels" in [0, 1], a noisy prototype for each label. Transformer: a noisy walk over all tokens but the
    last, whose row of the table therefore never has a gradient."""
    random = torch.Generator().manual_seed(20250802)
    if model == "mlp":
        labels = torch.randint(MLP["sizes"][-1], (STEPS, MLP["batch"]), generator=random)
        prototypes = torch.rand(MLP["sizes"][-1], MLP["sizes"][0], generator=random)
        noise = torch.rand(STEPS, MLP["batch"], MLP["sizes"][0], generator=random)
        return 0.75 * prototypes[labels] + 0.25 * noise, labels
    shape = (STEPS, TRANSFORMER["batch"], TRANSFORMER["sequence"] + 1)
    walk = torch.randint(TRANSFORMER["vocabulary"] - 1, shape, generator=random)
    follows = torch.rand(shape, generator=random) < 0.85
    for i in range(1, shape[2]):
        successor = (5 * walk[..., i - 1] + 3) % (TRANSFORMER["vocabulary"] - 1)
        walk[..., i] = torch.where(follows[..., i], successor, walk[..., i])
    return walk[..., :-1].contiguous(), walk[..., 1:].contiguous()


def orthogonalise(g):
    norm = torch.linalg.norm(g)
    if norm == 0:
        return g
    x = g / norm
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for a, b, c in SIX_STEPS:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def dualise(name, m):
    if "embed_tokens" in name:
        return m / m.square().mean(1, keepdim=True).sqrt().clamp(min=1 / INFLATION_LIMIT)
    return orthogonalise(m) * rms_factor(m)


def learning_rate_shares(settings, names):
    """Mass over total mass, divided by the sensitivity of every residual connection that comes after the weight."""
    if settings["model"] == "mlp":
        return {name: 1 / 3 for name in names}
    residuals = 2 * TRANSFORMER["blocks"]
    block_weights = sum(name.startswith("model.layers.") for name in names)
    shares = {}
    for name in names:
        mass, after = 1.0, residuals if "embed_tokens" in name else 0
        if name.startswith("model.layers."):
            mass, after = 32 / block_weights, residuals - 1 - (2 * int(name.split(".")[2]) + (".mlp." in name))
        shares[name] = mass / 34 / settings["residual_sensitivity"] ** after
    return shares


def update_bound():
    """b: the largest value that the composed polynomial takes on [0, 1], by a grid refined around its maximum."""
    low, high = 0.0, 1.0
    for _ in range(4):
        x = torch.linspace(low, high, 2_000_001, dtype=torch.float64)
        y = x.clone()
        for a, b, c in SIX_STEPS:
            y = y * (a + y.square() * (b + c * y.square()))
        best, step = int(y.argmax()), (high - low) / 2_000_000
        low, high = max(0.0, float(x[best]) - 2 * step), min(1.0, float(x[best]) + 2 * step)
    return float(y.max())


UPDATE_BOUND = update_bound()


def soft_cap_strength(k, sigma_max):
    """(scale, α) that bring every singular value up to k (RMS→RMS units) down to at most σ_max."""
    if k <= sigma_max:
        return 1.0, 0.0
    limit = 81 / 62 * sigma_max
    if k > limit:
        return limit / k, (1 / 3) / limit ** 2
    low, high = 0.0, 1 / 3
    while low < (middle := (low + high) / 2) < high:
        if (1 - middle) * (1 + middle * (1 - middle) ** 2) > sigma_max / k:
            low = middle
        else:
            high = middle
    return 1.0, high / k ** 2


def constrain(name, w, rate, settings):
    sigma_max = settings["sigma_max"]
    if "embed_tokens" in name:
        return w / w.square().mean(1, keepdim=True).sqrt().clamp(min=1)
    if settings["constraint"] == "normalise":
        return w / max(1.0, rms_norm(w) / sigma_max)
    if settings["constraint"] == "softcap":
        k = sigma_max * abs(1 - settings["weight_decay"] * rate) + UPDATE_BOUND * rate
        scale, alpha = soft_cap_strength(k, sigma_max)
        x = w * (scale / rms_factor(w))
        x = x - alpha * (x @ x.T @ x)
        x = x + alpha * (x @ x.T @ x)
        return x * rms_factor(w)
    return w


def loss_and_gradients(model, weights, inputs, targets):
    leaves = {name: w.detach().clone().requires_grad_() for name, w in weights.items()}
    loss = (mlp_loss if model == "mlp" else transformer_loss)(leaves, inputs, targets)
    loss.backward()
    return loss.item(), {name: w.grad for name, w in leaves.items()}


def train(settings, dtype=torch.float32):
    """(initial weights, inputs, targets, losses before each step, final weights, gradients at step 0)"""
    initial = initial_weights(settings["model"], settings["start"])
    inputs, targets = make_batches(settings["model"])
    weights = {name: w.to(dtype) for name, w in initial.items()}
    m = {name: torch.zeros_like(w) for name, w in weights.items()}
    v = {name: torch.zeros_like(w) for name, w in weights.items()}
    shares = learning_rate_shares(settings, list(weights))
    losses, first = [], None
    for step in range(STEPS):
        batch = inputs[step].to(dtype) if settings["model"] == "mlp" else inputs[step]
        loss, gradients = loss_and_gradients(settings["model"], weights, batch, targets[step])
        losses.append(loss)
        first = first or gradients
        eta = settings["learning_rate"] * (1 - step / STEPS)
        for name, g in gradients.items():
            rate = eta * shares[name]
            m[name] = MOMENTUM * m[name] + (1 - MOMENTUM) * g
            v[name] = BETA2 * v[name] + (1 - BETA2) * g.square()
            muon = settings["optimizer"] == "muon"
            change = rate * dualise(name, m[name]) if muon else eta * (m[name] / (v[name].sqrt() + EPSILON))
            w = (1 - settings["weight_decay"] * rate) * weights[name] - change
            weights[name] = constrain(name, w, rate, settings)
    return initial, inputs, targets, losses, weights, first


def write_safetensors(path, tensors, metadata):
    tensors = dict(sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])))  # keeps all aligned
    kinds = {torch.int64: "I64", torch.float32: "F32"}
    header, offset = {"__metadata__": {key: str(value) for key, value in metadata.items()}}, 0
    for name, t in tensors.items():
        end = offset + t.numel() * t.element_size()
        header[name] = {"dtype": kinds[t.dtype], "shape": list(t.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(t.detach().contiguous().numpy().tobytes() for t in tensors.values())
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_case(folder, name, settings):
    """The transformer's gradients depend only on the start and have a file per start: see metadata's gradients_in."""
    initial, inputs, targets, losses, final, first = train(settings)
    own = settings["model"] == "mlp"
    gradient_file = f"train_{name}" if own else f"gradient_transformer_{settings['start']}"
    gradients = {f"gradient/{key}": g for key, g in first.items()}
    metadata = dict(case=name, **settings, steps=STEPS, schedule="linear", momentum=MOMENTUM, beta2=BETA2,
                    epsilon=EPSILON, embedding_inflation_limit=INFLATION_LIMIT, update_bound=repr(UPDATE_BOUND),
                    gradients_in=gradient_file + ".safetensors")
    if own:
        metadata.update(sizes=",".join(map(str, MLP["sizes"])), batch=MLP["batch"], activation="relu")
    else:
        metadata.update(TRANSFORMER, residual_alpha=1 / (2 * TRANSFORMER["blocks"]), activation="gelu_tanh",
                        rope_convention="half_split", blocks_mass=32, embedding_mass=1, head_mass=1)
        write_safetensors(folder / f"{gradient_file}.safetensors", gradients, dict(start=settings["start"]))
    metadata.update({f"share/{key}": s for key, s in learning_rate_shares(settings, list(initial)).items()})
    tensors = {"batch/inputs": inputs, "batch/targets": targets, "losses": torch.tensor(losses)}
    tensors.update({f"initial/{key}": w for key, w in initial.items()})
    tensors.update({f"final/{key}": w for key, w in final.items()})
    tensors.update(gradients if own else {})
    write_safetensors(folder / f"train_{name}.safetensors", tensors, metadata)
    print(f"{name}: losses {' '.join(f'{x:.4f}' for x in losses)}")
    for key, w in final.items():
        norm = float(w.square().mean(1).max().sqrt()) if "embed_tokens" in key else rms_norm(w)
        print(f"    {key}: {norm:.7f} ({'largest row RMS' if 'embed_tokens' in key else 'RMS→RMS norm'})")


def check():
    inputs, targets = make_batches("transformer")
    weights = {name: w.double() for name, w in initial_weights("transformer", "random").items()}
    _, gradients = loss_and_gradients("transformer", weights, inputs[0], targets[0])
    random, worst, h = torch.Generator().manual_seed(1), 0.0, 1e-4
    for name, w in weights.items():
        for _ in range(3):
            direction = torch.randn(w.shape, generator=random, dtype=torch.float64)
            direction /= torch.linalg.norm(direction)
            ends = [transformer_loss({**weights, name: w + s * h * direction}, inputs[0], targets[0]) for s in (1, -1)]
            slope, expected = float(ends[0] - ends[1]) / (2 * h), float((gradients[name] * direction).sum())
            worst = max(worst, abs(slope - expected) / float(torch.linalg.norm(gradients[name])))
    print(f"finite differences: largest error {worst:.1e} of the gradient's norm; update bound {UPDATE_BOUND:.12f}")
    failed = worst > 1e-6
    for name, settings in CASES.items():
        _, _, _, losses, final, _ = train(settings)
        _, _, _, exact_losses, exact, _ = train(settings, torch.float64)
        loss_error = max(abs(x - y) for x, y in zip(losses, exact_losses))
        weight_error = max(float((w - exact[key]).abs().max()) for key, w in final.items())
        failed |= losses[-1] >= losses[0]
        print(f"{name}: float32 against float64: losses {loss_error:.1e}, final weights {weight_error:.1e}")
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(check())
    for case_name, case_settings in CASES.items():
        write_case(pathlib.Path(__file__).resolve().parent, case_name, case_settings)
