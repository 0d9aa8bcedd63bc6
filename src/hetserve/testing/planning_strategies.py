"""Hypothesis strategies of small planning problems, rich in ties and edges."""

from __future__ import annotations

from hypothesis import strategies as st

from hetserve.base.units import MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Problem, TypeOption
from hetserve.profiles import LinearProfile
from hetserve.testing.planning import line, min_cost, problem

_NAMES = ("alpha", "beta", "delta", "gamma")


@st.composite
def mixes(draw: st.DrawFn) -> BatchMix:
    """One to four batches with whole weights."""
    batches = draw(st.lists(st.integers(1, 20), min_size=1, max_size=4, unique=True))
    return BatchMix.of((batch, draw(st.integers(1, 5))) for batch in batches)


@st.composite
def lines(draw: st.DrawFn) -> LinearProfile:
    """1 to 20 ms plus up to 10 ms per item, whole, so that ties happen."""
    return line(draw(st.integers(1, 20)), draw(st.integers(0, 10)), draw(st.none() | st.integers(5, 30)))


@st.composite
def type_options(draw: st.DrawFn, name: str) -> TypeOption:
    """Price in whole cents; sometimes capped, wanted, running or slow to launch."""
    return TypeOption(
        name,
        MicroDollarsPerHour(draw(st.integers(1, 9)) * 10_000),
        draw(lines()),
        max_instances=draw(st.none() | st.integers(0, 4)),
        min_instances=draw(st.sampled_from([0, 0, 0, 0, 0, 1, 2])),
        running=draw(st.integers(0, 2)),
        launch_time=Seconds(draw(st.sampled_from([0.0, 30.0, 3600.0]))),
    )


@st.composite
def throughput_problems(draw: st.DrawFn) -> Problem:
    """One to four types, at most some thousand configurations."""
    names = _NAMES[: draw(st.integers(1, 4))]
    types = tuple(draw(type_options(name)) for name in names)
    return problem(types, mix=draw(mixes()), slo_ms=draw(st.integers(5, 150)), budget=draw(st.integers(1, 25)) * 10_000)


@st.composite
def cost_problems(draw: st.DrawFn) -> Problem:
    """One to three types and few instances."""
    names = _NAMES[: draw(st.integers(1, 3))]
    types = tuple(draw(type_options(name)) for name in names)
    return min_cost(
        types,
        draw(st.integers(1, 300)),
        mix=draw(mixes()),
        slo_ms=draw(st.integers(5, 200)),
        saturation_threshold=draw(st.sampled_from([1.0, 0.8, 0.5])),
        launch_weight=draw(st.sampled_from([0.0, 1 / 3600, 0.01])),
        budget=draw(st.none() | st.integers(1, 60).map(lambda cents: cents * 10_000)),
    )
