"""Measure operators in turn on one installation and write docs/results/operator.md.

`python -m benchmarks.operator [--quick] [--operator NAME=FOLDER ...] [--rounds N]`. Without --operator it is that of
this checkout, named "now". The report keeps operators of other names that were measured before.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
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
        about = {"command": f"make bench-operator{' FLAGS=--quick' if options.quick else ''}", "machine": machine()}
        fleet = Fleet(QUICK if options.quick else FULL)
        data = asyncio.run(_measure(fleet, own, trees, options.rounds, lambda found: keep(size, about, found)))
        print(describe(size, data))
    print(f"wrote {write_report()}")


async def _measure(fleet: Fleet, own: Tree, trees: Sequence[Tree], rounds: int, save: Callable[[Json], None]) -> Json:
    """Sets up with our own operator, then measures each tree in every round; saves after each what was measured."""
    cases: dict[str, Json] = {
        tree.name: {"commit": tree.commit, "when": f"{datetime.now(UTC):%Y-%m-%d}", "rounds": []} for tree in trees
    }
    with tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder, Cluster.started(Path(folder)) as cluster:
        async with connected(cluster) as bulk:
            data: Json = {"setUp": await set_up(cluster, bulk, fleet, own), "burst": fleet.size.burst}
            for number in range(rounds):
                for turn, tree in enumerate(trees):
                    measured = await _one(cluster, bulk, fleet, tree, number * len(trees) + turn)
                    cases[tree.name]["rounds"].append(measured)
                    data["cases"] = {name: case for name, case in cases.items() if case["rounds"]}
                    save(data)
    return data


async def _one(cluster: Cluster, bulk: Bulk, fleet: Fleet, tree: Tree, turn: int) -> Json:
    """All phases of one operator."""
    size = fleet.size
    services = fleet.services
    step = (len(services) // size.edits - 1) | 1  # odd, so that both objectives are edited
    edited = services[turn::step][: size.edits]
    found: Json = {}
    with operator_of(cluster, tree) as operator:
        plan: dict[str, Callable[[], Awaitable[Json]]] = {
            "start": lambda: phases.start(operator, size.services),
            "rest": lambda: phases.rest(operator, cluster, size.rest),
            "edits": lambda: phases.edits(operator, bulk, fleet, edited),
            "burst": lambda: phases.burst(operator, cluster, bulk, fleet.burst(turn)),
        }
        for phase, measure in plan.items():
            found[phase] = await measure()
            print(f"  {tree.name}, {phase}: {found[phase]}", flush=True)
    return found


if __name__ == "__main__":
    main()
