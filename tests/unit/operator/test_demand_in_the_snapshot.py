"""What a step is told of a service's load, and what the operator exports of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hetserve.api.kinds import INFERENCE_SERVICE
from hetserve.base.units import QPS
from hetserve.demand.observed import Demand, Freshness, RateSample, ShareSample, Trouble
from hetserve.planning.inputs import PlanSettings
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.main import Operator
from hetserve_operator.memory import Memory
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.settings import OperatorSettings
from hetserve_operator.watch.cache import Cache
from hetserve_operator.watch.observe import Observer
from hetserve_operator.workqueue import Key
from testing.builders import service
from testing.kit.apiserver import FakeApiServer

KEY = Key("default", "rm2")
METRICS = {"spec.metrics": {"source": "Hetserve"}}


def stored(overrides: dict[str, Any]) -> FakeApiServer:
    api = FakeApiServer()
    api.put(INFERENCE_SERVICE.path(*KEY), service("rm2", overrides))
    return api


async def demand_of(overrides: dict[str, Any]) -> Demand | None:
    """In the snapshot of a service with these fields."""
    api, cache = stored(overrides), Cache()
    book = DemandCache(lambda: 0.0, lambda _key: None, configured=True)
    observer = Observer(api, cache, PlanSettings(), lambda: datetime(2026, 1, 1, tzinfo=UTC), demand=book.demand)
    await observer.relist()
    book.follow(cache.wanted())
    assert set(cache.wanted()) == ({KEY} if "spec.metrics" in overrides else set())
    return (await observer.snapshot(KEY, Memory(), 0.0)).demand


async def test_a_snapshot_holds_what_is_known_of_the_load() -> None:
    found = await demand_of(METRICS)

    assert found is not None
    assert (found.freshness, found.trouble) == (Freshness.MISSING, Trouble.NOT_ASKED)


async def test_a_service_without_metrics_has_none() -> None:
    assert await demand_of({}) is None


async def test_an_operator_without_prometheus_says_so() -> None:
    operator = Operator(OperatorSettings(), stored(METRICS))
    await operator.observer.relist()

    found = (await operator.observer.snapshot(KEY, Memory(), 0.0)).demand

    assert found is not None
    assert found.trouble is Trouble.NOT_CONFIGURED


async def test_an_edit_of_what_is_measured_asks_prometheus_before_its_turn() -> None:
    api = stored(METRICS)
    operator = Operator(OperatorSettings(), api)
    asked: list[None] = []
    operator.poller.soon = lambda: asked.append(None)  # type: ignore[method-assign]
    await operator.observer.relist()
    assert len(asked) == 1
    api.put(INFERENCE_SERVICE.path(*KEY), service("rm2", {**METRICS, "spec.budget.hourly": "3"}))
    await operator.observer.relist()
    assert len(asked) == 1
    api.put(INFERENCE_SERVICE.path(*KEY), service("rm2", {"spec.metrics": {"source": "Hetserve", "window": "5m"}}))
    await operator.observer.relist()
    assert len(asked) == 2


def figures(metrics: OperatorMetrics) -> dict[str, float]:
    text = asyncio.run(metrics.text()).decode()
    lines = [line for line in text.splitlines() if line.startswith("hetserve_service_demand")]
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_rate_and_age_are_exported_of_services_that_this_leader_exports() -> None:
    metrics = OperatorMetrics()
    fresh = Demand(Freshness.FRESH, now=100.0, samples=(RateSample(92.5, QPS(40.0)),))
    metrics.observe_demand(KEY, fresh)
    assert figures(metrics) == {}

    metrics.observe(KEY, service("rm2"))
    metrics.observe_demand(KEY, fresh)
    assert figures(metrics) == {"hetserve_service_demand_qps": 40.0, "hetserve_service_demand_age_seconds": 7.5}
    metrics.observe_demand(KEY, Demand(Freshness.MISSING))
    assert figures(metrics) == {}, "missing is not zero"


def test_the_newest_attainment_is_exported() -> None:
    metrics, name = OperatorMetrics(), "hetserve_service_attainment_ratio"
    value, labels = metrics.registry.get_sample_value, {"namespace": KEY.namespace, "service": KEY.name}
    rated = Demand(Freshness.FRESH, now=100.0, samples=(RateSample(92.5, QPS(40.0)),))
    metrics.observe(KEY, service("rm2"))
    metrics.observe_demand(KEY, replace(rated, attained=(ShareSample(85.0, 0.9), ShareSample(92.5, 0.0))))
    assert value(name, labels) == 0.0
    metrics.observe_demand(KEY, rated)
    assert value(name, labels) is None, "missing is not zero"
    metrics.observe_demand(KEY, replace(rated, attained=(ShareSample(92.5, 0.97),)))
    assert value(name, labels) == 0.97
    metrics.forget(KEY)
    assert value(name, labels) is None


def test_what_is_exported_of_a_service_ends_with_it_and_is_hidden_under_another_leader() -> None:
    metrics = OperatorMetrics()
    metrics.observe(KEY, service("rm2"))
    metrics.observe_demand(KEY, Demand(Freshness.FRESH, now=100.0, samples=(RateSample(92.5, QPS(40.0)),)))
    shown = figures(metrics)
    metrics.hide()
    assert figures(metrics) == {}
    metrics.show()
    assert figures(metrics) == shown != {}

    metrics.forget(KEY)
    assert figures(metrics) == {}
