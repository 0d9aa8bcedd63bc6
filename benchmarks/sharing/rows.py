"""Rows of a part, measured by several processes and kept one by one: a run that was cut off goes on."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, cast

from benchmarks.reporting import Json

import hetserve

FOLDER: Final = Path(__file__).resolve().parents[2] / "build" / "bench-sharing"
_REPORT_ONLY: Final = frozenset({"__main__.py", "results.py", "rows.py"})


def rows_of(part: str, measured: Callable[[int], Json], numbers: Sequence[int], *, keep: bool = True) -> list[Json]:
    """Row of each number, in order; of a module of this package, so that other processes find `measured`.

    keep: rows of a run before count, if they were made by the same code.
    """
    found = {number: kept for number in numbers if keep and (kept := _kept(part, number)) is not None}
    left = [number for number in numbers if number not in found]
    if not left:
        return [found[number] for number in numbers]
    # A row's work is sequential: another thread of the linear algebra would only take another row's processor.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"), _be_silent) as pool:
        first = pool.submit(measured, left[0]).result()  # compiles; the others find it in the cache
        for number, row in zip(left, chain([first], pool.map(measured, left[1:])), strict=True):
            found[number] = row
            if keep:
                _keep(part, number, row)
            print(f"{part}: {len(found)} of {len(numbers)}", flush=True)
    return [found[number] for number in numbers]


def _be_silent() -> None:
    """HiGHS writes lines of its own to file descriptor 1."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _path(part: str, number: int) -> Path:
    return FOLDER / part / f"{number}.json"


def _kept(part: str, number: int) -> Json | None:
    path = _path(part, number)
    if not path.is_file():
        return None
    raw = json.loads(path.read_text(encoding="utf-8"))
    return cast("Json", raw["row"]) if raw["code"] == _code() else None


def _keep(part: str, number: int, row: Json) -> None:
    """Whole or not at all."""
    path = _path(part, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".part")
    written.write_text(json.dumps({"code": _code(), "row": row}), encoding="utf-8")
    written.replace(path)


@cache
def _code() -> str:
    """Digest of all that a row depends on."""
    own = [file for file in Path(__file__).parent.glob("*.py") if file.name not in _REPORT_ONLY]
    whole = hashlib.blake2b(digest_size=6)
    for file in sorted([*own, *Path(hetserve.__file__).parent.rglob("*.py")]):
        whole.update(hashlib.blake2b(file.read_bytes()).digest())
    return whole.hexdigest()
