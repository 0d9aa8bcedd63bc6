"""Fang's schedulers on the engine send the same queries at the same times as the plain ones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetserve.base.units import Seconds
from hetserve.dispatch.joining import JoiningPolicy, Variant
from hetserve.dispatch.joining import fang as compiled
from hetserve.dispatch.joining.fang_rl import LONGEST_WAIT, by_weights
from hetserve.dispatch.joining.weights import Network, PolicyWeights
from hetserve.profiles import TableProfile
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.variants import VariantSystem
from testing import plain_fang
from testing.plain_fang import PlainServer, Scheduler, Sent

SETTINGS = settings(max_examples=60, deadline=None)


class Case(NamedTuple):
    system: VariantSystem
    counts: dict[str, int]
    arrivals: list[float]
    items: list[int]
    deadlines: list[float]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = [f"type {k}" for k in range(draw(st.integers(1, 3)))]
    variants = [Variant("tiny", 57.0, draw(st.sampled_from([0.3, 0.5, 1.0]))), Variant("full", 63.0)]
    seconds = st.floats(0.01, 0.4)

    def profile(largest: int) -> TableProfile:
        sizes = [1 << k for k in range(largest)]
        return TableProfile(tuple(sizes), tuple(Seconds(draw(seconds) * (1 + 0.2 * k)) for k in range(largest)))

    most = st.integers(1, 5)
    profiles = {name: {one.name: profile(draw(most)) for one in variants} for name in names}
    if len(names) > 1 and draw(st.booleans()):
        del profiles[names[0]]["full"]
    system = VariantSystem.of_variants(profiles, variants, slo=0.5, hard=draw(st.sampled_from([0.8, 1.5])))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.003, 0.02, 0.07, 0.4, 1.1]), min_size=1, max_size=60))
    arrivals = np.cumsum(gaps).tolist()
    deadlines = [at + 0.5 - draw(st.sampled_from([0.0, 0.04, 0.3, 0.9])) for at in arrivals]
    largest = int(np.isfinite(system.served.means).any(axis=0).sum())
    items = [draw(st.sampled_from([1, 1, 1, 2, 3, 5])) for _ in arrivals]
    counts = {name: draw(st.integers(1, 2)) for name in names}
    return Case(system, counts, arrivals, [min(each, largest) for each in items], deadlines)


def on_the_engine(case: Case, policy: JoiningPolicy) -> list[Sent]:
    session = Session([Service("it", case.system, policy)])
    types = case.system.workers(case.counts).tolist()
    session.join_all(GpuInstance("it", case.system.types[kind], f"gpu {k}") for k, kind in enumerate(types))
    times = np.array(case.arrivals)
    sizes, half = np.array(case.items) - 1, np.full(len(times), 0.5)
    session.arrive("it", times, sizes, half, slos=np.array(case.deadlines) - times)
    session.until()
    found = session.outcome()
    assert (found.instance >= 0).all()
    batches: dict[tuple[float, int], list[int]] = {}
    for query in range(len(times)):
        batches.setdefault((float(found.start[query]), int(found.instance[query])), []).append(query)
    return sorted(
        Sent(start, instance, int(found.variant[queries[0]]), tuple(queries))
        for (start, instance), queries in batches.items()
    )


def plainly(case: Case, scheduler: Scheduler, longest_wait: float = math.inf) -> list[Sent]:
    model = case.system.model(case.system.predicted)
    types = case.system.workers(case.counts).tolist()
    server = PlainServer(model, types, case.arrivals, case.items, case.deadlines)
    sent = plain_fang.serve(server, scheduler, longest_wait)
    return sorted(one._replace(queries=tuple(sorted(one.queries))) for one in sent)


@SETTINGS
@given(cases())
def test_fixed(case: Case) -> None:
    assert on_the_engine(case, compiled.fixed()) == plainly(case, plain_fang.fixed)


@SETTINGS
@given(cases(), st.floats(0, 1), st.floats(0.2, 2), st.sampled_from([1, 2, 8]), st.sampled_from(["late", "own"]))
def test_the_heuristic(case: Case, alpha: float, beta: float, threshold: int, models: str) -> None:
    scheduler = plain_fang.heuristic(alpha, beta, threshold, own=models == "own")
    assert on_the_engine(case, compiled.heuristic(alpha, beta, threshold, models)) == plainly(case, scheduler)


def _weights(case: Case, seed: int, waits: float) -> PolicyWeights:
    source = np.random.default_rng(seed)
    sizes = (1, 2, 4, 8)
    inputs = PolicyWeights.inputs_of(case.counts)
    bias = source.normal(size=9)
    bias[-1] += waits
    network = Network(source.normal(size=(inputs, 6)), source.normal(size=6), source.normal(size=(6, 9)), bias)
    slo, fleet = case.system.slo, dict(reversed(case.counts.items()))
    return PolicyWeights(fleet, ("full", "tiny"), sizes, 0, network, slo, slo + case.system.grace)


@SETTINGS
@given(cases(), st.integers(0, 2**32 - 1), st.sampled_from([-9.0, 0.0, 9.0]))
def test_the_learned(case: Case, seed: int, waits: float) -> None:
    weights = _weights(case, seed, waits)
    model = case.system.model(case.system.predicted)
    assert model.types == case.system.types
    assert on_the_engine(case, by_weights([weights])) == plainly(case, plain_fang.learned(weights), LONGEST_WAIT)


@SETTINGS
@given(cases(), st.integers(0, 2**32 - 1))
def test_weights_of_another_fleet_leave_it_to_the_heuristic(case: Case, seed: int) -> None:
    first = next(iter(case.counts))
    other = case._replace(counts={**case.counts, first: case.counts[first] + 1})
    assert on_the_engine(case, by_weights([_weights(other, seed, 0.0)])) == on_the_engine(case, compiled.heuristic())


@pytest.mark.parametrize(("setting", "value"), [("alpha", 1.5), ("beta", 0.0), ("threshold", 0.0), ("models", "best")])
def test_a_setting_out_of_range_is_named_with_its_value(setting: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{setting} '?{value}'?: must be"):
        compiled.heuristic(**{setting: value})  # type: ignore[arg-type]
