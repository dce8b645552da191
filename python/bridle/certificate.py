"""Certificates: a proved Lipschitz bound of a stored model, and its check."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Optional, Union

from bridle._library import ops
from bridle.errors import call

PathLike = Union[str, "os.PathLike[str]"]


def certify(
    model_dir: PathLike, *, radius: float = 0.0, search: int = 6, out: Optional[PathLike] = None
) -> Dict[str, Any]:
    """Proves a Lipschitz bound of the model in a folder with config.json and model.safetensors.

    What is returned is what `bridle certify --json` prints (docs/reference/certificate.md). `radius`: how far an
    input may be moved, as an RMS; `search`: starts of the search for a large stretch, the bound's evidence from
    below, 0 for none; `out`: a file that the certificate is written to. Raises PromiseError where no bound can be
    established.
    """
    return json.loads(call(ops.certify, str(model_dir), float(radius), search, "" if out is None else str(out)))


def check(certificate: PathLike, model_dir: Optional[PathLike] = None) -> Dict[str, Any]:
    """Proves a certificate again, from the weights beside it, or from those in `model_dir`.

    Returns `valid` (true), `tight`, and in `remarks` what is stated larger than it needs to be, as `bridle check
    --json` prints. Raises PromiseError, naming it, for what does not hold.
    """
    folder = Path(certificate).parent if model_dir is None else model_dir
    remarks = list(call(ops.check, str(certificate), str(folder)))
    return {"schema": 1, "valid": True, "tight": not remarks, "remarks": remarks}
