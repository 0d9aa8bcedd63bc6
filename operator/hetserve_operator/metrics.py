"""Metrics of the operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.registry import Collector

from hetserve.base.units import format_money
from hetserve.demand.observed import Demand
from hetserve.reconcile.snapshot import Request
from hetserve.scaling import Decision
from hetserve.transition.staging import Costs
from hetserve_operator.workqueue import Key


class Hideable(Collector):
    """The metrics of a registry, as long as they are shown."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.shown = True

    def collect(self) -> Iterable[Metric]:
        return self.registry.collect() if self.shown else ()


class OperatorMetrics:
    """The operator's metrics in a registry of their own. Those of services are hidden while another process leads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._services = CollectorRegistry()
        self._shown = Hideable(self._services)
        self.registry.register(self._shown)
        self._counter = partial(Counter, registry=self.registry)
        self._gauge = partial(Gauge, registry=self.registry)
        self._histogram = partial(Histogram, registry=self.registry)
        self._define_work()
        self._define_planning()
        self.leader = self._gauge("hetserve_operator_leader", "1 while this process leads and writes.")
        self._define_demand()
        self._define_services()
        self._known: set[Key] = set()

    def _define_work(self) -> None:
        self.plans = self._counter("hetserve_plans_total", "Plans computed.", ["planner", "feasible"])
        self.writes = self._counter("hetserve_operator_writes_total", "Requests to the API server.", ["kind", "result"])
        self.errors = self._counter(
            "hetserve_operator_errors_total", "Reconcile passes that ended in an error.", ["kind"]
        )
        self.task_failures = self._counter(
            "hetserve_operator_task_failures_total", "Restarts of the operator's tasks.", ["task"]
        )
        self.waiting = self._gauge("hetserve_operator_queue_length", "Services that wait for a reconcile pass.")
        self.seconds = self._histogram("hetserve_operator_reconcile_seconds", "Time of one reconcile pass.")

    def _define_planning(self) -> None:
        self.planning_seconds = self._histogram(
            "hetserve_operator_planning_seconds",
            "Time of one try to plan, by outcome.",
            ["outcome"],
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60),
        )
        self.planning_waiting = self._gauge(
            "hetserve_operator_planning_queue_length", "Problems that wait for a process to plan them."
        )

    def _define_demand(self) -> None:
        self.demand_polls = self._counter(
            "hetserve_operator_demand_polls_total", "Times that Prometheus was asked for demand.", ["source", "result"]
        )
        self.demand_seconds = self._histogram(
            "hetserve_operator_demand_poll_seconds",
            "Time of asking Prometheus for demand and reading its answers.",
            ["source"],
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self.decisions = self._counter(
            "hetserve_scaling_decisions_total", "Changes of plan that the load decided.", ["action", "reason"]
        )

    def _define_services(self) -> None:
        of_service = partial(Gauge, labelnames=["namespace", "service"], registry=self._services)
        self.cost = of_service("hetserve_service_cost_dollars_per_hour", "Price of the plan in force.")
        self.running = of_service(
            "hetserve_service_running_cost_dollars_per_hour", "Cost of all pods, terminating ones too."
        )
        self.overlapping = of_service(
            "hetserve_service_overlapping_cost_dollars_per_hour", "Cost of the pods that the plan does not have."
        )
        self.qps = of_service("hetserve_service_planned_qps", "Bound or capacity of the plan in force.")
        self.ready = of_service("hetserve_service_ready", "1 where the service is Ready.")
        self.demand_qps = of_service("hetserve_service_demand_qps", "Measured load.")
        self.demand_age = of_service("hetserve_service_demand_age_seconds", "Age of the newest sample of the load.")
        self.attainment = of_service(
            "hetserve_service_attainment_ratio", "Measured share of queries within the SLO's latency."
        )
        costs = self.cost, self.running, self.overlapping
        self._of_services = *costs, self.qps, self.ready, self.demand_qps, self.demand_age, self.attainment

    async def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def write(self, request: Request, result: str) -> None:
        """Counts a request by kind and result."""
        self.writes.labels(type(request).__name__, result).inc()

    def observe(self, key: Key, service: Mapping[str, Any]) -> None:
        """Exports a service's status; an unreadable status exports nothing."""
        status = _mapping(service.get("status"))
        plan, conditions = _mapping(status.get("plan")), status.get("conditions")
        found = conditions if isinstance(conditions, list) else []
        ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in map(_mapping, found))
        self.ready.labels(*key).set(ready)
        for gauge, field in ((self.cost, "hourlyCost"), (self.qps, "qps")):
            _set(gauge, key, _figure(plan.get(field)))
        self._known.add(key)

    def observe_costs(self, key: Key, costs: Costs) -> None:
        """Exports what the pods of a service that is exported cost; what is not known is not."""
        if key in self._known:
            for gauge, cost in ((self.running, costs.running), (self.overlapping, costs.overlapping)):
                _set(gauge, key, None if cost is None else float(format_money(cost)))

    def decide(self, decision: Decision) -> None:
        """Counts a change of plan that the load decided, once it is in the status."""
        self.decisions.labels(str(decision.action), str(decision.reason)).inc()

    def observe_demand(self, key: Key, demand: Demand | None) -> None:
        """Exports the measured load of a service that is exported; what is not known is not."""
        if key in self._known:
            _set(self.demand_qps, key, demand.latest.qps if demand and demand.latest else None)
            _set(self.demand_age, key, demand.age if demand else None)
            _set(self.attainment, key, demand.attained[-1].share if demand and demand.attained else None)

    def forget(self, key: Key) -> None:
        """Removes the metrics of a deleted service."""
        if key in self._known:
            self._known.discard(key)
            for gauge in self._of_services:
                gauge.remove(*key)

    def show(self) -> None:
        """Exports the metrics of services again, as they were."""
        self._shown.shown = True

    def hide(self) -> None:
        """Exports no metrics of services: another leader may."""
        self._shown.shown = False


def _set(gauge: Gauge, key: Key, figure: float | None) -> None:
    if figure is None:
        gauge.remove(*key)
    else:
        gauge.labels(*key).set(figure)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _figure(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None
