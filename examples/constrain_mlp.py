#!/usr/bin/env python3
"""A PyTorch network, PyTorch's AdamW, and a Lipschitz bound that holds after every step.

    constrain_mlp.py [STEPS]

The network has three linear layers with ReLU between them. ReLU stretches nothing, so the product of the three norms
bounds by how much the network stretches a change of its input (RMS to RMS). The data are two spirals, which ask for
large weights: without the constraint the bound goes into the hundreds.
"""
import math
import sys

import torch

import bridle


def spirals(count):
    """Points of two spirals and which one each belongs to."""
    turn = 3.0 * math.pi * torch.rand(count).sqrt()
    kind = torch.randint(2, (count,))
    angle = turn + math.pi * kind
    points = torch.stack([turn * angle.cos(), turn * angle.sin()], 1) / (3.0 * math.pi)
    return points + 0.02 * torch.randn(count, 2), kind


def train(steps, max_norm):
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.0)
    constraint = bridle.Constraint(network, "normalize", max_norm=max_norm).attach(optimizer)
    for _ in range(steps):
        points, kind = spirals(256)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(points), kind).backward()
        optimizer.step()
    points, kind = spirals(2000)
    accuracy = (network(points).argmax(1) == kind).float().mean().item()
    return constraint.report(), accuracy


def bound_of(report):
    """The product of the norms, rounded up."""
    return math.prod(weight.norm_bound for weight in report.weights.values()) * (1.0 + 1e-12)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for max_norm in (1e6, 3.0, 2.0):
        report, accuracy = train(steps, max_norm)
        print(
            f"norms at most {max_norm:g}: accuracy {accuracy:.3f}, network bound at most {bound_of(report):.5g}, "
            f"{report.proofs} proofs, {report.repairs} repairs"
        )
    print(report)


if __name__ == "__main__":
    main()
