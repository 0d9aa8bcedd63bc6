"""The loads that scaled services are measured under: counters in closed form, and the page that Prometheus scrapes."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from benchmarks.operator.fleet import BATCHES, QUICK, SLO, WINDOW, Fleet
from benchmarks.operator.following import cost
from benchmarks.operator.loads import ANSWER, MINUTE, NOISE, PERIOD, Load, LoadExporter
from benchmarks.operator.prometheus import Asked, configuration
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from hetserve.api.inference_service import InferenceService
from hetserve.base.units import parse_duration
from hetserve.demand import contract
from hetserve.demand.measured_mix import mix_of_buckets
from hetserve.demand.queries import groups, wanted_of

MOMENTS = st.floats(min_value=0, max_value=3 * PERIOD * MINUTE)
SPREAD = st.floats(min_value=0.1, max_value=100)


def services(count: int = 3) -> list[dict[str, Any]]:
    return Fleet(QUICK, scaled=True).services[:count]


class Page:
    """An exporter's page, read as Prometheus reads it."""

    def __init__(self, exporter: LoadExporter) -> None:
        text = asyncio.run(exporter.text()).decode()
        self.families = {family.name: family for family in text_string_to_metric_families(text)}

    def series(self, name: str, **labels: str) -> dict[tuple[str, str], float]:
        """Values by service."""
        found: dict[tuple[str, str], float] = {}
        for family in self.families.values():
            for one in family.samples:
                if one.name == name and labels.items() <= one.labels.items():
                    key = one.labels[contract.NAMESPACE], one.labels[contract.SERVICE]
                    assert key not in found
                    found[key] = one.value
        return found


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(rate=SPREAD, seed=st.integers(0, 99), one=MOMENTS, other=MOMENTS)
def test_a_counter_never_falls_and_its_rate_is_within_the_noise(
    rate: float, seed: int, one: float, other: float
) -> None:
    load, first, last = Load(rate, (seed,)), min(one, other), max(one, other)
    more = load.arrived(last) - load.arrived(first)
    slack = 1e-6 * load.arrived(last) + 1e-9
    assert (1 - NOISE) * rate * (last - first) - slack <= more <= (1 + NOISE) * rate * (last - first) + slack


def test_the_noise_is_another_one_in_each_minute_and_for_each_seed_and_the_same_again() -> None:
    def rates(seed: int) -> list[float]:
        load = Load(50.0, (1, seed))
        return [load.arrived(MINUTE * (k + 1)) - load.arrived(MINUTE * k) for k in range(PERIOD)]

    assert rates(1) == rates(1)
    assert rates(1) != rates(2)
    assert len(set(rates(1))) == PERIOD
    assert max(rates(1)) / min(rates(1)) > 1 + NOISE


@given(at=MOMENTS, later=st.floats(0, 1000), factor=st.floats(0, 5))
def test_a_step_multiplies_what_arrives_from_then_on_and_nothing_before(at: float, later: float, factor: float) -> None:
    plain, stepped = Load(20.0, (3,)), Load(20.0, (3,))
    stepped.step(at, factor)
    assert stepped.arrived(at) == plain.arrived(at)
    more = plain.arrived(at + later) - plain.arrived(at)
    grown = stepped.arrived(at + later) - stepped.arrived(at)
    assert math.isclose(grown, factor * more, rel_tol=1e-6, abs_tol=1e-3)


def test_nothing_arrives_before_a_load_begins_and_steps_come_in_order() -> None:
    load = Load(10.0, (1,), since=100.0)
    assert load.arrived(100.0) == 0.0
    assert load.arrived(160.0) > 500
    with pytest.raises(ValueError, match=r"at 99\.0: the last step is at 100\.0"):
        load.step(99.0, 2.0)


def test_the_page_has_the_contracts_metrics_with_its_labels_and_zeros_from_the_start() -> None:
    exporter = LoadExporter(clock=Clock())
    exporter.add(services())
    page = Page(exporter)
    names = {contract.DURATION, contract.BATCH_SIZE, contract.IN_FLIGHT, contract.REQUESTS, contract.BUSY}
    assert {family.removesuffix("_total") for family in page.families} == {n.removesuffix("_total") for n in names}
    labels = {
        frozenset(one.labels) - {contract.OUTCOME, contract.BOUND} for f in page.families.values() for one in f.samples
    }
    assert labels == {frozenset(contract.SERVICE_LABELS), frozenset(contract.INSTANCE_LABELS)}
    assert {one.value for family in page.families.values() for one in family.samples} == {0.0}
    for outcome in contract.Outcome:
        assert len(page.series(contract.REQUESTS, outcome=outcome)) == 3


