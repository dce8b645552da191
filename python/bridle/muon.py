"""Muon: orthogonalised momentum, with the norm of its update known beforehand.

M ← βM + (1 − β)G,   W ← (1 − λη)W − η·s·U,   U = orthogonalize(M), or of (1 − β)G + βM with Nesterov's momentum.
Names and defaults are those of torch.optim.Muon where they mean the same; docs/theory/steps.md has both side by side.
"""
from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Tuple, Union

import torch

from bridle.errors import InputError
from bridle.linalg import orthogonalize, update_bound

Coefficients = Union[str, Sequence[float]]
_CLASSIC = (3.4445, -4.775, 2.0315)


def _ones(shape: Tuple[int, int]) -> float:
    return math.sqrt(max(1.0, shape[0] / shape[1]))


def _like_adamw(shape: Tuple[int, int]) -> float:
    return 0.2 * math.sqrt(max(shape))


def _unit(shape: Tuple[int, int]) -> float:
    return math.sqrt(shape[0] / shape[1])


# By what a block [rows, columns] of the update is multiplied.
_ADJUST: Dict[str, Callable[[Tuple[int, int]], float]] = {
    "original": _ones,
    "match_rms_adamw": _like_adamw,
    "spectral_unclamped": _unit,
}


def _coefficients_word(coefficients: Coefficients) -> str:
    if not isinstance(coefficients, str):
        if tuple(coefficients) != _CLASSIC:
            raise InputError(
                f"[muon] ns_coefficients must be six_step, five_step, classic or {_CLASSIC}, which is classic: "
                f"of others the update's norm is not known; got {tuple(coefficients)}"
            )
        return "classic"
    update_bound(coefficients)  # raises for a word that is none
    return coefficients


class Muon(torch.optim.Optimizer):
    """Muon for matrices [fan_out, fan_in]; give all other weights to another optimizer.

    Different from torch.optim.Muon: `ns_coefficients` is one of the lists whose largest value is known, `six_step`
    unless another is named (`classic`, or its three numbers, is PyTorch's); products run in float32, or float64 for
    weights in it, not in bfloat16; and a parameter group with `heads` is orthogonalised by so many equal row blocks,
    each for itself. `update_norm_bound` is what bridle.Constraint reads.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: Coefficients = "six_step",
        adjust_lr_fn: Optional[str] = None,
        *,
        heads: int = 1,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "adjust_lr_fn": adjust_lr_fn,
            "heads": heads,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """As in torch.optim. Raises InputError for options and weights that make no sense."""
        super().add_param_group(param_group)
        try:
            self._check(self.param_groups[-1])
        except InputError:
            del self.param_groups[-1]
            raise

    def _check(self, group: Dict[str, Any]) -> None:
        for key, most in (("lr", math.inf), ("weight_decay", math.inf), ("momentum", 1.0)):
            if not 0.0 <= float(group[key]) < most:
                raise InputError(f"[muon] {key} must be 0 or more and below {most}, got {group[key]}")
        if group["adjust_lr_fn"] is not None and group["adjust_lr_fn"] not in _ADJUST:
            raise InputError(
                f"[muon] adjust_lr_fn must be None or one of {', '.join(_ADJUST)}, got {group['adjust_lr_fn']!r}"
            )
        group["ns_coefficients"] = _coefficients_word(group["ns_coefficients"])
        for weight in group["params"]:
            if weight.dim() != 2 or weight.numel() == 0:
                raise InputError(
                    f"[muon] every weight must be a matrix, got shape {list(weight.shape)}; give the others to "
                    "another optimizer, such as torch.optim.AdamW"
                )
            if weight.dtype not in (torch.float32, torch.float64, torch.bfloat16):
                raise InputError(f"[muon] weights must be in float32, float64 or bfloat16, got {weight.dtype}")
            if group["heads"] < 1 or weight.shape[0] % group["heads"] != 0:
                raise InputError(
                    f"[muon] heads must divide the rows of every weight, got {group['heads']} for "
                    f"{list(weight.shape)}"
                )

    @staticmethod
    def _scale(group: Dict[str, Any], weight: torch.Tensor) -> float:
        return _ADJUST[group["adjust_lr_fn"] or "original"]((weight.shape[0] // group["heads"], weight.shape[1]))

    def update_norm_bound(self, weight: torch.Tensor, heads: int = 1) -> float:
        """The spectral norm that no update of the weight exceeds, before the learning rate, in exact arithmetic.

        With `heads`, that of each of so many equal row blocks (docs/theory/steps.md, statement 1).
        """
        group = next((g for g in self.param_groups if any(p is weight for p in g["params"])), None)
        if group is None:
            raise InputError("[muon] the weight must be one of the optimizer's")
        own = group["heads"]
        if heads % own == 0:  # each block lies within one of those that are orthogonalised
            blocks = 1.0
        else:
            blocks = own / heads if own % heads == 0 else own
        return self._scale(group, weight) * update_bound(group["ns_coefficients"]) * math.sqrt(blocks) * (1.0 + 1e-12)

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step; `closure`, if there is one, computes the loss anew."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._step(group, weight, weight.grad)
        return loss

    def _step(self, group: Dict[str, Any], weight: torch.Tensor, gradient: torch.Tensor) -> None:
        if gradient.is_sparse:
            raise InputError("[muon] gradients must be dense")
        dtype = torch.float64 if weight.dtype == torch.float64 else torch.float32
        gradient = gradient.to(dtype)
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient, memory_format=torch.contiguous_format)
        beta = group["momentum"]
        # Loading a state dict casts to the weight's type.
        average = state["momentum_buffer"] = state["momentum_buffer"].to(dtype).lerp_(gradient, 1.0 - beta)
        direction = gradient.lerp(average, beta) if group["nesterov"] else average
        rate = float(group["lr"])
        heads = group["heads"]
        blocks = direction.reshape(heads, -1, weight.shape[1]) if heads > 1 else direction
        update = orthogonalize(blocks, group["ns_coefficients"]).reshape(weight.shape)
        keep, rate = 1.0 - rate * group["weight_decay"], rate * self._scale(group, weight)
        if weight.dtype == dtype:
            weight.mul_(keep).sub_(update, alpha=rate)
        else:
            weight.copy_(weight.to(dtype).mul_(keep).sub_(update, alpha=rate))
