"""Services planned in three ways: sharing GPUs on terms, each instance on a GPU of its own, and by memory alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.reporting import Json

from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Seconds
from hetserve.cli.capacity.services import NotPlannedError, planned
from hetserve.cli.capacity.together.places import PlacedInstance, WantedInstance
from hetserve.cli.capacity.together.play import PlannedService
from hetserve.placement.decision.decide import decide
from hetserve.placement.decision.refusals import Masks
from hetserve.placement.event_handlers import NodeEventHandler
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import PolicyName
from hetserve.planning import ClusterFacts, Problem, Unplannable, build_problem, plan
from hetserve.planning.inputs import TypeFacts
from hetserve.planning.offers import Offer, resolve_offers
from hetserve.planning.tenancy import SharingRule
from hetserve.planning.tolerances import with_tolerances
from hetserve.registry.dispatch_policies import default_dispatch_policy
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, default_placement_policy

POLICIES: Final = tuple(map(PolicyName, PLACEMENT_POLICIES.names))
DEFAULT: Final = PolicyName(default_placement_policy())
_DISPATCH: Final = default_dispatch_policy()


class Room:
    """GPUs as placement sees them: how many are left for an instance, and its place."""

    def __init__(self, nodes: Sequence[Json], policy: PolicyName = DEFAULT) -> None:
        self._placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(math.inf))
        NodeEventHandler(self._placer).replace(nodes)
        self._labels: Mapping[str, Mapping[str, str]] = {
            node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes
        }
        self._policy = policy

    def left(self, wanted: WantedInstance) -> int:
        """GPUs that could take such an instance now; each takes one."""
        index = self._placer.ledger.index
        return int(Masks.of(index, wanted.request, self._offered(wanted)).fits.sum())

    def place(self, wanted: WantedInstance, among: Collection[str] | None = None) -> PlacedInstance | None:
        """Its place by the extender's decision; None if there is none. among: nodes; None: all."""
        offered = [name for name in self._offered(wanted) if among is None or name in among]
        decision = decide(self._placer.ledger.index, wanted.request, offered, policy=self._policy)
        if decision.chosen is None:
            return None
        self._placer.ledger.reserve(wanted.request, decision.chosen.places, Seconds(math.inf))
        return PlacedInstance(wanted, *decision.chosen.places[0])

    def _offered(self, wanted: WantedInstance) -> list[str]:
        chosen = wanted.spec.node_selector.items()
        return sorted(name for name, labels in self._labels.items() if chosen <= labels.items())


@dataclass(frozen=True, slots=True)
class Way:
    """How services are planned: by the product as it is; exclusive: each instance with a GPU of its own; or by memory
    alone (measured False), as before compute was counted.
    """

    exclusive: bool = False
    measured: bool = True

    def planned(self, service: InferenceService, manifests: Manifests, room: Room | None = None) -> PlannedService:
        """The service with its plan. room: what others have left; None: no cluster. Raises NotPlannedError.

        Its profiles keep their shares in each way: they say what is met, whatever was planned.
        """
        service = _exclusive(service) if self.exclusive else service
        offers = self._offers(service, manifests)
        problem = self._problem(service, manifests)
        if room is not None:
            problem = self._problem(service, manifests, _facts(service, problem, offers, room))
        decided = plan(problem)
        if not decided.feasible or problem.load is None:
            raise NotPlannedError(str(decided.reason), decided.message)
        made = with_tolerances(problem, dict(decided.tolerances))
        return PlannedService(service, made, dict(decided.counts), float(problem.load), offers, _DISPATCH)

    def _problem(self, service: InferenceService, manifests: Manifests, facts: ClusterFacts | None = None) -> Problem:
        profiles = self._profiles(manifests)
        return planned(build_problem(service, manifests.types, profiles, facts, sharing=self._rule(manifests)))

    def _offers(self, service: InferenceService, manifests: Manifests) -> dict[str, Offer]:
        found = resolve_offers(service, manifests.types, self._profiles(manifests), self._rule(manifests))
        if isinstance(found, Unplannable):
            raise NotPlannedError(str(found.reason), found.message)
        shares = {(p.spec.model, p.spec.instance_type): p for p in manifests.profiles}
        return {o.name: replace(o, profile=shares[service.spec.model.name, o.name]) for o in found.usable}

    def _profiles(self, manifests: Manifests) -> Sequence[ModelProfile]:
        return manifests.profiles if self.measured else [without_share(profile) for profile in manifests.profiles]

    def _rule(self, manifests: Manifests) -> SharingRule:
        undeclared = [] if self.measured else [each.metadata.name for each in manifests.types]
        return SharingRule(undeclared=undeclared)


NOW: Final = Way()
EXCLUSIVE: Final = Way(exclusive=True)
BEFORE: Final = Way(measured=False)


def _facts(service: InferenceService, anywhere: Problem, offers: Mapping[str, Offer], room: Room) -> ClusterFacts:
    """Room for instances on the terms of a plan without a cluster."""
    singles = [PlannedService(service, anywhere, {kind: 1}, 1.0, offers, _DISPATCH) for kind in offers]
    return ClusterFacts({one.instances[0].type: TypeFacts(room=room.left(one.instances[0])) for one in singles})


def _exclusive(service: InferenceService) -> InferenceService:
    return service.model_copy(update={"spec": service.spec.model_copy(update={"sharing": "Exclusive"})})


def without_share(profile: ModelProfile) -> ModelProfile:
    bare = profile.spec.model_copy(update={"compute_share": None, "sharing_mode": None, "interference": None})
    return profile.model_copy(update={"spec": bare})
