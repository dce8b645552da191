"""The spectral toolbox: *_bound is never too small, *_estimate is measured and may be either."""
from __future__ import annotations

from typing import Optional

import torch

from bridle._library import ops
from bridle.errors import call


def spectral_norm_bound(matrix: torch.Tensor) -> Optional[float]:
    """The largest singular value of a matrix [m, n], from above, its own rounding counted; None for NaN and infinity.

    At most 10⁻⁸ of the norm too large. Computed on the CPU in float64 (docs/theory/spectral_norm.md).
    """
    return call(ops.spectral_norm_bound, matrix.detach())


def spectral_norm_estimate(matrix: torch.Tensor, rounds: int = 16) -> torch.Tensor:
    """The same from below, by power iteration: one number per matrix of [m, n] or [b, m, n]."""
    return call(ops.spectral_norm_estimate, matrix.detach(), rounds)


def norm_bound(weight: torch.Tensor, *, heads: int = 1) -> Optional[float]:
    """The RMS→RMS norm σ(W)·√(fan_in/fan_out) of a weight [fan_out, fan_in], from above; None for NaN and infinity.

    With `heads`, the largest norm among so many equal row blocks.
    """
    return call(ops.norm_bound, weight.detach(), False, heads, False)


def orthogonalize(matrix: torch.Tensor, coefficients: str = "six_step") -> torch.Tensor:
    """U·Vᵀ of the singular value decomposition, nearly, for a matrix [m, n] or a batch [b, m, n].

    Newton–Schulz steps of the named list: `six_step` (never above 1), `five_step`, or `classic`, which is that of
    torch.optim.Muon. `update_bound` says how large the result's spectral norm can be. Records no gradient.
    """
    return call(ops.orthogonalize, matrix.detach(), coefficients)


def update_bound(coefficients: str = "six_step") -> float:
    """The largest spectral norm that `orthogonalize` gives in exact arithmetic, from above."""
    return call(ops.update_bound, coefficients)
