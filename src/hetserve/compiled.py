"""The one module that knows the compiler of the hot paths; imported late, since numba costs half a second.

Compiled code is cached in the user's cache folder, or read from where it was compiled ahead. numba checks only the file
of the cached function; the name of the cache has a digest of all the rest, so a new checkout finds what an earlier one
compiled.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, Final, TypeVar, cast

import numba
import numba.np.arrayobj
import numba.np.linalg
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator, UserWideCacheLocator
from numba.core.event import Listener, install_listener
from numba.core.registry import CPUDispatcher

F = TypeVar("F", bound=Callable[..., object])

ZERO: Final = cast("int", np.int64(0))
"""As an argument of compiled functions: a literal would be compiled for each value."""

_PACKAGE = __name__.rpartition(".")[0]


def _load_arrays_without_blas() -> None:
    """Loads numba's array functions as if SciPy were missing: its BLAS takes as long to load as the rest of numba.

    Sums of products are then plain loops; matrix products, of which nothing here is compiled, find it as ever.
    """

    def missing() -> None:
        raise ImportError("not wanted")

    linalg: Any = numba.np.linalg
    found, linalg.ensure_blas = linalg.ensure_blas, missing
    try:
        import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = found


_load_arrays_without_blas()


def njit(function: F) -> F:
    """Compiles a function in nopython mode at its first call, cached on disk if a folder is writable."""
    return _compile(function, counted=True)


def njit_uncounted(function: F) -> F:
    """As `njit`, for a function that allocates no array and returns none; saves two thirds of the simulator's time.

    numba does not count references to the arrays. The compiler refuses an allocation, but not a returned array, which
    would be gone.
    """
    return _compile(function, counted=False)


def njit_inner(function: F) -> F:
    """As `njit_uncounted`, for a function that only compiled ones call, inlined; saves a third of the compilation.

    A call would pass every array of its named tuples as seven words: a third of the simulator's time. Called from
    Python it raises TypeError; `py_func` is the plain function.
    """
    inner: Any = _compile(function, counted=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)
    inner.__class__ = _Inner  # numba has no public way
    return cast("F", inner)


class _Inner(CPUDispatcher):
    def __call__(self, *_: object, **__: object) -> object:
        raise TypeError(f"{self.py_func.__name__} has no entry from Python; py_func is the plain function")


def _compile(function: F, *, counted: bool, **more: bool) -> F:
    function.__qualname__ = f"{function.__qualname__}_{source_digest(function)}"
    # "_nrt": numba's runtime, which counts references; undocumented.
    options: dict[str, Any] = {"nogil": True, "_nrt": counted, **more}
    compiled: Any = numba.njit(**options)(function)
    with suppress(RuntimeError):  # no folder to cache in
        cache: Callable[[object], object] = _Cache
        compiled._cache = cache(function)
    return cast("F", compiled)


class _CompiledAhead(UserProvidedCacheLocator):
    """The folder of NUMBA_CACHE_DIR where nobody may write to it, as in an image."""

    def ensure_cache_path(self) -> None:
        if not Path(self._cache_path).is_dir():
            raise FileNotFoundError(self._cache_path)


class _UsersCache(UserWideCacheLocator):
    """A folder of the user's, of the same name wherever the code lies."""

    def __init__(self, py_func: FunctionType, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        self._cache_path = str(users_kernels() / py_func.__module__)


def users_kernels() -> Path:
    """The folder of compiled kernels in the user's cache, which may be missing."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(root) / "hetserve" / "kernels"


class _CacheFolders(CompileResultCacheImpl):
    _locator_classes = [  # noqa: RUF012  numba's form
        UserProvidedCacheLocator,
        _CompiledAhead,
        _UsersCache,
        *(each for each in CompileResultCacheImpl._locator_classes if each is not UserProvidedCacheLocator),
    ]


class _Cache(FunctionCache):
    """numba's, which also reads where it cannot write: what is not there is compiled by each process."""

    _impl_class = _CacheFolders

    def save_overload(self, sig: object, data: object) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            if error.errno not in {errno.EROFS, errno.EACCES, errno.EPERM}:
                raise


def specialise(template: F, name: str, **bound: object) -> F:
    """Compiles `template` anew, uncounted, with these global names bound to other values, such as a kernel.

    A closure is never found in the cache; a function argument is neither inlined nor cached.
    """
    if not isinstance(template, FunctionType):
        raise TypeError(f"{template!r} is compiled already; specialise needs the plain function")
    copy = FunctionType(template.__code__, {**template.__globals__, **bound}, name, template.__defaults__)
    copy.__qualname__ = name
    copy.__module__ = template.__module__
    return njit_uncounted(cast("F", copy))


_numba: Any = numba
"""Its parts that make code have no types."""


class Passing:
    """Passes nested named tuples of arrays to compiled code as one array of words: their addresses and shapes.

    numba takes 70 arrays from Python in 10 us, and one in 0.2. Whoever passes words keeps the arrays alive.
    """

    def __init__(self, kind: Any) -> None:
        self._type = kind
        self.room = _words(kind)
        """Words that a value takes."""
        self.digest = hashlib.blake2b(str(kind).encode(), digest_size=4).hexdigest()
        """For the names of functions that read: words say nothing of the types of what they lead to."""

    @classmethod
    def of(cls, example: object) -> Passing:
        """example: has arrays of the dimensions and types of all that will be passed."""
        return _passing(_numba.typeof(example))

    def write(self) -> Any:
        """`write(words, value)` in compiled code; it does not compile for values of another type."""

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            cursor = _Cursor(context, builder, signature.args[0], given[0])
            cursor.write(self._type, given[1])
            return context.get_dummy_value()

        @_numba.extending.intrinsic  # type: ignore[untyped-decorator]
        def write(_: object, words: Any, value: Any) -> Any:
            return (_numba.types.void(words, value), generate) if value == self._type else None

        return write

    def read(self) -> Any:
        """`read(words)` in compiled code: the value, which counts no references."""

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            return _Cursor(context, builder, signature.args[0], given[0]).read(self._type)

        @_numba.extending.intrinsic  # type: ignore[untyped-decorator]
        def read(_: object, words: Any) -> Any:
            return self._type(words), generate

        return read


@cache
def _passing(kind: Any) -> Passing:
    return Passing(kind)


def _words(kind: Any) -> int:
    """Words of a type: an address and a shape for each array."""
    return sum(map(_words, kind)) if isinstance(kind, _numba.types.BaseTuple) else 1 + int(kind.ndim)


class _Cursor:
    """Generates code that goes through the words."""

    def __init__(self, context: Any, builder: Any, kind: Any, words: Any) -> None:
        self._context, self._builder, self._at = context, builder, 0
        self._data = _numba.np.arrayobj.make_array(kind)(context, builder, words).data

    def _next(self) -> Any:
        place = _numba.core.cgutils.gep_inbounds(self._builder, self._data, self._at)
        self._at += 1
        return place

    def write(self, kind: Any, value: Any) -> None:
        if isinstance(kind, _numba.types.BaseTuple):
            for number, one in enumerate(kind):
                self.write(one, self._builder.extract_value(value, number))
            return
        array = _numba.np.arrayobj.make_array(kind)(self._context, self._builder, value)
        place = self._next()
        self._builder.store(self._builder.ptrtoint(array.data, place.type.pointee), place)
        for size in _numba.core.cgutils.unpack_tuple(self._builder, array.shape, kind.ndim):
            self._builder.store(size, self._next())

    def read(self, kind: Any) -> Any:
        if isinstance(kind, _numba.types.BaseTuple):
            return self._context.make_tuple(self._builder, kind, [self.read(one) for one in kind])
        array = _numba.np.arrayobj.make_array(kind)(self._context, self._builder)
        address, *shape = (self._builder.load(self._next()) for _ in range(1 + kind.ndim))
        size = self._context.get_abi_sizeof(self._context.get_data_type(kind.dtype))
        strides = [self._context.get_constant(_numba.types.intp, size)]
        for length in reversed(shape[1:]):
            strides.insert(0, self._builder.mul(strides[0], length))
        data = self._builder.inttoptr(address, array.data.type)
        _numba.np.arrayobj.populate_array(array, data, shape, strides, strides[-1], meminfo=None)
        return array._getvalue()


@contextmanager
def compilations(note: Callable[[bool], None]) -> Iterator[None]:
    """Calls `note` when compiling begins (True) and ends (False), in any thread."""
    with install_listener("numba:compile", _Compilations(note)):
        yield


class _Compilations(Listener):
    def __init__(self, note: Callable[[bool], None]) -> None:
        self._note = note
        self._depth = 0

    def on_start(self, event: object) -> None:  # noqa: ARG002  numba's form
        self._depth += 1
        if self._depth == 1:
            self._note(True)

    def on_end(self, event: object) -> None:  # noqa: ARG002
        self._depth -= 1
        if not self._depth:
            self._note(False)


def source_digest(function: Callable[..., object]) -> str:
    """Digest of the package's files that the function's names lead to, and of their constants."""
    seen: dict[str, str] = {}
    _walk(function.__module__, getattr(function, "__globals__", {}), seen)
    digest = hashlib.blake2b(digest_size=6)
    for name in sorted(seen):
        path = getattr(sys.modules.get(name), "__file__", None)
        digest.update(b"\0" + (Path(path).read_bytes() if path else b"") + seen[name].encode())
    return digest.hexdigest()


def _walk(module: str, names: Mapping[str, object], seen: dict[str, str]) -> None:
    constants = sorted((name, value) for name, value in names.items() if name[:2] != "__" and _constant(value))
    seen[module] = repr(constants)
    for value in names.values():
        owner = getattr(value, "__module__", None)
        if isinstance(owner, str) and owner.startswith(_PACKAGE + ".") and owner not in seen:
            _walk(owner, vars(sys.modules[owner]), seen)


def _constant(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_constant, value))
    return isinstance(value, int | float | str | bytes | np.generic)
