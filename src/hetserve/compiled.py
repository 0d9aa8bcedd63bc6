"""The one place that knows the compiler of the hot paths.

Imported only by modules that hold compiled code, which are themselves imported late: numba costs half a
second. Compiled code is cached on disk. numba checks only the file of the function that it caches, not those of
the functions compiled into it, so the cache's name carries a digest of all files that the code came from.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

_PACKAGE = __name__.rpartition(".")[0]


def njit(function: F) -> F:
    """Compile a function in nopython mode at its first call, cached on disk where a folder for it is writable."""
    return _compile(function, counted=True)


def njit_uncounted(function: F) -> F:
    """As `njit`, for a function that allocates no array and returns none: it borrows the arrays it is given.

    numba counts references to arrays wherever one is passed or read from a named tuple, by atomic instructions:
    two thirds of the simulator's time. Without counting, an allocation is refused by the compiler; an array that is
    returned is not, and would be gone once Python looks at it.
    """
    return _compile(function, counted=False)


def _compile(function: F, *, counted: bool) -> F:
    function.__qualname__ = f"{function.__qualname__}_{_digest_of_sources(function)}"
    # "_nrt": numba's runtime, which counts references. numba documents no option to do without.
    options: dict[str, Any] = {"nogil": True, "_nrt": counted}
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # "cannot cache function: no locator available": no folder is writable
        compiled = numba.njit(**options)(function)
    return cast("F", compiled)


def specialise(template: F, name: str, **bound: object) -> F:
    """Compile `template` anew, uncounted, with these of its global names bound to other values, such as a kernel.

    A closure would do the same, but its cache misses in every process (its cells are part of the key), and a
    function passed as an argument is neither inlined nor cached.
    """
    if not isinstance(template, FunctionType):
        raise TypeError(f"{template!r} is compiled already; specialise needs the plain function")
    copy = FunctionType(template.__code__, {**template.__globals__, **bound}, name, template.__defaults__)
    copy.__qualname__ = name
    copy.__module__ = template.__module__
    return njit_uncounted(cast("F", copy))


def _digest_of_sources(function: Callable[..., object]) -> str:
    """Digest of the package's files that the function's names lead to, its own file first."""
    seen: set[str] = set()
    _walk(function.__module__, getattr(function, "__globals__", {}), seen)
    digest = hashlib.blake2b(digest_size=6)
    for name in sorted(seen):
        path = getattr(sys.modules.get(name), "__file__", None)
        digest.update(b"\0" + (Path(path).read_bytes() if path else b""))
    return digest.hexdigest()


def _walk(module: str, names: Mapping[str, object], seen: set[str]) -> None:
    seen.add(module)
    for value in names.values():
        owner = getattr(value, "__module__", None)
        if isinstance(owner, str) and owner.startswith(_PACKAGE + ".") and owner not in seen:
            _walk(owner, vars(sys.modules[owner]), seen)
