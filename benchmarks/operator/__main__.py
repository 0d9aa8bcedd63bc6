"""Measure operators in turn on one installation and write docs/results/operator.md.

`python -m benchmarks.operator [--quick] [--operator NAME=FOLDER ...] [--rounds N]`. Without --operator it is that of
this checkout, named "now". The report keeps operators of other names that were measured before.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.operator import phases
from benchmarks.operator.bulk import Bulk, connected
from benchmarks.operator.fleet import FULL, QUICK, Fleet, Json
from benchmarks.operator.installation import set_up
from benchmarks.operator.process import REPOSITORY, Tree, operator_of
from benchmarks.operator.report import describe, keep, write_report
from benchmarks.reporting import machine

from harness.cluster import Cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--operator", action="append", type=Tree.parse, metavar="NAME=FOLDER", help="tree to measure")
    parser.add_argument("--rounds", type=int, default=1, help="rounds, each with every operator")
    parser.add_argument("--report", action="store_true", help="write the report from kept measurements only")
    options = parser.parse_args()
    if not options.report:
        own = Tree("now", REPOSITORY)
        trees = options.operator or [own]
        size = "quick" if options.quick else "full"
        began = time.perf_counter()
        data = asyncio.run(_measure(Fleet(QUICK if options.quick else FULL), own, trees, options.rounds))
        command = f"make bench-operator{' FLAGS=--quick' if options.quick else ''}"
        keep(size, {"command": command, "machine": machine(), "seconds": time.perf_counter() - began}, data)
        print(describe(size, data))
    print(f"wrote {write_report()}")


async def _measure(fleet: Fleet, own: Tree, trees: Sequence[Tree], rounds: int) -> Json:
    """Sets up with our own operator, then measures each tree in every round."""
    cases: dict[str, Json] = {
        tree.name: {"commit": tree.commit, "when": f"{datetime.now(UTC):%Y-%m-%d}", "rounds": []} for tree in trees
    }
    with tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder, Cluster.started(Path(folder)) as cluster:
        async with connected(cluster) as bulk:
            found = await set_up(cluster, bulk, fleet, own)
            for number in range(rounds):
                for turn, tree in enumerate(trees):
                    measured = await _one(cluster, bulk, fleet, tree, number * len(trees) + turn)
                    cases[tree.name]["rounds"].append(measured)
    return {"setUp": found, "burst": fleet.size.burst, "cases": cases}


async def _one(cluster: Cluster, bulk: Bulk, fleet: Fleet, tree: Tree, turn: int) -> Json:
    """All phases of one operator."""
    size = fleet.size
    services = fleet.services()
    step = (len(services) // size.edits - 1) | 1  # odd, so that both objectives are edited
    edited = services[turn::step][: size.edits]
    began = time.perf_counter()
    with operator_of(cluster, tree) as operator:
        found: Json = {}
        found["start"] = await phases.start(operator, size.services, began)
        found["rest"] = await phases.rest(operator, cluster, size.rest)
        found["edits"] = await phases.edits(operator, bulk, fleet, edited)
        found["burst"] = await phases.burst(operator, cluster, bulk, fleet.burst(turn))
    print(f"  {tree.name}: {found}", flush=True)
    return found


if __name__ == "__main__":
    main()
