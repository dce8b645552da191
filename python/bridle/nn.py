"""Operators with gradients, and models that Bridle has stored as modules of PyTorch."""
from __future__ import annotations

import json
import operator
import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple, Union

import torch
from torch.amp.autocast_mode import autocast

from bridle._library import ops
from bridle.errors import InputError, call

PathLike = Union[str, "os.PathLike[str]"]


def causal_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scale: float) -> torch.Tensor:
    """softmax(scale·QKᵀ + causal mask)·V for [B, H, T, d_h], by Bridle's kernel on a CPU, with gradients.

    Bridle's transformers have scale = 1/d_h; the usual one is 1/√d_h. Products are in bfloat16, whatever the tensors'
    type (float32 or bfloat16), which the result has again. Memory grows with T, not with T².
    """
    return call(ops.causal_attention, query, key, value, scale)[0].to(query.dtype)


def activation(x: torch.Tensor, kind: str, *, divisor: float = 1.0) -> torch.Tensor:
    """f(x)/divisor with f one of gelu, gelu_tanh, relu, maxmin, abs, relu_squared.

    gelu and gelu_tanh stretch by up to 1.1289 and 1.1290, the divisor of Bridle's transformers; maxmin sorts pairs of
    neighbours along the last dimension.
    """
    return call(ops.activation, x, kind, divisor)


class Activation(torch.nn.Module):
    """`activation` as a module."""

    def __init__(self, kind: str, *, divisor: float = 1.0) -> None:
        super().__init__()
        self.kind, self.divisor = kind, divisor
        activation(torch.zeros(2), kind, divisor=divisor)  # raises for what cannot be

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return activation(x, self.kind, divisor=self.divisor)

    def extra_repr(self) -> str:
        return f"{self.kind!r}, divisor={self.divisor}"


class Model(torch.nn.Module):
    """A model that a config.json describes: `model_type` "bridle" (transformer) or "bridle_mlp".

    Its forward pass is the library's own, over the parameters of this module, for every option that config.json has:
    token ids [B, T] → logits [B, T, V], or vectors [B, D] → logits [B, C]. PyTorch records its gradients. Parameters
    have the names of model.safetensors, so that a `state_dict` is one of its. Autocast does not reach into it:
    `compute_dtype` says in what type activations and products are (float64 where the parameters are).
    """

    def __init__(self, config: Union[str, Mapping[str, Any]], seed: int = 0) -> None:
        """With initial weights that depend on the seed alone."""
        super().__init__()
        text = config if isinstance(config, str) else json.dumps(config)
        self._assemble(*call(ops.make_model, text, seed))

    def _assemble(self, config: str, names: List[str], weights: List[torch.Tensor], window_share: float = 1.0) -> None:
        self._config = config
        self._names = list(names)
        self.window_share = window_share
        self.compute_dtype = torch.float32
        for name, weight in zip(names, weights):
            place: torch.nn.Module = self
            *folders, own = name.split(".")
            for folder in folders:
                if folder not in place._modules:
                    place.add_module(folder, torch.nn.Module())
                place = place._modules[folder]  # type: ignore[assignment]
            place.register_parameter(own, torch.nn.Parameter(weight))

    @property
    def config(self) -> Dict[str, Any]:
        """config.json, with every key."""
        return json.loads(self._config)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        weights = [operator.attrgetter(name)(self) for name in self._names]
        wide = weights[0].dtype == torch.float64
        dtype = torch.float64 if wide else self.compute_dtype
        # Dropout is a function of a seed, which is PyTorch's to draw.
        seed = int(torch.randint(2**62, ()).item()) if self.training else 0
        if inputs.dtype in (torch.int32, torch.int16, torch.uint8):
            inputs = inputs.long()
        with autocast(weights[0].device.type, enabled=False):
            return call(ops.model_forward, self._config, weights, inputs, dtype, self.training, seed, self.window_share)

    def save(self, folder: PathLike, *, overwrite: bool = False) -> str:
        """Writes config.json and model.safetensors, which `bridle certify` takes; returns the latter's SHA-256.

        Makes the folder. Raises InputError where a model is in it already, unless `overwrite` is true.
        """
        path = Path(folder)
        there = [name for name in ("config.json", "model.safetensors") if (path / name).exists()]
        if there and not overwrite:
            raise InputError(
                f"[save] {path} must not hold a model yet, and has {there[0]}; name another folder, or say "
                "overwrite=True"
            )
        path.mkdir(parents=True, exist_ok=True)
        weights = [operator.attrgetter(name)(self).detach().cpu() for name in self._names]
        return call(ops.write_model, str(path), self._config, weights)


def load(folder: PathLike) -> Model:
    """The model of a run, or of any folder with config.json and model.safetensors, as a module.

    Its logits are those of the library, which computes them. Raises InputError, naming the key or the weight, for a
    folder that Bridle does not read.
    """
    model = Model.__new__(Model)
    torch.nn.Module.__init__(model)
    model._assemble(*call(ops.read_model, str(folder)))
    return model
