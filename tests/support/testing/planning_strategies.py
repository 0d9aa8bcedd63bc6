"""Hypothesis strategies of small planning problems, rich in ties and edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from hetserve.base.units import QPS, MiB, MicroDollarsPerHour, MilliCPU, Percent, Seconds
from hetserve.demand import BatchMix
from hetserve.planning import Pool, Problem, ResourceAmounts, TypeOption
from hetserve.planning.flow.programs.program import Margin
from hetserve.profiles import LinearProfile, Spread
from testing.planning import line, min_cost, problem

_NAMES = ("alpha", "beta", "delta", "gamma")
_POOL = "pool"


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


@st.composite
def demands(draw: st.DrawFn) -> ResourceAmounts:
    """Of one instance on the pool: small numbers, so that each resource is sometimes the scarce one."""
    cpu, memory = MilliCPU(draw(st.integers(0, 2))), MiB(draw(st.integers(0, 2)))
    return ResourceAmounts(
        cpu, memory, MiB(draw(st.integers(0, 1))), Percent(draw(st.sampled_from([0, 0, 35, 50, 100])))
    )


@st.composite
def frees(draw: st.DrawFn) -> ResourceAmounts:
    """Of the pool."""
    cpu, memory = MilliCPU(draw(st.sampled_from([6, 3, 1, 0]))), MiB(draw(st.sampled_from([9, 5, 2])))
    gpu = MiB(draw(st.sampled_from([9, 4, 1]))), Percent(draw(st.sampled_from([400, 200, 100, 70, 0])))
    return ResourceAmounts(cpu, memory, *gpu)


@st.composite
def drawing(draw: st.DrawFn, types: Sequence[TypeOption]) -> tuple[TypeOption, ...]:
    """The types, some of which draw on the pool."""
    return tuple(replace(o, demand=draw(demands()), pool=draw(st.sampled_from([None, _POOL, _POOL]))) for o in types)


@st.composite
def pooled(draw: st.DrawFn, problems: st.SearchStrategy[Problem]) -> Problem:
    """The same with a pool that is often short of one resource."""
    given = draw(problems)
    return replace(given, types=draw(drawing(given.types)), pools=(Pool(_POOL, draw(frees())),))


@st.composite
def flow_types(draw: st.DrawFn, name: str, *, counted: bool) -> TypeOption:
    """With or without a spread, sometimes drawing on the pool; counted: at most four instances."""
    most = draw(st.sampled_from([4, 4, 3, 3, 2, 1, 0] + [None, None] * (not counted)))
    variation = draw(st.sampled_from([0.1, 0.3, 0.02, 0.0]))
    profile = replace(draw(lines()), max_batch=draw(st.sampled_from([None, None, None, 10])))
    return TypeOption(
        name,
        MicroDollarsPerHour(draw(st.integers(1, 9)) * 10_000),
        replace(profile, variation=Spread.of_variation(variation) if variation else None),
        max_instances=most,
        min_instances=min(draw(st.sampled_from([0, 0, 0, 0, 1])), 4 if most is None else most),
        running=draw(st.integers(0, 2)),
        launch_time=Seconds(draw(st.sampled_from([0.0, 30.0, 3600.0]))),
        demand=draw(demands()),
        pool=draw(st.sampled_from([None, None, _POOL])),
    )


@st.composite
def flow_problems(draw: st.DrawFn, *, counted: bool = False, largest: int = 4) -> Problem:
    """One to four types and one to six batches under a budget; at most some hundreds of configurations."""
    names = _NAMES[: draw(st.integers(1, largest))]
    types = [draw(flow_types(name, counted=counted or len(names) > 2)) for name in names]
    batches = draw(st.lists(st.integers(1, 20), min_size=draw(st.integers(1, 4)), max_size=6, unique=True))
    slowest = types[0].profile.mean(min(max(batches), types[0].profile.max_batch or 20)) or 0.1
    return problem(
        types,
        mix=BatchMix.of((batch, draw(st.integers(1, 20))) for batch in batches),
        slo_ms=slowest * 1e3 * draw(st.sampled_from([1.8, 1.3, 2.2, 3.0, 1.05, 1.0, 0.8])),
        percentile=draw(st.sampled_from([90.0, 60.0, 99.0, 99.9])),
        budget=draw(st.integers(8, 25)) * 10_000,
        pools=(Pool(_POOL, draw(frees())),),
    )


@st.composite
def flow_cost_problems(draw: st.DrawFn) -> Problem:
    """The same for a load, from a tenth of an instance to more than the limits allow; sometimes under a budget."""
    given = draw(flow_problems(counted=True))
    slowest = given.slo.latency
    return replace(
        given,
        objective="MinCost",
        load=QPS(draw(st.integers(1, 40)) / (10 * slowest)),
        launch_weight=draw(st.sampled_from([0.0, 1 / 3600, 0.01])),
        budget=draw(st.none() | st.just(given.budget)),
    )


@st.composite
def totalled(draw: st.DrawFn, problems: st.SearchStrategy[Problem]) -> Problem:
    """The same with bounds on the instances of all types together, that often bind and sometimes cannot be kept."""
    given, least = draw(problems), draw(st.sampled_from([0, 0, 1, 2, 3, 5]))
    most = draw(st.none() | st.integers(max(least, 1), max(least, 1) + 4))
    return replace(given, least_total=least, most_total=most)


@st.composite
def margins(draw: st.DrawFn) -> Margin:
    """As the planner keeps them in hand, and nothing in hand."""
    return Margin(
        saturation=draw(st.sampled_from([1.0, 1.0, 0.8, 0.3])),
        wait=draw(st.sampled_from([0.0, 0.1, 0.3])),
        late=draw(st.sampled_from([0.2, 0.5, 1.0])),
        most_late=draw(st.sampled_from([0.1, 1.0])),
    )
