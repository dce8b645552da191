"""Caps on the norms of weights in a training loop of one's own: enforced, proved and repaired after every step.

    constraint = bridle.Constraint(model, "normalize", max_norm=2.0).attach(optimizer)
    for batch in batches:
        loss(model, batch).backward()
        optimizer.step()        # ends with every norm proved to be at most 2
        optimizer.zero_grad()
    print(constraint.report())
"""
from __future__ import annotations

import functools
import math
import types
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple, Union, cast

import torch

from bridle._library import ops
from bridle.errors import InputError, call


Named = Iterable[Tuple[str, torch.nn.Parameter]]
Weights = Union[torch.nn.Module, Iterable[torch.nn.Parameter], Named]
NORMS = ("rms", "spectral")
UNKNOWN = math.inf  # of an update whose norm nobody knows


def constraint_names() -> List[str]:
    """The methods that `Constraint` knows (docs/theory/constraints.md)."""
    return list(ops.constraint_names())


@dataclass
class _Weight:
    name: str
    tensor: torch.nn.Parameter
    table: bool
    cap: float
    heads: int
    state: List[torch.Tensor] = field(default_factory=list)  # what the method remembers; at most one tensor
    steps: int = 0
    proofs: int = 0
    repairs: int = 0


@dataclass(frozen=True)
class WeightReport:
    """What was done to one weight, and its norm now."""

    name: str
    cap: float  # that its norm, or that of each of its heads, must not exceed
    heads: int
    steps: int  # after which the constraint was enforced
    proofs: int  # of "norm ≤ cap", each after its step; a repair's own proof is one of them
    repairs: int  # steps after which the proof failed at first, and the weight was scaled until it held
    norm_bound: float  # the norm now, from above, rounding counted


@dataclass(frozen=True)
class Report:
    """Of all constrained weights; `str` gives a table."""

    method: str
    norm: str
    weights: Dict[str, WeightReport]
    unconstrained: Tuple[str, ...]  # trained parameters that have no cap

    @property
    def proofs(self) -> int:
        return sum(weight.proofs for weight in self.weights.values())

    @property
    def repairs(self) -> int:
        return sum(weight.repairs for weight in self.weights.values())

    @property
    def largest_norm_bound(self) -> float:
        return max(weight.norm_bound for weight in self.weights.values())

    @property
    def holds(self) -> bool:
        """Whether every norm is proved to be at most its cap, as the weights are now."""
        return all(weight.norm_bound <= weight.cap for weight in self.weights.values())

    def to_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return {
            **asdict(self),
            "proofs": self.proofs,
            "repairs": self.repairs,
            "largest_norm_bound": self.largest_norm_bound,
            "holds": self.holds,
        }

    def __str__(self) -> str:
        width = max(len("weight"), *map(len, self.weights))
        lines = [f"{'weight':<{width}} {'heads':>5} {'cap':>12} {'norm at most':>14} {'proofs':>8} {'repairs':>8}"]
        lines += [
            f"{w.name:<{width}} {w.heads:>5} {w.cap:>12.6g} {_rounded_up(w.norm_bound):>14} {w.proofs:>8} "
            f"{w.repairs:>8}"
            for w in self.weights.values()
        ]
        return "\n".join(lines)


def _rounded_up(value: float) -> str:
    """Six digits that are never too small."""
    if not math.isfinite(value) or value == 0.0:
        return f"{value}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 5)
    text = f"{math.ceil(value / unit) * unit:.6g}"
    return text if float(text) >= value else f"{value:.17g}"


