"""Measure operators in turn on one installation and write docs/results/operator.md.

`python -m benchmarks.operator [PART...] [--quick] [--operator NAME=FOLDER ...] [--rounds N]`. Parts: declared (plans
follow what is declared), scaled (they follow the load that Prometheus measures); without names both. Without --operator
it is that of this checkout, named "now". The report keeps operators of other names that were measured before.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.operator import following
from benchmarks.operator.bulk import connected
from benchmarks.operator.fleet import FULL, QUICK, Fleet, Json
from benchmarks.operator.installation import set_up
from benchmarks.operator.process import REPOSITORY, Tree, operator_of
from benchmarks.operator.report import command, describe, keep, write_report
from benchmarks.operator.scaled import Beside, Turn, beside
from benchmarks.reporting import machine

from harness.cluster import Cluster
from harness.pins import EVERY_MODULE
from harness.tools import provide

SIZES: Final = {
    ("declared", False): "full",
    ("declared", True): "quick",
    ("scaled", False): "scaled",
    ("scaled", True): "scaled-quick",
}
"""What is kept, by part and whether it is quick."""
PARTS: Final = tuple(dict.fromkeys(part for part, _ in SIZES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--operator", action="append", type=Tree.parse, metavar="NAME=FOLDER", help="tree to measure")
    parser.add_argument("--rounds", type=int, default=1, help="rounds, each with every operator")
    parser.add_argument("--report", action="store_true", help="write the report from kept measurements only")
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        parser.error(f"unknown part {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    own = Tree("now", REPOSITORY)
    for part in () if options.report else options.parts or PARTS:
        size = SIZES[part, options.quick]
        fleet = Fleet(QUICK if options.quick else FULL, scaled=part == "scaled")
        _size(size, fleet, own, options.operator or [own], options.rounds)
    print(f"wrote {write_report()}")


def _size(size: str, fleet: Fleet, own: Tree, trees: Sequence[Tree], rounds: int) -> None:
    about = {"command": command(size), "machine": machine()}
    data = asyncio.run(_measure(fleet, own, trees, rounds, lambda found: keep(size, about, found)))
    print(describe(size, data))


async def _measure(fleet: Fleet, own: Tree, trees: Sequence[Tree], rounds: int, save: Callable[[Json], None]) -> Json:
    """Sets up with our own operator, then measures each tree in every round; saves after each what was measured."""
    cases: dict[str, Json] = {
        tree.name: {"commit": tree.commit, "when": f"{datetime.now(UTC):%Y-%m-%d}", "rounds": []} for tree in trees
    }
    toolset = provide(tuple(EVERY_MODULE.values()))
    with (
        tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder,
        Cluster.started(Path(folder), toolset=toolset) as cluster,
    ):
        async with connected(cluster) as bulk, beside(cluster, fleet) as near:
            values = near.values if near else ()
            settle = (lambda one: following.settled(one, near.prometheus)) if near else None
            made = await set_up(cluster, bulk, fleet, own, values, settle=settle)
            data: Json = {"setUp": made, "burst": fleet.size.burst}
            for number in range(rounds):
                for turn, tree in enumerate(trees):
                    with operator_of(cluster, tree, values) as operator:
                        one = Turn(cluster, bulk, fleet, operator, number * len(trees) + turn)
                        measured = await _one(tree, one, near)
                    cases[tree.name]["rounds"].append(measured)
                    data["cases"] = {name: case for name, case in cases.items() if case["rounds"]}
                    save(data)
    return data


async def _one(tree: Tree, turn: Turn, near: Beside | None) -> Json:
    """All phases of one operator."""
    found: Json = {}
    for phase, measure in (turn.scaled(near) if near else turn.declared()).items():
        found[phase] = await measure()
        print(f"  {tree.name}, {phase}: {found[phase]}", flush=True)
    return found


if __name__ == "__main__":
    main()
