"""Finds libbridle.so and loads it into PyTorch, whose operators torch.ops.bridle.* it then has."""
from __future__ import annotations

import mmap
import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any, Iterator, List, Optional

import torch

from bridle._version import __version__

NAMES = ("libbridle.so", "libbridle.so.0")


def _folders() -> Iterator[Path]:
    """From the nearest on: the package's own, a source tree's build, the prefix of the package, the system."""
    package = Path(__file__).resolve().parent
    yield package
    tree = package.parent.parent
    if (tree / "CMakePresets.json").is_file():
        yield tree / "build" / "release"
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    prefixes = [*package.parents[3:4], Path(sys.prefix), Path("/usr/local"), Path("/usr")]
    for prefix in dict.fromkeys(prefixes):
        if multiarch:
            yield prefix / "lib" / multiarch
        yield prefix / "lib"


def find_library() -> Path:
    """The library's path. BRIDLE_LIBRARY names it; without that the first one found counts."""
    named = os.environ.get("BRIDLE_LIBRARY")
    tried = [Path(named)] if named else [folder / name for folder in _folders() for name in NAMES]
    for path in tried:
        if path.is_file():
            return path
    places = "\n".join(f"  {path}" for path in tried)
    advice = (
        "BRIDLE_LIBRARY must name the library's file"
        if named
        else "build it (cmake --preset release && cmake --build --preset release), install it, or name its file in "
        "BRIDLE_LIBRARY"
    )
    raise ImportError(f"[bridle] libbridle.so was not found; {advice}. Tried:\n{places}")


def _needed_libtorch(path: Path) -> Optional[str]:
    """The file name of LibTorch that the library is linked to."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = re.search(rb"\0(libtorch_cpu\.so[.0-9]*)\0", content)
        return found[1].decode() if found else None


def _loaded_libtorch() -> List[Path]:
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    return sorted({Path(path) for path in re.findall(r"(/\S*/libtorch_cpu\.so\S*)$", maps, flags=re.MULTILINE)})


def _refuse_another_libtorch(path: Path) -> None:
    """A second LibTorch in the same process would have operators of its own, or crash."""
    needed, loaded = _needed_libtorch(path), _loaded_libtorch()
    if needed is None or not loaded:
        return
    if any(file.name == needed or file.name.startswith(needed + ".") for file in loaded):
        return
    raise ImportError(
        f"[bridle] {path} was built with {needed}, but this Python's PyTorch {torch.__version__} is {loaded[0]}: "
        "use the Python whose PyTorch Bridle was built with (on Debian /usr/bin/python3 with python3-torch), "
        "or build Bridle with this PyTorch's LibTorch"
    )


def load_library() -> Path:
    """Loads the library and returns its path. Raises ImportError, saying what was tried or what does not fit."""
    path = find_library()
    _refuse_another_libtorch(path)
    namespaces = getattr(torch, "ops")
    try:
        namespaces.load_library(str(path))
    except OSError as error:
        raise ImportError(f"[bridle] {path} cannot be loaded: {error}") from error
    try:
        version = namespaces.bridle.version()
    except (AttributeError, RuntimeError) as error:
        raise ImportError(
            f"[bridle] {path} has not registered its operators with this Python's PyTorch {torch.__version__} "
            f"({Path(torch.__file__).parent}): it is older than this package ({__version__}), or linked to "
            "another LibTorch"
        ) from error
    if version != __version__:
        raise ImportError(
            f"[bridle] {path} is version {version} and this package is version {__version__}: install both of "
            "one version, or name another library in BRIDLE_LIBRARY"
        )
    return path


LIBRARY = load_library()
ops: Any = getattr(
    torch, "ops"
).bridle  # the library's functions; bridle.errors.call raises their errors as what they are
