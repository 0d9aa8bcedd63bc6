"""Promise: the load twin plays a trace against the pods that are Ready, and Prometheus has its demand from it."""

from __future__ import annotations

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.dashboards import dashboard_queries
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until

RATE = 16.0


def a_service(sandbox: Sandbox, slo: str = "350ms") -> None:
    """100 ms a query, and room for two instances."""
    sandbox.nodes("gpu", count=2, gpus=1)
    kind = sandbox.instance_type("gpu")
    sandbox.profile("m", kind)
    sandbox.service("svc", "m", [kind], {"spec.slo.latency": slo})


def test_queries_go_to_the_pods_that_are_ready(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    mine = f'namespace="{namespace}",service="svc"'
    demand = f'sum(rate(hetserve_requests_total{{{mine},outcome="received"}}[10s]))'
    ended = f'sum(rate(hetserve_requests_total{{{mine},outcome=~"served|dropped"}}[10s]))'
    attainment = f'sum(rate(hetserve_request_duration_seconds_bucket{{{mine},le="0.35"}}[10s])) / {ended}'

    def pods_that_served(number: int) -> dict[str, float] | Unmet:
        counts = twin.requests(namespace, "svc")
        pods = [name for name, count in counts.items() if name.startswith("svc") and count > 5]
        return counts if len(pods) == number else Unmet(counts)

    def reached(promql: str, low: float, high: float) -> float | Unmet:
        value = prometheus.value(promql)
        return value if value is not None and low <= value <= high else Unmet(value)

    with Sandbox.cleared(cluster, namespace) as sandbox:
        a_service(sandbox)
        twin.play({(namespace, "svc"): [(0, RATE)]}, timeout="2s")
        sandbox.ready("svc")
        counts = wait_until(lambda: pods_that_served(1), limits.ROLLOUT, "one pod to serve")
        assert counts["received"] >= sum(count for name, count in counts.items() if name.startswith("svc"))
        # One instance carries 10/s.
        wait_until(lambda: reached(demand, 0.6 * RATE, 1.4 * RATE), limits.REACTION, "Prometheus to see the demand")
        wait_until(lambda: reached(attainment, 0.0, 0.7), limits.REACTION, "Prometheus to see that it is too much")

        sandbox.edit("svc", {"spec": {"load": {"expectedQPS": RATE}}})
        sandbox.ready("svc")
        wait_until(lambda: pods_that_served(2), limits.ROLLOUT, "both pods to serve")
        wait_until(lambda: reached(attainment, 0.9, 1.1), limits.REACTION, "the SLO to be kept")
        busy = f'DCGM_FI_DEV_GPU_UTIL{{modelName="{sandbox.product("gpu")}"}}'
        assert [sample.value > 0 for sample in prometheus.query(busy)] == [True, True]
        shown = [query for query in dashboard_queries() if "DCGM" in query]
        assert len(shown) == 3
        assert [query for query in shown if not prometheus.query(query)] == [], "a dashboard shows none of it"
        items = f'sum(increase(hetserve_request_batch_size_bucket{{{mine},le="1.0"}}[10s]))'
        assert prometheus.value(items) == pytest.approx(10 * RATE, rel=0.5)


def test_a_service_without_a_pod_has_its_demand_all_the_same(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    mine = f'namespace="{namespace}",service="svc"'
    with Sandbox.cleared(cluster, namespace) as sandbox:
        a_service(sandbox, slo="1ms")  # no type keeps it: nothing runs
        twin.play({(namespace, "svc"): [(0, RATE)]}, timeout="2s")

        def seen() -> bool | Unmet:
            rates = [
                prometheus.value(f'sum(rate(hetserve_requests_total{{{mine},outcome="{outcome}"}}[10s]))')
                for outcome in ("received", "dropped", "served")
            ]
            received, dropped, served = rates
            if received is None or dropped is None:
                return Unmet(rates)
            return (received > 0.6 * RATE and dropped > 0.6 * RATE and served == 0) or Unmet(rates)

        wait_until(seen, limits.ROLLOUT, "arrivals and drops to be counted while nothing is Ready")
