"""Small and random scenes of services that share GPUs, for tests of the joint simulation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from hetserve.dispatch import Policy
from hetserve.dispatch.kernel import Floats
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.simulation.workload import Workload, draw_workload
from testing.dispatching import AUXILIARY, BASE, EVEN_MIX, system
from testing.plain_sharing import PlainSharing, SharedFate


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
        for seat in self.seats:
            run.join(seat)
        for load in self.loads:
            load.workload.offer_to(run, load.service.name, load.rate)
        return run

    def plain(self) -> PlainSharing:
        run = PlainSharing([load.service for load in self.loads])
        for seat in self.seats:
            run.join(seat)
        for load in self.loads:
            work = load.workload
            run.arrive(load.service.name, work.times(load.rate), work.sizes.tolist(), work.service_draws.tolist())
        return run

    def without(self, name: str) -> SharingScene:
        """As if a service were not there."""
        return SharingScene(
            tuple(load for load in self.loads if load.service.name != name),
            tuple(seat for seat in self.seats if seat.service != name),
        )

    def fates_of(self, name: str) -> Fates:
        """What becomes of a service's queries."""
        run = self.run()
        run.until()
        outcome, names = run.outcome(), [load.service.name for load in self.loads]
        mine = outcome.service == names.index(name)
        return Fates(*(getattr(outcome, field)[mine] for field in ("arrival", "start", "finish", "work", "peak")))


@dataclass(frozen=True, slots=True, eq=False)
class Fates:
    """[query], seconds; peak: greatest stretch."""

    arrival: Floats
    start: Floats
    finish: Floats
    work: Floats
    peak: Floats


def assert_same_fates(run: Session, fates: Iterable[SharedFate], tolerance: float = 1e-9) -> None:
    """Of every query, in the compiled loop and its reference."""
    outcome = run.outcome()
    for name in ("start", "finish", "instance", "work", "peak"):
        expected = np.array([getattr(fate, name) for fate in fates])
        np.testing.assert_allclose(getattr(outcome, name), expected, rtol=0, atol=tolerance, err_msg=name)


def shared_service(name: str, policy: Policy, *uses: ComputeUse, slo: float = 1.0) -> Service:
    """Types a and b with a spread; uses: of a, b."""
    return Service(name, system(BASE, AUXILIARY, slo=slo, variation=0.3), policy, dict(zip("ab", uses, strict=False)))


_shares = st.floats(0.05, 1.0)
_coefficients = st.floats(0.0, 0.4)


@st.composite
def compute_uses(draw: st.DrawFn) -> ComputeUse:
    toward = draw(st.dictionaries(st.sampled_from(("s0", "s1", "s2")), _coefficients))
    return ComputeUse(draw(_shares), toward, draw(_coefficients))


@st.composite
def sharing_scenes(draw: st.DrawFn, policy: Policy, *, least: int = 1, one_each: bool = False) -> SharingScene:
    """One to three services s0, s1, s2 with up to 60 queries on up to four GPUs.

    least: services. one_each: one instance of type a each, all on one GPU.
    """
    loads, seats = [], []
    for s in range(draw(st.integers(least, 3))):
        name = f"s{s}"
        service = shared_service(
            name, policy, draw(compute_uses()), draw(compute_uses()), slo=draw(st.floats(0.3, 3.0))
        )
        types = ["a"] if one_each else draw(st.lists(st.sampled_from("ab"), min_size=1, max_size=4))
        gpus = st.just("g0") if one_each else st.sampled_from(("g0", "g1", "g2", "g3"))
        seats += [GpuInstance(name, kind, draw(gpus)) for kind in types]
        rate = draw(st.floats(0.3, 3.0)) * len(types)
        loads.append(
            Offered(
                replace(service, expected=dict.fromkeys("ab", draw(st.sampled_from((1.0, 1.25))))),
                rate,
                draw(st.integers(1, 60)),
                100 * s + draw(st.integers(0, 99)),
            )
        )
    return SharingScene(tuple(loads), tuple(seats))
