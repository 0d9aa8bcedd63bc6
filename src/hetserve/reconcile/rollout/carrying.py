"""What instances of a service carry, for the order of the steps that change them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from hetserve.api.inference_service import InferenceService
from hetserve.base.units import parse_duration
from hetserve.demand import declared_mix
from hetserve.planning.offers import namespace_of
from hetserve.planning.rate_estimate import RateEstimate, rate_estimate
from hetserve.profiles import LatencyProfile, profile_from_spec
from hetserve.profiles.latency import slowed
from hetserve.profiles.sharing import ONE
from hetserve.reconcile.plans.plan_decision import PlanDecision
from hetserve.reconcile.snapshot import ServiceSnapshot
from hetserve.transition.staging import Holdings


class ServiceRate:
    """`rate_estimate` of a service's types, made when it is first asked: at rest nobody asks."""

    def __init__(self, snapshot: ServiceSnapshot, decision: PlanDecision, holdings: Holdings) -> None:
        self._world, self._decision, self._holdings = snapshot, decision, holdings

    def __call__(self, counts: Mapping[str, int]) -> float:
        return self._estimate(counts)

    @cached_property
    def _estimate(self) -> RateEstimate:
        service = self._decision.service
        prices = {name: held.each for name, held in self._holdings.items()}
        if service is None:
            return lambda counts: float(sum(n * prices.get(name, 0) for name, n in counts.items()))
        profiles = {name: found for name in prices if (found := self._profile(service, name)) is not None}
        recorded = self._decision.record
        measured = None if recorded is None else recorded.mix
        mix = declared_mix(service) if measured is None else measured
        return rate_estimate(profiles, prices, mix, parse_duration(service.spec.slo.latency))

    def _profile(self, service: InferenceService, name: str) -> LatencyProfile | None:
        """The one profile of the service's model on a type, also of one that the service may not use any more."""
        spec, place = service.spec, namespace_of(service)
        mine = [p for p in self._world.profiles if (p.spec.model, p.spec.instance_type) == (spec.model.name, name)]
        mine = [p for p in mine if namespace_of(p) == place]
        if len(mine) != 1:
            return None
        profile = profile_from_spec(mine[0].spec)
        return slowed(profile, self._world.settings.max_slowdown / ONE) if self._shares(name) else profile

    def _shares(self, name: str) -> bool:
        offer = self._decision.offers.get(name)
        if offer is not None:
            return offer.shares
        return any(p.instance_type == name and p.gpu_memory and not p.whole_gpu for p in self._world.pods)
