"""The loads that scaled services are measured under: counters in closed form, and the page that Prometheus scrapes."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from benchmarks.operator.fleet import BATCHES, QUICK, WINDOW, Fleet
from benchmarks.operator.loads import MINUTE, NOISE, PERIOD, Load, LoadExporter
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
