"""Laws of what is taken for a service's load, over scrapes with faults and over nonsense."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hetserve.base.units import Seconds
from hetserve.demand.answers import Points, Series
from hetserve.demand.observed import Demand, Freshness
from hetserve.demand.queries import MetricsQuerySpec, OwnQueries, Part, RangeQuery, group_queries, groups
from hetserve.demand.reading import PrometheusSamples, aged, read_demand
from measured_demand import WANTED
from scrapes import over, rate, stamp

NOW = 10_003.0
REQUESTED = replace(WANTED, down_window=Seconds(120.0))
(GROUP,) = groups([REQUESTED])
QUERIES = group_queries(GROUP)
JUNK = st.floats(allow_nan=True, allow_infinity=True)


@st.composite
def scrapes(draw: st.DrawFn) -> list[tuple[float, float]]:
    """A counter of 100/s, scraped each 15 s with jitter, loss, outages, a beginning and an end."""
    begin, end = sorted((draw(st.floats(9_000, NOW)), draw(st.floats(9_000, NOW))))
    lost = draw(st.sets(st.integers(0, 70), max_size=30))
    times = [9_000 + 15 * k + draw(st.floats(0, 2)) for k in range(67) if k not in lost]
    return [(at, 100 * at) for at in times if begin <= at <= end]


def answered(found: list[tuple[float, float]], look_back: float) -> PrometheusSamples:
    asked = {part: query for part, query in QUERIES.items() if isinstance(query, RangeQuery)}
    points = {
        part: over(
            *asked[part].moments(NOW),
            asked[part].step,
            lambda at, part=part: rate(found, at, 60.0) if part is Part.RATE else stamp(found, at, look_back),  # type: ignore[misc]
        )
        for part in (Part.RATE, Part.SAMPLED_AT)
    }
    return PrometheusSamples(NOW, [Series({}, points[Part.RATE])] if points[Part.RATE] else [], points[Part.SAMPLED_AT])


def moved(points: Points, by: float) -> Points:
    return [(at + by, value) for at, value in points]


@given(scrapes(), st.sampled_from([15.0, 300.0]))
def test_a_steady_load_is_never_read_as_far_less_whatever_is_lost(
    found: list[tuple[float, float]], look_back: float
) -> None:
    demand = read_demand(REQUESTED, answered(found, look_back), NOW)

    assert all(50 < sample.qps < 150 for sample in demand.samples)


@given(scrapes(), st.sampled_from([15.0, 300.0]))
def test_samples_are_taken_when_the_source_was_and_in_order(found: list[tuple[float, float]], look_back: float) -> None:
    demand = read_demand(REQUESTED, answered(found, look_back), NOW)

    times = [sample.at for sample in demand.samples]
    assert times == sorted(set(times))
    assert set(times) <= {at for at, _ in found}
    assert (demand.freshness is Freshness.MISSING) == (not times)
    assert (demand.freshness is Freshness.FRESH) == (bool(times) and NOW - times[-1] <= 120)


@given(scrapes(), st.integers(-9_000, 1_000_000))
def test_only_differences_of_time_count(found: list[tuple[float, float]], by: int) -> None:
    here = answered(found, 300.0)
    there = replace(
        here,
        last=here.last + by,
        rate=[Series({}, moved(series.points, by)) for series in here.rate],
        sampled_at=[(at + by, at_source + by) for at, at_source in here.sampled_at or ()],
    )
    one, other = read_demand(REQUESTED, here, NOW), read_demand(REQUESTED, there, NOW + by)

    assert one.freshness is other.freshness
    assert [round(s.at + by, 3) for s in one.samples] == [round(s.at, 3) for s in other.samples]


@given(scrapes(), st.lists(st.floats(0, 500), max_size=5))
def test_time_alone_never_makes_demand_fresher(found: list[tuple[float, float]], passing: list[float]) -> None:
    demand = read_demand(REQUESTED, answered(found, 300.0), NOW)
    seen: list[Demand] = [demand]
    for seconds in passing:
        seen.append(aged(seen[-1], Seconds(seconds), REQUESTED.stale_after, "away"))

    order = [one.freshness is Freshness.FRESH for one in seen]
    assert order == sorted(order, reverse=True)
    assert all(one.samples == demand.samples for one in seen)


junk_points = st.lists(
    st.tuples(st.integers(600, 670).map(lambda k: 15.0 * k), JUNK), max_size=30, unique_by=lambda p: p[0]
)
sorted_points = junk_points.map(sorted)


@given(
    st.sampled_from([REQUESTED, replace(REQUESTED, own=OwnQueries("x", "y", "z"))]),
    st.lists(sorted_points, max_size=2),
    st.none() | sorted_points,
    sorted_points,
    sorted_points,
    st.none() | st.lists(sorted_points, max_size=2),
    st.none() | st.dictionaries(st.floats(allow_nan=False), JUNK, max_size=8),
)
def test_nonsense_is_no_fresh_load_and_raises_nothing(
    wanted: MetricsQuerySpec,
    rates: list[Points],
    stamps: Points | None,
    ended: Points,
    in_time: Points,
    latency: list[Points] | None,
    buckets: dict[float, float] | None,
) -> None:
    found = PrometheusSamples(
        NOW,
        [Series({}, points) for points in rates],
        stamps,
        ended,
        {0.35: in_time},
        None if latency is None else [Series({}, points) for points in latency],
        buckets,
    )
    demand = read_demand(wanted, found, NOW)

    assert all(math.isfinite(sample.qps) and sample.qps >= 0 for sample in demand.samples)
    assert all(0 <= sample.share <= 1 for sample in demand.attained)
    assert bool(demand.why) == (demand.freshness is not Freshness.FRESH)
    assert demand.freshness is not Freshness.FRESH or demand.samples
