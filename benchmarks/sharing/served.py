"""A set of services planned in turn, placed and played: does every one hold its SLO beside the others?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from benchmarks.reporting import Json
from benchmarks.sharing.draws import ServiceSet, drawn_set
from benchmarks.sharing.ways import BEFORE, NOW, Room, Way

from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.services import NotPlannedError
from hetserve.cli.capacity.together.places import PlacedInstance
from hetserve.cli.capacity.together.play import PlannedService, PlayedService, together

SEEDS: Final = (101, 102, 103)
"""Of the joint simulation; plans are tried with seeds above 20,000."""
_QUERIES: Final = 20_000
_RAREST: Final = 5_000
_MOST: Final = 150_000


def served(number: int) -> Json:
    """What becomes of a drawn set in either way."""
    given = drawn_set(number)
    counts = {"gpus": sum(given.gpus.values()), "services": len(given.manifests.services)}
    now, before = _served(given, NOW, SEEDS), _served(given, BEFORE, SEEDS[:1])
    return {"number": number, **counts, "now": now, "before": before}


def _served(given: ServiceSet, way: Way, seeds: tuple[int, ...]) -> Json:
    """Services are planned by the room that those before them leave, as the operator does; `refused`: has no plan."""
    room, services, placed = Room(given.nodes), list[PlannedService](), list[PlacedInstance]()
    for service in given.manifests.services:
        try:
            one = way.planned(service, given.manifests, room)
        except NotPlannedError as error:
            return {"refused": service.metadata.name, "reason": error.reason, "message": str(error)}
        services.append(one)
        placed += [room.take(wanted) for wanted in one.instances]
    played = together(services, placed, _effort(services, seeds))
    return {"instances": len(placed), "in_use": len({one.place for one in placed}), "played": [_row(p) for p in played]}


def _effort(services: Sequence[PlannedService], seeds: tuple[int, ...]) -> SimulationEffort:
    """Queries per service on average: enough of the rarest service, too."""
    rates = [one.rate for one in services]
    queries = max(_QUERIES, _RAREST * sum(rates) / len(rates) / min(rates))
    return SimulationEffort(math.ceil(min(queries, _MOST)), seeds, 1)


def _row(played: PlayedService) -> Json:
    """Late, stretch: of the seeds the worst."""
    reports = played.reports
    return {
        "name": played.planned.service.metadata.name,
        "counts": dict(played.planned.counts),
        "holds": played.holds,
        "late": max(report.violation_ratio for report in reports),
        "allowed": 1 - played.planned.problem.slo.percentile / 100,
        "grows": any(report.unstable for report in reports),
        "mean": max(report.stretch.mean for report in reports),
        "most": max(report.stretch.most for report in reports),
        "queries": min(report.queries for report in reports),
    }
