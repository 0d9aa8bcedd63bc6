"""Compiles what planning and simulation call, into the cache that NUMBA_CACHE_DIR names, and says how much it was.

A compiled kernel is found again under the signature that it was called with, so the command line is what calls it: the
planners that have kernels, each dispatch policy, those that join queries by their one loop, and the joint simulation.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hetserve.cli.app import app
from hetserve.compiled import compilations
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.registry.joining_policies import JOINING_POLICIES

SAMPLES: Final = Path(__file__).parents[1] / "manifests" / "samples"

GPUS: Final = {"hetsev-v100": ("Tesla-V100-PCIE-32GB", "32768"), "hetsev-t4": ("Tesla-T4", "15360")}
"""Product and MiB of the GPUs of each of the sample's nodes."""


def nodes() -> list[dict[str, Any]]:
    """Four Nodes of each type, with eight GPUs each."""
    made = []
    for number, (kind, (product, memory)) in enumerate(4 * [*GPUS.items()]):
        gpu = {"product": product, "memory": memory, "count": "8"}
        labels = {"node.kubernetes.io/instance-type": kind, **{f"nvidia.com/gpu.{k}": v for k, v in gpu.items()}}
        metadata = {"name": f"n{number}", "labels": labels}
        made.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    return made


def commands(folder: Path, samples: Path = SAMPLES) -> Iterator[tuple[str, ...]]:
    """Command lines that call the kernels of planning, the loop of each dispatch policy, and the joint simulation.

    folder: for files of nodes and of variants.
    """
    one, several = str(samples / "rm2.yaml"), str(samples / "hetsev.yaml")
    yield ("plan", several)
    for planner in ("flow", "kairos-plus"):
        yield ("plan", one, "--planner", planner)
    given = folder / "nodes.json"
    given.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes()}))
    yield ("simulate", several, "--together", "--nodes", str(given), "--queries", "1000")
    for policy in DISPATCH_POLICIES.names:
        yield ("simulate", one, "--counts", "g4dn.xlarge=1", "--rate", "10", "--policy", policy, "--queries", "1000")
    variants = str(folder / "variants.yaml")
    yield ("reference", "fang", "-o", variants)
    yield ("simulate", variants, "--rate", "20", "--policy", JOINING_POLICIES.names[0], "--queries", "1000")


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
    with compilations(compiled.append), tempfile.TemporaryDirectory() as folder:
        failed = [" ".join(command) for command in commands(Path(folder)) if run(command) not in {0, 3}]
    print(f"{compiled.count(True)} kernels compiled")
    print("\n".join(f"failed: hetserve {command}" for command in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
