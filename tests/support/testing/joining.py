"""Small and random services whose queries are joined, and stories of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from hetserve.base.units import Seconds
from hetserve.dispatch import make_policy
from hetserve.dispatch.joining import JoiningPolicy, Variant, make_joining_policy
from hetserve.dispatch.joining.interface import BY_ARRIVAL
from hetserve.profiles import LatencyProfile, Spread, TableProfile
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.serving.system import System
from hetserve.serving.variants import VariantSystem
from testing.dispatching import system
from testing.plain_serving import PlainServing

FATES: Final = ("arrival", "start", "finish", "instance", "work", "peak", "variant", "joined")
NAME: Final = "s"
_PAIRED: Final = "paired"


def policies() -> tuple[JoiningPolicy, ...]:
    """Every registered one, with settings that small scenes tell apart."""
    return (
        *(make_joining_policy(name) for name in ("max-batch", "max-accuracy", "slackfit", "infaas", "rate-fit")),
        make_joining_policy("slackfit", buckets=3),
        make_joining_policy("clipper", variant="v0"),
        make_joining_policy("infaas", least=72.0),
        make_joining_policy("coarse", interval=0.5, headroom=1.5),
        make_joining_policy("rate-fit", share=1.5, window=2.0, horizon=2.0, longest=3.0),
        *(make_joining_policy(name) for name in ("fang-fixed", "fang", "fang-rl")),
        make_joining_policy("fang", alpha=0.75, beta=2.0, threshold=2, models="own"),
    )


@dataclass(frozen=True, slots=True)
class JoiningStep:
    at: float
    what: str
    number: int
    seat: GpuInstance


@dataclass(frozen=True, slots=True, eq=False)
class JoiningStory:
    """queries: (arrival, items, SLO) in seconds. paired: arrivals at a service whose queries are not joined."""

    services: tuple[Service, ...]
    seats: tuple[GpuInstance, ...]
    queries: tuple[tuple[float, int, float], ...]
    paired: tuple[float, ...]
    steps: tuple[JoiningStep, ...]

    @property
    def service(self) -> Service:
        return self.services[0]


_eighths = st.integers(1, 32).map(lambda n: n / 8)


@st.composite
def variant_systems(draw: st.DrawFn) -> VariantSystem:
    """One to three types; each serves some of one to four variants, up to some size; v0 is served by all."""
    variants = [Variant(f"v{k}", draw(st.sampled_from((70.0, 75.0, 80.0)))) for k in range(draw(st.integers(1, 4)))]
    variants[-1] = replace(variants[-1], accuracy=80.0)
    spread = Spread.of_variation(0.3) if draw(st.booleans()) else None
    profiles: dict[str, dict[str, LatencyProfile]] = {}
    for name in "abc"[: draw(st.integers(1, 3))]:
        for one in variants:
            if name == "a" or one.name == "v0" or draw(st.booleans()):
                means = draw(st.lists(_eighths, min_size=2, max_size=6))
                table = TableProfile(
                    tuple(range(1, len(means) + 1)), tuple(map(Seconds, means)), (spread,) * len(means)
                )
                profiles.setdefault(name, {})[one.name] = table
    slo = draw(_eighths)
    hard = slo + draw(st.sampled_from((0.0, 1.0)))
    switches = {name: draw(st.sampled_from((0.0, 0.5))) for name in profiles}
    return VariantSystem.of_variants(profiles, variants, slo, hard=hard, switches=switches)


@st.composite
def joining_stories(draw: st.DrawFn, *some: JoiningPolicy) -> JoiningStory:
    made = draw(variant_systems())
    policy = draw(st.sampled_from(some or policies()))
    policy = replace(policy, drops=draw(st.booleans()))
    if draw(st.booleans()):
        policy = replace(policy, order=BY_ARRIVAL)
    uses = {name: ComputeUse(draw(st.sampled_from((0.25, 0.75, 1.0))), otherwise=0.25) for name in made.types}
    service = Service(NAME, made, policy, uses, {made.types[0]: draw(st.sampled_from((1.0, 1.25)))})
    other = Service(_PAIRED, system(), make_policy("hetserve"))
    gpus = st.sampled_from(("g0", "g1", "g2"))
    seats = st.builds(GpuInstance, st.just(NAME), st.sampled_from(made.types), gpus)
    moments = st.integers(0, 48).map(lambda n: n / 8)
    slos = st.sampled_from((made.slo, 2 * made.slo))
    items = st.integers(1, min(made.served.means.shape[1], 3))
    paired = draw(st.lists(moments, max_size=5))
    steps = st.builds(
        JoiningStep,
        moments,
        st.sampled_from(("drain", "lose", "requeue", "join", "copy")),
        st.integers(0, 4),
        seats,
    )
    return JoiningStory(
        (service, other) if paired else (service,),
        (*draw(st.lists(seats, min_size=1, max_size=4)), *([GpuInstance(_PAIRED, "a", "g0")] if paired else [])),
        tuple(draw(st.lists(st.tuples(moments, items, slos), min_size=1, max_size=25))),
        tuple(paired),
        tuple(sorted(draw(st.lists(steps, max_size=3)), key=lambda step: step.at)),
    )


def told(story: JoiningStory, kind: type[Session] | type[PlainServing] = Session) -> Session | PlainServing:
    """The run after all of the story, with nothing forgotten."""
    run = kind(story.services)
    for seat in story.seats:
        run.join(seat)
    offer(run, story.queries)
    if story.paired:
        times = np.array(story.paired)
        run.arrive(_PAIRED, times, np.zeros(len(times), np.int64), np.full(len(times), 0.5))
    for step in story.steps:
        run.until(step.at)
        run = _after(step, run, len(story.seats))
    run.until()
    return run


def _after(step: JoiningStep, run: Session | PlainServing, seats: int) -> Session | PlainServing:
    if step.what == "join":
        run.join(step.seat)
    elif step.what == "copy":
        aside, run = run, run.copy()
        aside.until()
    elif step.number < seats:
        if step.what == "drain":
            run.drain(step.number)
        else:
            run.fail(step.number, requeue=step.what == "requeue")
    return run


def offer(run: Session | PlainServing, queries: Sequence[tuple[float, int, float]]) -> range:
    """Draws depend on the place alone."""
    times, items, slos = (np.array(column) for column in zip(*queries, strict=True))
    draws = np.random.default_rng(1).uniform(size=len(times))
    return run.arrive(NAME, times, items.astype(np.int64) - 1, draws, slos)


def fates(run: Session | PlainServing) -> dict[str, Any]:
    """[query] of each fate."""
    if isinstance(run, PlainServing):
        return {name: np.array([getattr(query, name) for query in run.queries], np.float64) for name in FATES}
    outcome: Outcomes = run.outcome()
    return {name: getattr(outcome, name).astype(np.float64) for name in FATES}


def accuracy(made: System, outcome: Outcomes) -> float:
    """Mean percent of the queries in time; nan: none is."""
    assert isinstance(made, VariantSystem)
    percent = np.array([one.accuracy for one in made.variants])
    return float(percent[outcome.variant[~outcome.late]].mean()) if not outcome.late.all() else float("nan")
