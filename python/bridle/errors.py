"""The library's kinds of error. Every message reads "[operation] what must be, what was given, what to do"."""
from __future__ import annotations

import re
from typing import Any, Callable


class Error(RuntimeError):
    """Any error that Bridle raises."""


class InputError(Error, ValueError):
    """The caller's data or settings: a missing file, a wrong shape, a name that does not exist."""


class NumericError(Error, ArithmeticError):
    """NaN, infinity, or a factorisation that did not converge."""


class PromiseError(Error):
    """A bound that was promised does not hold, or could not be established."""


_KINDS = {kind.__name__: kind for kind in (InputError, NumericError, PromiseError)}
# The operators put the kind in front of the message: src/operators.h.
_MESSAGE = re.compile(r"(InputError|NumericError|PromiseError): (\[.*)", re.DOTALL)


def call(operator: Callable[..., Any], *arguments: Any) -> Any:
    """Calls an operator of the library and raises its errors as what they are."""
    try:
        return operator(*arguments)
    except RuntimeError as error:
        found = _MESSAGE.match(str(error))
        if found is None:
            raise
        raise _KINDS[found[1]](found[2]) from None
