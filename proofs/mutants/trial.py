"""Runs the test that must catch a bug, in a copy of the source with that bug."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from effort import TIER_VARIABLE
from mutants.mutant import Mutant
from mutants.planting import plant
from mutants.source import ROOTS

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = (*ROOTS, "proofs", "tests", "e2e/harness", "docs")
FAILED: Final = 1
"""pytest's status of failed tests."""
CRASHES: Final = ("NameError", "UnboundLocalError", "AttributeError", "ImportError")
"""Code that cannot run proves nothing."""


@dataclass(frozen=True, slots=True)
class Result:
    """`words`: the end of pytest's output."""

    mutant: Mutant
    caught: bool
    seconds: float
    words: str = ""


def try_out(mutant: Mutant) -> Result:
    """Caught: the test fails, and the planted code can run."""
    began = time.perf_counter()
    with copied() as tree:
        plant(mutant, tree)
        run = _pytest(tree, [mutant.node])
    crash = next((error for error in CRASHES if error in run.stdout), "")
    words = f"{crash and f'the planted code raises {crash}: '}{run.stdout[-300:]}{run.stderr[-300:]}"
    return Result(mutant, run.returncode == FAILED and not crash, time.perf_counter() - began, words)


def fails(nodes: Sequence[str]) -> str:
    """Runs tests without a bug; empty if they pass, else pytest's words."""
    with copied() as tree:
        run = _pytest(tree, nodes)
    return "" if run.returncode == 0 else run.stdout[-2000:] + run.stderr[-1000:]


@contextmanager
def copied() -> Iterator[Path]:
    """Source and tests, for the block."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        yield tree


def _pytest(tree: Path, nodes: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The copy goes before the installed project on the path; laws try as many examples as they do at the most."""
    path = os.pathsep.join(str(tree / name) for name in ROOTS)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--tb=line",
            "-p",
            "no:cacheprovider",
            "--hypothesis-seed=0",
            *nodes,
        ],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", TIER_VARIABLE: "deep"},
        capture_output=True,
        text=True,
        check=False,
    )
