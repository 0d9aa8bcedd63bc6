"""Services that share GPUs beside the same with GPUs of their own: whole GPUs, who is late, and the fewest found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks.reporting import Json
from benchmarks.sharing.found import fewest_found
from benchmarks.sharing.needed import grown, in_use, most_on_one, over_orders, placed, smallest
from benchmarks.sharing.ways import DEFAULT

from hetserve.api.instance_type import InstanceType
from hetserve.base.units import quantity_to_mib
from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.together.play import PlannedService, together
from hetserve.placement.pods.requests import PolicyName

DENSEST: Final = PolicyName("BestFit")
PLACED: Final = tuple(dict.fromkeys((DEFAULT, PolicyName("WorstFit"), DENSEST)))
SEEDS: Final = (101, 102, 103)
"""Of the joint simulation; plans are tried with seeds above 20,000."""
_EFFORT: Final = SimulationEffort(10_000, SEEDS, 1)


def compared(shared: Sequence[PlannedService], alone: Sequence[PlannedService], types: Iterable[InstanceType]) -> Json:
    """GPUs of the services by policy, in the order of the services and in random ones, and what comes of the loads.

    alone: the same services, planned to have their GPUs alone. Of one type also the fewest found.
    """
    by_name = {one.metadata.name: one for one in types}
    wanted = [instance for one in shared for instance in one.instances]
    exclusive = sum(sum(one.counts.values()) for one in alone)
    found: Json = {
        "exclusive": exclusive,
        "instances": len(wanted),
        "counts": [dict(one.counts) for one in shared],
        "tolerances": [[o.slowdown for o in one.problem.types] for one in shared],
        "needs": {policy: over_orders(wanted, by_name, policy) for policy in PLACED},
        "grown": {policy: grown(wanted, by_name, policy) for policy in PLACED},
        "played": {},
    }
    for policy in PLACED:
        places = placed(wanted, by_name, smallest(wanted, by_name, policy), policy)
        assert places is not None, "the smallest cluster takes all"
        played = together(shared, places, _EFFORT)
        found["played"][policy] = {
            "late": [max(report.violation_ratio for report in one.reports) for one in played],
            "breaks": sum(not one.holds for one in played),
            "stretch": max(report.stretch.most for one in played for report in one.reports),
            "in use": in_use(places),
            "most on one": most_on_one(places),
        }
    if len(by_name) == 1:
        gpu = next(iter(by_name.values())).spec.gpu
        assert gpu is not None, "the benchmarks' types have GPUs"
        start = min(exclusive, *(needs[0] for needs in found["needs"].values()))
        found["fewest"] = fewest_found(alone, start, quantity_to_mib(gpu.memory))
    return found
