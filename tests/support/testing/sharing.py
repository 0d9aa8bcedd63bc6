"""Small and random scenes of services that share GPUs, for tests of the serving engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from hetserve.dispatch import Policy
from hetserve.dispatch.kernel import Floats
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.simulation.workload import Workload, draw_workload
from testing.dispatching import AUXILIARY, BASE, EVEN_MIX, system

SMALL_ONLY = (0.3, 0.5)
"""Seconds of a third type, at the batches that it serves."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A service and what arrives at it: rate [queries/s], number of queries, seed.

    only: index of the one batch size of all its queries.
    """

    service: Service
    rate: float
    queries: int
    seed: int
    only: int | None = None

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002  hypothesis's form
        one = self.service
        told = one.name, one.policy.name, one.system.slo, one.uses, one.expected
        printer.text(f"<{told} {self.rate} queries/s: {self.queries}, seed {self.seed}>")

    @property
    def workload(self) -> Workload:
        drawn = draw_workload(EVEN_MIX, self.queries, self.seed)
        return drawn if self.only is None else replace(drawn, sizes=np.full(len(drawn), self.only))


@dataclass(frozen=True, slots=True)
class SharingScene:
    """Services with loads, and where their instances are."""

    loads: tuple[Offered, ...]
    seats: tuple[GpuInstance, ...]

    def run(self) -> Session:
        """With instances and queries, at time 0."""
        run = Session([load.service for load in self.loads])
        run.join_all(self.seats)
        for load in self.loads:
            load.workload.offer_to(run, load.service.name, load.rate)
        return run

    def without(self, name: str) -> SharingScene:
        """As if a service were not there."""
        return SharingScene(
            tuple(load for load in self.loads if load.service.name != name),
            tuple(seat for seat in self.seats if seat.service != name),
        )

    def only(self, name: str) -> SharingScene:
        """As if all other services were not there."""
        return reduce(SharingScene.without, (other for other in self.names if other != name), self)

    @property
    def names(self) -> list[str]:
        return [load.service.name for load in self.loads]

    def fates_of(self, name: str) -> Fates:
        """What becomes of a service's queries."""
        run = self.run()
        run.until()
        outcome = run.outcome()
        mine = outcome.service == self.names.index(name)
        return Fates(*(getattr(outcome, field)[mine] for field in ("arrival", "start", "finish", "work", "peak")))


class Fates(NamedTuple):
    """[query], seconds; peak: greatest stretch."""

    arrival: Floats
    start: Floats
    finish: Floats
    work: Floats
    peak: Floats


def shared_service(name: str, policy: Policy, *uses: ComputeUse, slo: float = 1.0, variation: float = 0.3) -> Service:
    """Types a, b and c; c serves small batches alone. uses: of these types in turn."""
    found = system(BASE, AUXILIARY, SMALL_ONLY, slo=slo, variation=variation)
    return Service(name, found, policy, dict(zip("abc", uses, strict=False)))


def _use(source: np.random.Generator) -> ComputeUse:
    """Whole GPUs and harmless neighbours more often than by chance."""
    toward = {name: source.uniform(0.0, 0.4) for name in ("s0", "s1", "s2") if source.random() < 0.5}
    share, otherwise = source.choice((1.0, *source.uniform(0.05, 1.0, 3))), source.choice((0.0, 0.4, 0.1))
    return ComputeUse(float(share), toward, float(otherwise))


@st.composite
def offers(draw: st.DrawFn, number: int, *policies: Policy, instances: int) -> Offered:
    """Service s0, s1, ... by its number, and up to 60 queries for so many instances."""
    source = np.random.default_rng(draw(st.integers(0, 999)))
    service = shared_service(
        f"s{number}",
        draw(st.sampled_from(policies)),
        *(_use(source) for _ in "abc"),
        slo=draw(st.floats(0.3, 3.0)),
        variation=draw(st.sampled_from((0.3, 0.0))),
    )
    service = replace(service, expected=dict.fromkeys("abc", draw(st.sampled_from((1.0, 1.25)))))
    rate = draw(st.floats(0.3, 3.0)) * max(instances, 1)
    return Offered(service, rate, draw(st.integers(1, 60)), 100 * number + draw(st.integers(0, 99)))


@st.composite
def sharing_scenes(
    draw: st.DrawFn, *policies: Policy, least: int = 1, one_each: bool = False, alone: bool = False
) -> SharingScene:
    """One to three services with instances of types a and b, or none, on up to four GPUs.

    least: services. one_each: one instance of type a each, all on one GPU. alone: each has a GPU of its own.
    """
    loads: list[Offered] = []
    seats: list[GpuInstance] = []
    for s in range(draw(st.integers(least, 3))):
        types = ["a"] if one_each else draw(st.lists(st.sampled_from("ab"), max_size=4))
        loads.append(draw(offers(s, *policies, instances=len(types))))
        for kind in types:
            gpu = len(seats) if alone else 0 if one_each else draw(st.integers(0, 3))
            seats.append(GpuInstance(f"s{s}", kind, f"g{gpu}"))
    return SharingScene(tuple(loads), tuple(seats))
