"""Compiles what planning and simulation call, into the cache that NUMBA_CACHE_DIR names, and says how much it was.

A compiled kernel is found again under the signature that it was called with, so the command line is what calls it: the
planners that have kernels, and each dispatch policy.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hetserve.cli.app import app
from hetserve.compiled import compilations
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES

SAMPLES: Final = Path(__file__).parents[1] / "manifests" / "samples"


def commands(samples: Path = SAMPLES) -> Iterator[tuple[str, ...]]:
    """Command lines that call every kernel of planning, and the loop of each dispatch policy."""
    one, several = str(samples / "rm2.yaml"), str(samples / "hetsev.yaml")
    yield ("plan", several)
    for planner in ("flow", "robust", "kairos-plus"):
        yield ("plan", one, "--planner", planner)
    for policy in DISPATCH_POLICIES.names:
        yield ("simulate", one, "--counts", "g4dn.xlarge=1", "--rate", "10", "--policy", policy, "--queries", "1000")


def run(command: tuple[str, ...]) -> int:
    """Runs one command of hetserve without its output. Returns its exit code: 3 is a plan that is not feasible."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            app(args=list(command), prog_name="hetserve", standalone_mode=False)
        except SystemExit as left:
            return int(left.code or 0)
    return 0


def main() -> int:
    """Runs all commands. Exit code 1: one failed."""
    compiled: list[bool] = []
    with compilations(compiled.append):
        failed = [" ".join(command) for command in commands() if run(command) not in {0, 3}]
    print(f"{compiled.count(True)} kernels compiled")
    print("\n".join(f"failed: hetserve {command}" for command in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