def test_what_arrives_is_served_in_time_a_moment_later() -> None:
    clock, made = Clock(), services()
    exporter = LoadExporter(clock=clock)
    exporter.add(made)
    clock.now += 120.0
    page = Page(exporter)
    received, served = (page.series(contract.REQUESTS, outcome=outcome) for outcome in ("received", "served"))
    slo = contract.bound_label(parse_duration(SLO))
    in_time = page.series(f"{contract.DURATION}_bucket", le=slo)
    assert in_time == served == page.series(f"{contract.DURATION}_bucket", le="+Inf")
    for service in made:
        key, rate = (
            (service["metadata"]["namespace"], service["metadata"]["name"]),
            service["spec"]["load"]["expectedQPS"],
        )
        assert (1 - NOISE) * 120 * rate - 1 <= received[key] <= (1 + NOISE) * 120 * rate
        assert 0 <= received[key] - served[key] <= 2 + (1 + NOISE) * rate * ANSWER


def test_the_declared_mix_is_read_from_the_buckets() -> None:
    clock, (service,) = Clock(), services(1)
    exporter = LoadExporter(clock=clock)
    exporter.add([service])
    clock.now += 3600.0
    page = Page(exporter)
    buckets = {}
    for bound in (*contract.batch_bounds(BATCHES), math.inf):
        (buckets[bound],) = page.series(f"{contract.BATCH_SIZE}_bucket", le=contract.bound_label(bound)).values()
    mix = mix_of_buckets(buckets)
    assert mix is not None
    declared = {one["batch"]: one["weight"] for one in service["spec"]["load"]["batchSizes"]}
    whole = sum(declared.values())
    assert dict(zip(mix.batches, mix.shares, strict=True)) == pytest.approx(
        {b: w / whole for b, w in declared.items()}, abs=1e-3
    )


def test_a_service_that_is_added_begins_with_zeros_and_one_that_is_removed_ends() -> None:
    clock, made = Clock(), services()
    exporter = LoadExporter(clock=clock)
    exporter.add(made[:2])
    clock.now += 60.0
    exporter.add(made[2:])
    keys = [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in made]
    received = Page(exporter).series(contract.REQUESTS, outcome="received")
    assert received[keys[2]] == 0 < received[keys[0]]
    exporter.remove(made[:1])
    assert set(Page(exporter).series(contract.REQUESTS, outcome="received")) == set(keys[1:])


def test_only_the_load_that_steps_changes() -> None:
    clock, made = Clock(), services()
    plain, stepped = LoadExporter(clock=clock), LoadExporter(clock=clock)
    for exporter in (plain, stepped):
        exporter.add(made)
    stepped.step(made[1], 2.0)
    clock.now += 60.0
    before, after = (Page(exporter).series(contract.REQUESTS, outcome="received") for exporter in (plain, stepped))
    keys = [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in made]
    assert [after[key] / before[key] for key in keys] == pytest.approx([1.0, 2.0, 1.0], rel=0.01)


def test_scaled_services_follow_the_contract_with_one_window_and_can_be_read() -> None:
    fleet = Fleet(QUICK, scaled=True)
    read = [InferenceService.model_validate(service) for service in (*fleet.services, *fleet.burst(0))]
    assert all(service.spec.objective == "MinCost" and service.spec.scaling is not None for service in read)
    wanted = [wanted_of(service, str(service.metadata.namespace)) for service in read]
    (group,) = groups(one for one in wanted if one is not None)
    assert group.window == parse_duration(WINDOW)
    assert len({service.spec.load.expected_qps for service in read if service.spec.load}) == len(read)
    budgets = [float(service["spec"]["budget"]["hourly"]) for service in fleet.services]
    edited = fleet.edit(fleet.services[0])["spec"]
    assert set(edited) == {"budget"}
    assert float(edited["budget"]["hourly"]) not in budgets


def test_instances_cost_what_their_types_do() -> None:
    assert cost({"gpu-large": 2, "cpu-small": 1}) == pytest.approx(2 * 3 * 0.33 + 0.149)
    assert cost({}) == 0


def test_prometheus_says_what_it_was_asked_and_other_pages_do_not_count() -> None:
    text = """
# TYPE prometheus_http_requests_total counter
prometheus_http_requests_total{code="200",handler="/api/v1/query"} 4.0
prometheus_http_requests_total{code="400",handler="/api/v1/query_range"} 6.0
prometheus_http_requests_total{code="200",handler="/metrics"} 90.0
# TYPE prometheus_http_response_size_bytes histogram
prometheus_http_response_size_bytes_sum{handler="/api/v1/query_range"} 5000.0
prometheus_http_response_size_bytes_count{handler="/api/v1/query_range"} 6.0
prometheus_http_response_size_bytes_sum{handler="/metrics"} 70000.0
"""
    assert Asked.of(text) == Asked(10, 5000)
    assert Asked.of(text).since(Asked(4, 1000)) == Asked(6, 4000)
    (job,) = configuration(1234)["scrape_configs"]
    assert job["honor_labels"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:1234"]}]
