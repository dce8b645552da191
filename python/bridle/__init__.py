"""Bridle beside PyTorch: weights with norms proved to stay below caps, models with a certified Lipschitz bound.

Start with `Constraint` and `Muon` for a training loop of your own, with `load`, `certify` and `check` for models that
Bridle has trained. docs/how-to/python.md shows both. The functions are those of the C++ library, torch.ops.bridle.*.
"""
from bridle._version import __version__
from bridle._library import LIBRARY  # before all that use its operators
from bridle.certificate import certify, check
from bridle.constraint import Constraint, Report, WeightReport, constraint_names
from bridle.errors import Error, InputError, NumericError, PromiseError
from bridle.linalg import norm_bound, orthogonalize, spectral_norm_bound, spectral_norm_estimate, update_bound
from bridle.muon import Muon
from bridle.nn import Activation, Model, activation, causal_attention, load

__all__ = [
    "Activation",
    "Constraint",
    "Error",
    "InputError",
    "LIBRARY",
    "Model",
    "Muon",
    "NumericError",
    "PromiseError",
    "Report",
    "WeightReport",
    "__version__",
    "activation",
    "causal_attention",
    "certify",
    "check",
    "constraint_names",
    "load",
    "norm_bound",
    "orthogonalize",
    "spectral_norm_bound",
    "spectral_norm_estimate",
    "update_bound",
]
