"""A set of services planned in turn, placed and played: does every one hold its SLO, whatever the others do?"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from benchmarks.reporting import Json
from benchmarks.sharing.draws import ServiceSet, drawn_set
from benchmarks.sharing.ways import NOW, Room

from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.services import NotPlannedError
from hetserve.cli.capacity.together.places import PlacedInstance
from hetserve.cli.capacity.together.play import PlannedService, PlayedService, together

SEEDS: Final = (101, 102, 103)
"""Of the joint simulation; plans are tried with seeds above 20,000."""
_QUERIES: Final = 6_000
_RAREST: Final = 2_000
_MOST: Final = 30_000
_ALWAYS: Final = 1.3
"""Load of a service that is always busy, over what its instances serve alone."""


def served(number: int) -> Json:
    """What becomes of a drawn set, at its loads and beside neighbours at others."""
    given = drawn_set(number)
    counts = {"number": number, "gpus": sum(given.gpus.values()), "services": len(given.manifests.services)}
    return counts | _served(given)


def _served(given: ServiceSet) -> Json:
    """Services are planned by the room that those before them leave, as the operator does; `refused`: has no plan."""
    room, services, placed = Room(given.nodes), list[PlannedService](), list[PlacedInstance]()
    for service in given.manifests.services:
        try:
            one = NOW.planned(service, given.manifests, room)
        except NotPlannedError as error:
            return {"refused": service.metadata.name, "reason": error.reason, "message": str(error)}
        services.append(one)
        for wanted in one.instances:
            if (place := room.place(wanted)) is None:
                return {"refused": service.metadata.name, "reason": "no place", "message": wanted.request.uid}
            placed.append(place)
    own = together(services, placed, _effort(services, SEEDS))
    return {
        "instances": len(placed),
        "in_use": len({one.place for one in placed}),
        "played": [_row(one) for one in own],
        "beside": [_row(one) | {"beside": how} for how in ("busy", "drawn") for one in _beside(services, placed, how)],
    }


def _beside(services: Sequence[PlannedService], placed: Sequence[PlacedInstance], how: str) -> list[PlayedService]:
    """Each service at its load, every second of the others always busy or all at drawn loads."""
    rng, found = random.Random(len(placed)), list[PlayedService]()  # noqa: S311
    for turn in (0, 1):
        loads = [one if k % 2 == turn else _at(one, rng, how) for k, one in enumerate(services)]
        played = together(loads, placed, _effort(loads, SEEDS[turn : turn + 1]))
        found += [one for k, one in enumerate(played) if k % 2 == turn]
    return found


def _at(one: PlannedService, rng: random.Random, how: str) -> PlannedService:
    return replace(one, rate=_most(one) * (_ALWAYS if how == "busy" else rng.uniform(0.05, _ALWAYS)))


def _most(one: PlannedService) -> float:
    """Queries/s that its instances serve alone."""
    mix, alone = one.problem.mix, {option.name: option.profile for option in one.alone.types}
    means = {
        kind: sum(share * (alone[kind].mean(b) or math.inf) for b, share in zip(mix.batches, mix.shares, strict=True))
        for kind in one.counts
    }
    return sum(count / means[kind] for kind, count in one.counts.items())


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
        "within": played.within_promise is not False,
        "late": max(report.violation_ratio for report in reports),
        "allowed": 1 - played.planned.problem.slo.percentile / 100,
        "grows": played.backlog_grows,
        "mean": max(report.stretch.mean for report in reports),
        "most": max(report.stretch.most for report in reports),
        "queries": min(report.queries for report in reports),
    }
