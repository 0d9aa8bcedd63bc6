"""Kept results: one small file per pool, so that a run can be cut off, resumed, packed and carried elsewhere.

A file holds every trial that was simulated, valid while problem and simulation stay, and the record, valid while all of
the product stays.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.reporting import Json

import hetserve
from hetserve.planning import Problem

FOLDER: Final = Path(__file__).resolve().parents[2] / "build" / "bench-flow"
_PRODUCT: Final = Path(hetserve.__file__).parent
_SIMULATION: Final = ("dispatch", "simulation", "profiles", "demand", "registry/choices.py", "compiled.py")
_HERE: Final = Path(__file__).parent

Memo = dict[str, tuple[float, bool, bool]]


@dataclass(slots=True)
class PoolFile:
    """record: None until the pool is measured."""

    name: str
    problem: str
    judge: str
    code: str = ""
    memo: Memo = field(default_factory=dict)
    record: Json | None = None

    def save(self) -> None:
        """Whole or not at all."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        path = path_of(self.name)
        kept = {"name": self.name, "problem": self.problem, "judge": self.judge, "code": self.code}
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({**kept, "record": self.record, "memo": self.memo}), encoding="utf-8")
        part.replace(path)


def opened(given: Problem) -> PoolFile:
    """What is kept of a pool, without what is valid no more."""
    path = path_of(given.service)
    if path.is_file():
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["problem"] == digest_of(given) and raw["judge"] == judge_version():
            memo = {key: (late, steady, passed) for key, (late, steady, passed) in raw["memo"].items()}
            return PoolFile(raw["name"], raw["problem"], raw["judge"], raw["code"], memo, raw["record"])
    return PoolFile(given.service, digest_of(given), judge_version())


def is_measured(given: Problem, *, of_any_code: bool = False) -> bool:
    """Whether a valid record is there; of_any_code: one of another version of the planners is enough."""
    kept = opened(given)
    return kept.record is not None and (of_any_code or kept.code == code_version())


def records(names: Iterable[str]) -> list[Json]:
    """Records of these pools that were measured, whatever the version."""
    found = []
    for name in names:
        path = path_of(name)
        raw = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"record": None}
        if raw["record"] is not None:
            found.append({"name": name, "code": raw["code"], "judge": raw["judge"], **raw["record"]})
    return found


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


def digest_of(given: Problem) -> str:
    return _digest([repr(given).encode()])


@cache
def judge_version() -> str:
    """Digest of all that a trial depends on."""
    files = [file for name in _SIMULATION for file in _sources(_PRODUCT / name)]
    return _digest(file.read_bytes() for file in [*files, _HERE / "judge.py"])


@cache
def code_version() -> str:
    """Digest of all that a record depends on."""
    here = [_HERE / name for name in ("measure.py", "search.py", "program.py")]
    return _digest(file.read_bytes() for file in [*_sources(_PRODUCT), *here])


def _sources(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def _digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.blake2b(digest_size=6)
    for part in parts:
        whole.update(hashlib.blake2b(part).digest())
    return whole.hexdigest()
