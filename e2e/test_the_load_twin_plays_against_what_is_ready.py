"""Promise: the load twin plays a trace against the pods that are Ready, and Prometheus has its demand from it."""

from __future__ import annotations

import math

from harness import limits
from harness.cluster import Cluster
from harness.dashboards import dashboard_queries
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until
from hetserve.demand.answers import Series
from hetserve.demand.grouped import buckets_by_service
from hetserve.demand.measured_mix import LEAST_QUERIES, mix_of_buckets
from hetserve.demand.queries import mix_query

RATE = 16.0
ITEMS = 3


def test_queries_are_dropped_while_no_pod_is_ready_and_go_to_each_that_is(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    mine = f'namespace="{namespace}",service="svc"'

    def rate(outcomes: str) -> float:
        return prometheus.value(f'sum(rate(hetserve_requests_total{{{mine},outcome=~"{outcomes}"}}[5s]))') or 0.0

    def none_is_served() -> bool | Unmet:
        seen = rate("received"), rate("dropped"), twin.requests(namespace, "svc")
        return (seen[0] > 0 and seen[1] > 0 and seen[2].keys() == {"received", "dropped"}) or Unmet(seen)

    def both_serve() -> bool | Unmet:
        counts = twin.requests(namespace, "svc")
        pods = [name for name, count in counts.items() if name.startswith("svc") and count > 5]
        return (len(pods) == 2 and rate("served") > 0) or Unmet(counts)

    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=2, gpus=1)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        # No type keeps this SLO: nothing runs.
        sandbox.service("svc", "m", [kind], {"spec.slo.latency": "1ms", "spec.load": {"expectedQPS": RATE}})
        twin.play({(namespace, "svc"): [(0, RATE)]}, batches=f"normal:{ITEMS},0.1", timeout="2s")
        wait_until(none_is_served, limits.ROLLOUT, "arrivals and drops to be counted while nothing is Ready")
        sandbox.edit("svc", {"spec": {"slo": {"latency": "350ms"}}})
        sandbox.ready("svc")
        wait_until(both_serve, limits.ROLLOUT, "both pods to serve")
        counts = twin.requests(namespace, "svc")
        assert counts["received"] >= sum(count for name, count in counts.items() if name.startswith("svc"))

        busy = f'DCGM_FI_DEV_GPU_UTIL{{modelName="{sandbox.product("gpu")}"}}'
        assert [sample.value > 0 for sample in prometheus.query(busy)] == [True, True]
        shown = [query for query in dashboard_queries() if "DCGM" in query]
        assert len(shown) == 3
        assert [query for query in shown if not prometheus.query(query)] == [], "a dashboard shows none of it"
        wait_until(
            lambda: is_told(prometheus, namespace), limits.REACTION, "the operator's own query to tell the sizes"
        )


def is_told(prometheus: Prometheus, namespace: str) -> bool | Unmet:
    """Whether the operator's query for the mix, read as by the operator, says what is played."""
    answer = [Series(dict(one.labels), [(one.time, one.value)]) for one in prometheus.query(mix_query().promql)]
    buckets = buckets_by_service(answer).get((namespace, "svc"), {})
    enough = buckets.get(math.inf, 0) >= LEAST_QUERIES
    return (enough and mix_of_buckets(buckets).batches == (ITEMS,)) or Unmet(buckets)
