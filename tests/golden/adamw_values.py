#!/usr/bin/env python3
"""Writes adamw_values.h: ten steps of torch.optim.AdamW in float64, a decayed matrix and a bias that is not, at a rate
that falls linearly. Run it with a Python that has PyTorch: python3 tests/golden/adamw_values.py"""
import pathlib

import torch

STEPS, LR, DECAY = 10, 0.05, 0.3


def numbers(count, factor, offset):
    """Exact in binary, so that the test can make the same ones."""
    return torch.tensor([((factor * i + offset) % 11 - 5) / 8 for i in range(count)], dtype=torch.float64)


matrix = torch.nn.Parameter(numbers(12, 3, 1).reshape(3, 4))
bias = torch.nn.Parameter(numbers(4, 5, 2))
optimizer = torch.optim.AdamW([{"params": [matrix], "weight_decay": DECAY}, {"params": [bias], "weight_decay": 0.0}],
                              betas=(0.9, 0.95), eps=1e-8)
for t in range(STEPS):
    for group in optimizer.param_groups:
        group["lr"] = LR * (1 - t / STEPS)
    matrix.grad = numbers(12, 7, 13 * t).reshape(3, 4)
    bias.grad = numbers(4, 2, 3 * t)
    optimizer.step()


def array(name, tensor):
    values = ", ".join(repr(x) for x in tensor.detach().flatten().tolist())
    return f"constexpr double {name}[] = {{{values}}};\n"


pathlib.Path(__file__).with_suffix(".h").write_text(
    "// Written by adamw_values.py with torch.optim.AdamW: do not edit.\n#pragma once\n\n// clang-format off\n"
    "namespace bridle::golden {\n\n" + array("kAdamwMatrix", matrix) + array("kAdamwBias", bias) +
    "\n}  // namespace bridle::golden\n")
