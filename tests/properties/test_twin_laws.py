"""Laws of the load twin: no query is lost or counted twice, whatever pods and definitions do meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from effort import examples
from hetserve.base.units import Seconds
from hetserve.demand import BatchMix
from hetserve_services.exposition import metrics_text
from hetserve_twin.devices import union_by_group
from hetserve_twin.engine import LoadTwin, TracedLoad, Traffic
from hetserve_twin.twin import TwinCollector
from twin_scene import facts, pod, trace

NAMES = ("s", "t")
PROFILE = {
    "latency": {"linear": {"intercept": "4ms", "slope": "2ms"}},
    "computeShare": "0.6",
    "sharingMode": "TimeSlicing",
}
PODS = [pod(f"{name}{k}", name, ("fast", "slow")[k % 2], str(k % 3)) for name in NAMES for k in range(4)]

changes = st.tuples(
    st.floats(0.01, 3.0),
    st.sets(st.sampled_from(range(len(PODS)))),
    st.sets(st.sampled_from(NAMES)),
    st.sampled_from((1, 3, 8)),
    st.sampled_from((0.02, 0.1)),
)


def declared(names: set[str], batch: int, slo: float) -> list[object]:
    mix = BatchMix.of([(1, 1.0), (batch, 1.0)])
    return [facts(name, mix=mix, slo=Seconds(slo), profile=PROFILE) for name in sorted(names)]


@settings(max_examples=examples(60))
@given(st.lists(changes, min_size=1, max_size=8), st.floats(0.0, 300.0), st.floats(0.1, 4.0), st.integers(0, 9))
def test_every_query_that_arrived_is_served_dropped_or_under_way(
    course: list[tuple[float, set[int], set[str], int, float]], rate: float, timeout: float, seed: int
) -> None:
    loads = {("team", name): TracedLoad(trace((0, rate), (3, rate / 2))) for name in NAMES}
    twin = LoadTwin(loads, seed=seed, timeout=Seconds(timeout))
    before: dict[tuple[str, ...], float] = {}
    for span, ready, there, batch, slo in course:
        twin.declare(declared(there, batch, slo))  # type: ignore[arg-type]
        twin.stand([PODS[k] for k in ready])
        twin.advance(Seconds(twin.now + span))
        for figures in twin.services.values():
            assert figures.received == int(figures.batches.sum())
        received = sum(figures.received for figures in twin.services.values())
        ended = int(twin.instances.served.sum()) + sum(figures.dropped for figures in twin.services.values())
        assert received == ended + twin.in_flight
        counters = exported(twin)
        assert all(counters[key] >= value for key, value in before.items() if key in counters), "a counter fell"
        before = counters


def exported(twin: LoadTwin) -> dict[tuple[str, ...], float]:
    """Counters and buckets without durations, which another SLO counts anew; each series once."""
    found: dict[tuple[str, ...], float] = {}
    text = metrics_text(TwinCollector(twin, list, lambda: 0.0)).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items())))
            assert key not in found, "a series is there twice"
            if family.type in ("counter", "histogram") and "duration" not in sample.name:
                found[key] = sample.value
    return found


@settings(max_examples=examples(40))
@given(st.lists(changes, min_size=1, max_size=6), st.floats(1.0, 200.0))
def test_an_instance_is_busy_for_no_longer_than_it_is_there(
    course: list[tuple[float, set[int], set[str], int, float]], rate: float
) -> None:
    twin = LoadTwin({("team", name): TracedLoad(trace((0, rate))) for name in NAMES})
    for span, ready, _, batch, slo in course:
        twin.declare(declared(set(NAMES), batch, slo))  # type: ignore[arg-type]
        twin.stand([PODS[k] for k in ready])
        before, since = twin.instances.busy.copy(), twin.now
        twin.advance(Seconds(twin.now + span))
        grown = twin.instances.busy[: len(before)] - before
        assert (grown >= -1e-9).all()
        assert (grown <= twin.now - since + 1e-6).all()
        assert all(0 <= percent <= 100 for percent in twin.devices.percent.values())


@given(st.floats(0, 1e4), st.floats(1e-3, 1.0), st.floats(0, 500), st.integers(0, 99))
def test_arrivals_are_in_order_and_within_their_slice(start: float, span: float, rate: float, seed: int) -> None:
    traffic = Traffic(trace((0, rate)), 1.0, np.random.default_rng(seed))
    mix = BatchMix.of([(1, 1.0), (4, 2.0)])
    times, places, draws = traffic.draw(Seconds(start), Seconds(start + span), mix)
    assert (np.diff(times) >= 0).all()
    assert ((times >= start) & (times < start + span)).all()
    assert set(places.tolist()) <= {0, 1}
    assert len(times) == len(places) == len(draws)


intervals = st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 20))


@given(st.lists(intervals, max_size=30))
def test_a_gpu_is_busy_where_any_of_its_instances_is(given_intervals: list[tuple[int, int, int]]) -> None:
    covered: list[set[int]] = [set(), set(), set()]
    for group, start, length in given_intervals:
        covered[group] |= set(range(start, start + length))
    groups, starts, lengths = np.array(given_intervals or np.zeros((0, 3), int)).T
    found = union_by_group(groups.astype(np.int64), starts.astype(float), (starts + lengths).astype(float), 3)
    assert found.tolist() == pytest.approx([len(ticks) for ticks in covered])
