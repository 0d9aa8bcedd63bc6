"""A set of services planned, placed and played: does every one hold its SLO beside the others?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.reporting import Json
from benchmarks.sharing.draws import ServiceSet, drawn_set

from hetserve.api.inference_service import InferenceService
from hetserve.base.units import Seconds
from hetserve.cli.capacity.effort import Effort
from hetserve.cli.capacity.not_planned import NotPlannedError, planned
from hetserve.cli.capacity.together import PlannedService, PlayedService, planned_service, together
from hetserve.cli.capacity.together_places import PlacedInstance, WantedInstance
from hetserve.placement import NodeEventHandler, Placer, decide
from hetserve.placement.decision.refusals import Masks
from hetserve.planning import ClusterFacts, Problem, build_problem
from hetserve.planning.inputs import TypeFacts
from hetserve.planning.offers import Unplannable, resolve_offers
from hetserve.registry.dispatch_policies import default_dispatch_policy

SEEDS: Final = (101, 102, 103)
"""Of the joint simulation; plans are tried with seeds above 20,000."""
_QUERIES: Final = 20_000
_RAREST: Final = 5_000
_MOST: Final = 150_000


def served(number: int) -> Json:
    """What became of a drawn set: services, and per service whether it held; `refused`: the first without a plan."""
    given = drawn_set(number)
    room = Room(given.nodes)
    row: Json = {"number": number, "gpus": sum(given.gpus.values()), "services": len(given.manifests.services)}
    services, placed = list[PlannedService](), list[PlacedInstance]()
    for service in given.manifests.services:
        try:
            one = _planned(service, given, room)
        except NotPlannedError as error:
            return {**row, "refused": service.metadata.name, "reason": error.reason, "message": error.message}
        services.append(one)
        placed += [room.take(wanted) for wanted in one.instances]
    played = together(services, placed, _effort(services))
    in_use = len({one.place for one in placed})
    return {**row, "instances": len(placed), "in_use": in_use, "held": [_row(one) for one in played]}


class Room:
    """GPUs as placement sees them: what is left for an instance, and its place."""

    def __init__(self, nodes: Sequence[Json]) -> None:
        self._placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(math.inf))
        NodeEventHandler(self._placer).replace(nodes)
        self._labels: Mapping[str, Mapping[str, str]] = {
            node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes
        }

    def left(self, wanted: WantedInstance) -> int:
        """GPUs that could take such an instance now; each takes one."""
        return int(Masks.of(self._placer.ledger.index, wanted.request, self._offered(wanted)).fits.sum())

    def take(self, wanted: WantedInstance) -> PlacedInstance:
        """Its place by the extender's decision. Raises RuntimeError if there is none: the plan had room."""
        decision = decide(self._placer.ledger.index, wanted.request, self._offered(wanted))
        if decision.chosen is None:
            raise RuntimeError(f"no place for {wanted.request.uid}, though its plan found room")
        self._placer.ledger.reserve(wanted.request, decision.chosen.places, Seconds(math.inf))
        return PlacedInstance(wanted, *decision.chosen.places[0])

    def _offered(self, wanted: WantedInstance) -> list[str]:
        chosen = wanted.node_selector.items()
        return sorted(name for name, labels in self._labels.items() if chosen <= labels.items())


def _planned(service: InferenceService, given: ServiceSet, room: Room) -> PlannedService:
    """As the operator plans: by the room that those before have left. Raises NotPlannedError."""
    types, profiles = given.manifests.types, given.manifests.profiles
    empty = planned(build_problem(service, types, profiles))
    left = {kind: TypeFacts(room=room.left(_one_of(kind, service, empty, given))) for kind in given.gpus}
    problem = planned(build_problem(service, types, profiles, ClusterFacts(left)))
    return planned_service(service, problem, given.manifests, default_dispatch_policy())


def _one_of(kind: str, service: InferenceService, problem: Problem, given: ServiceSet) -> WantedInstance:
    offers = resolve_offers(service, given.manifests.types, given.manifests.profiles)
    by_name = {} if isinstance(offers, Unplannable) else {offer.name: offer for offer in offers.usable}
    return PlannedService(service, problem, {kind: 1}, 1.0, by_name, default_dispatch_policy()).instances[0]


def _effort(services: Sequence[PlannedService]) -> Effort:
    """Queries per service on average: enough of the rarest service, too."""
    rates = [one.rate for one in services]
    queries = max(_QUERIES, _RAREST * sum(rates) / len(rates) / min(rates))
    return Effort(math.ceil(min(queries, _MOST)), SEEDS, 1)


def _row(played: PlayedService) -> Json:
    reports = played.reports
    return {
        "name": played.planned.service.metadata.name,
        "counts": dict(played.planned.counts),
        "holds": played.holds,
        "late": max(report.violation_ratio for report in reports),
        "allowed": 1 - played.planned.problem.slo.percentile / 100,
        "grows": any(report.unstable for report in reports),
        "stretch": max(report.stretch.most for report in reports),
        "mean": max(report.stretch.mean for report in reports),
        "queries": min(report.queries for report in reports),
    }