class Constraint:
    """Keeps the norms of a module's weights below caps, whatever the optimizer does.

    Norms are RMS→RMS norms, σ(W)·√(fan_in/fan_out) of a weight [fan_out, fan_in] as torch.nn.Linear has it, as
    everywhere in Bridle; with `norm="spectral"` they are σ(W). After a step the method is applied, aimed a little
    below the cap; then σ(W) ≤ cap is proved in floating point with all rounding counted; where the proof fails, the
    weight is scaled down until it holds. `PromiseError` is raised where nothing helps, and `NumericError` for NaN and
    infinity.

    `module_or_params`: a module, of which all trained parameters with two dimensions are weights (those of
    torch.nn.Embedding are tables, whose rows are capped by their RMS), or parameters, or (name, parameter) pairs,
    which are all matrices. Vectors are left alone, and listed in the report.
    `method`: one of `constraint_names()`. `soft_cap`, `hard_cap` and `hard_cap_polynomial` ask for an optimizer whose
    update has a known norm, such as `bridle.Muon`; the others, such as `normalize` and `hard_cap_svd`, take any.
    `measure_reach`: for such a method and an optimizer that does not say it, a bound of the weight's norm after the
    step is computed and takes its place; that costs about as much as the proof.
    `max_norm`: one cap, or caps by name, where `*` and `?` match as in file names and the last entry that matches
    counts; None leaves a weight alone: `max_norm={"*": 1.0, "head.weight": 20.0, "positions": None}`.
    `per_head`: weights whose equal row blocks are capped each for itself, by name likewise:
    `per_head={"*.q_proj.weight": 8}`.

    The last five are options of single methods (docs/theory/constraints.md).
    """

    def __init__(
        self,
        module_or_params: Weights,
        method: str = "soft_cap",
        *,
        max_norm: Union[float, Mapping[str, Optional[float]]],
        per_head: Optional[Mapping[str, int]] = None,
        norm: str = "rms",
        measure_reach: bool = False,
        spectral_decay: float = 0.05,
        floor: float = 0.0,
        clip_decay: float = 0.1,
        parseval_strength: float = 0.1,
        power_rounds: int = 16,
    ) -> None:
        if norm not in NORMS:
            raise InputError(f"[constraint] norm must be one of {', '.join(NORMS)}, got {norm!r}")
        self.method = method
        self.norm = norm
        self.measure_reach = measure_reach
        self._needs_update_bound: bool = call(ops.needs_update_bound, method)  # raises for an unknown method
        self._options = {
            "spectral_decay": float(spectral_decay),
            "floor": float(floor),
            "clip_decay": float(clip_decay),
            "parseval_strength": float(parseval_strength),
            "power_rounds": float(power_rounds),
        }
        self._weights: Dict[str, _Weight] = {}
        self._unconstrained: List[str] = []
        self._detach: List[Callable[[], None]] = []
        self._choose(_named_parameters(module_or_params), _as_mapping(max_norm), dict(per_head or {}))

    # ---- Which weights

    def _choose(
        self,
        named: List[Tuple[str, torch.nn.Parameter, bool]],
        caps: Mapping[str, Optional[float]],
        per_head: Mapping[str, int],
    ) -> None:
        names = [name for name, _, _ in named]
        for what, patterns in (("max_norm", caps), ("per_head", per_head)):
            for pattern in patterns:
                if not any(fnmatchcase(name, pattern) for name in names):
                    raise InputError(
                        f"[constraint] {what} must name weights that there are; nothing matches {pattern!r} "
                        f"among {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
                    )
        for name, tensor, table in named:
            cap = _last_match(caps, name)
            if cap is None or tensor.dim() < 2 or not tensor.requires_grad:
                if name in caps and cap is not None:
                    raise InputError(
                        f"[constraint] {name} must be a matrix that is trained to have a cap; its shape is "
                        f"{list(tensor.shape)}" + ("" if tensor.requires_grad else " and it is frozen")
                    )
                self._unconstrained.append(name)
                continue
            self._weights[name] = self._checked(
                _Weight(name, tensor, table, float(cap), _last_match(per_head, name) or 1)
            )
        if not self._weights:
            raise InputError("[constraint] at least one weight must be a matrix that is trained; there is none")

    def _checked(self, weight: _Weight) -> _Weight:
        def refuse(message: str) -> None:
            raise InputError(f"[constraint] {weight.name}: {message}")

        if weight.tensor.dim() != 2 or weight.tensor.numel() == 0:
            refuse(
                f"a weight must be a matrix [fan_out, fan_in], got shape {list(weight.tensor.shape)}; of a convolution "
                f"no norm is bounded here: leave it alone with max_norm={{…, {weight.name!r}: None}}"
            )
        if weight.tensor.dtype not in (torch.float32, torch.float64, torch.bfloat16):
            refuse(f"its type must be float32, float64 or bfloat16, got {weight.tensor.dtype}")
        if not (weight.cap > 0.0 and math.isfinite(weight.cap)):
            refuse(f"max_norm must be positive and finite, got {weight.cap}")
        if weight.heads < 1 or weight.tensor.shape[0] % weight.heads != 0:
            refuse(f"per_head must divide its {weight.tensor.shape[0]} rows, got {weight.heads}")
        if weight.table and (weight.heads > 1 or self.norm == "spectral"):
            refuse(
                "it is a table, whose rows are capped by their RMS: it has no heads and no spectral norm; leave it "
                f"alone with max_norm={{…, {weight.name!r}: None}}, or give its parameter itself to treat it as a matrix"
            )
        return weight

    # ---- In a training loop

    def attach(self, optimizer: torch.optim.Optimizer) -> Constraint:
        """From now on every `optimizer.step()` ends with the constraint. Returns itself.

        Weights that begin outside are brought inside at once: singular values above the cap are lowered to it. May be
        called for several optimizers; each enforces the weights that it steps. Raises InputError where it steps none,
        and where the method needs to know the update's norm and the optimizer does not say it.
        """
        weights = [
            w for w in self._weights.values() if any(w.tensor is p for g in optimizer.param_groups for p in g["params"])
        ]
        if not weights:
            raise InputError(
                "[constraint] the optimizer must step at least one of the weights; it has none of "
                f"{', '.join(list(self._weights)[:8])}"
            )
        must_know = self._needs_update_bound and not self.measure_reach and not all(w.table for w in weights)
        if must_know and not hasattr(optimizer, "update_norm_bound"):
            raise InputError(
                f"[constraint] {self.method} must know the norm of the update, which {type(optimizer).__name__} does "
                "not say; train with bridle.Muon, say measure_reach=True, or take normalize, stiefel, hard_cap_svd or "
                "hammer"
            )
        self.start()
        self._detach.append(_after_step(optimizer, lambda: self._after_step(optimizer)))
        return self

    def detach(self) -> None:
        """Leaves the optimizers that it was attached to."""
        while self._detach:
            self._detach.pop()()

    def start(self) -> None:
        """Brings weights that are not proved to be inside their caps inside; leaves the others as they are."""
        for weight in self._weights.values():
            call(ops.constraint_start_, *self._facts(weight), self.method, weight.cap, self._options)

    def enforce(self) -> None:
        """Enforce, prove, repair, for all weights, after a step of which nothing is known."""
        for weight in self._weights.values():
            self._enforce(weight, 0.0, 0.0, UNKNOWN)

    def prove(self) -> bool:
        """Whether every norm is proved to be at most its cap, as the weights are now."""
        return all(call(ops.prove_norm, *self._facts(weight), weight.cap) for weight in self._weights.values())

    def _facts(self, weight: _Weight) -> Tuple[torch.Tensor, str, bool, int, bool]:
        return weight.tensor.detach(), weight.name, weight.table, weight.heads, self.norm == "spectral"

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        known = getattr(optimizer, "update_norm_bound", None)
        for weight in self._weights.values():
            group = groups.get(id(weight.tensor))
            if group is None:
                continue
            if known is None or weight.table:
                self._enforce(weight, float(group["lr"]), 0.0, UNKNOWN)
            else:
                bound = known(weight.tensor, weight.heads) / self._unit(weight)
                self._enforce(weight, float(group["lr"]), float(group.get("weight_decay", 0.0)), bound)

    def _unit(self, weight: _Weight) -> float:
        """The spectral norm of a block whose norm is 1."""
        if self.norm == "spectral":
            return 1.0
        rows, columns = weight.tensor.shape
        return math.sqrt(rows / weight.heads / columns)

    def _enforce(self, weight: _Weight, learning_rate: float, decay: float, update_bound: float) -> None:
        repaired, weight.state = call(
            ops.constraint_step_,
            *self._facts(weight),
            self.method,
            weight.cap,
            self._options,
            learning_rate,
            decay,
            update_bound,
            self.measure_reach,
            weight.state,
        )
        weight.steps += 1
        weight.proofs += 1
        weight.repairs += bool(repaired)

    # ---- What has come of it

    def report(self) -> Report:
        """Proofs and repairs so far, and a bound of every norm as the weights are now."""
        return Report(
            self.method,
            self.norm,
            {name: self._report(w) for name, w in self._weights.items()},
            tuple(self._unconstrained),
        )

    def _report(self, weight: _Weight) -> WeightReport:
        tensor, _, table, heads, spectral = self._facts(weight)
        bound = call(ops.norm_bound, tensor, table, heads, spectral)
        return WeightReport(
            weight.name,
            weight.cap,
            heads,
            weight.steps,
            weight.proofs,
            weight.repairs,
            math.inf if bound is None else bound,
        )

    def state_dict(self) -> Dict[str, Any]:
        """What the methods remember, and the counts, for checkpoints."""
        return {
            name: {"state": [t.clone() for t in w.state], "steps": w.steps, "proofs": w.proofs, "repairs": w.repairs}
            for name, w in self._weights.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes a `state_dict` back. Raises InputError where it is about other weights; nothing has changed then."""
        if set(state) != set(self._weights):
            other = sorted(set(state) ^ set(self._weights))
            raise InputError(
                f"[constraint] the state must be about the weights that are constrained; {other[0]} is not in both"
            )
        for name, own in state.items():
            weight = self._weights[name]
            weight.state = [t.clone() for t in own["state"]]
            weight.steps, weight.proofs, weight.repairs = own["steps"], own["proofs"], own["repairs"]


def _as_mapping(max_norm: Union[float, Mapping[str, Optional[float]]]) -> Mapping[str, Optional[float]]:
    return max_norm if isinstance(max_norm, Mapping) else {"*": max_norm}


def _last_match(patterns: Mapping[str, Any], name: str) -> Any:
    found = None
    for pattern, value in patterns.items():
        if fnmatchcase(name, pattern):
            found = value
    return found


def _named_parameters(given: Weights) -> List[Tuple[str, torch.nn.Parameter, bool]]:
    """Name, parameter, and whether it is a table. A table that also serves as a matrix (a tied head) is one."""
    if isinstance(given, torch.nn.Module):
        tables: Set[int] = set()
        others: Set[int] = set()
        for module in given.modules():
            own = (id(p) for p in module.parameters(recurse=False))
            (tables if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) else others).update(own)
        return [(name, p, id(p) in tables - others) for name, p in given.named_parameters()]
    named: List[Tuple[str, torch.nn.Parameter, bool]] = []
    for place, entry in enumerate(given):
        name, tensor = entry if isinstance(entry, tuple) else (str(place), entry)
        if not isinstance(tensor, torch.Tensor):
            raise InputError(
                f"[constraint] weights must be a module, parameters or (name, parameter) pairs, got "
                f"{type(tensor).__name__}"
            )
        if any(name == other for other, _, _ in named):
            raise InputError(f"[constraint] every weight must have a name of its own; {name} is there twice")
        named.append((name, cast(torch.nn.Parameter, tensor), False))
    return named


def _after_step(optimizer: torch.optim.Optimizer, then: Callable[[], None]) -> Callable[[], None]:
    """Calls `then` after every step; what is returned ends that."""
    register = getattr(optimizer, "register_step_post_hook", None)
    if register is not None:  # PyTorch 2
        return register(lambda *_: then()).remove
    active = [True]
    inner = optimizer.step

    @functools.wraps(inner)
    def step(_self: torch.optim.Optimizer, *arguments: Any, **keywords: Any) -> Any:
        result = inner(*arguments, **keywords)
        if active[0]:
            then()
        return result

    setattr(optimizer, "step", types.MethodType(step, optimizer))

    def end() -> None:
        active[0] = False

    return end
