"""Promise: a service follows PromQL of its own where that is allowed; a wrong query holds its service, and no other."""

from __future__ import annotations

from pathlib import Path

from harness import limits
from harness.cluster import Cluster
from harness.follower import BUSY, WINDOW, Follower
from harness.kube import Manifest
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, wait_until


def own(namespace: str) -> Manifest:
    """Queries as of a gateway that counts what was answered: a rate, and the latency at the SLO's percentile."""
    mine = f'namespace="{namespace}",service="svc"'
    served = f'hetserve_requests_total{{{mine},outcome="served"}}'
    seconds = f"hetserve_request_duration_seconds_bucket{{{mine}}}"
    return {
        "rate": f"sum(rate({served}[{WINDOW}s]))",
        "latency": f"histogram_quantile(0.99, sum by (le) (rate({seconds}[{WINDOW}s])))",
    }


def measured_by(queries: Manifest) -> Manifest:
    return {"source": "Queries", "window": f"{WINDOW}s", "staleAfter": f"{WINDOW}s", "queries": queries}


def test_a_service_is_scaled_by_its_own_rate_while_a_wrong_query_holds_another(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin(metrics=measured_by(own(namespace)))
        wrong = measured_by({"rate": "sum(rate(hetserve_requests_total[5s])"})
        sandbox.service("wrong", "m", follower.kinds, {"spec.metrics": wrong, "spec.load": {"expectedQPS": 5}})
        sandbox.ready("svc")
        few = follower.instances()
        follower.play([(0, BUSY)])
        assert follower.decides("LoadAboveCapacity", limits.ROLLOUT)["action"] == "ScaleUp"
        follower.serves(lambda count: count > few, "more instances for twice the load")
        assert "LoadAboveCapacity" in follower.replayed(tmp_path)
        assert follower.condition("MetricsAvailable") == "True"

        told = metrics_available(sandbox, "wrong", "False")
        assert "spec.metrics.queries.rate" in told["message"]
        assert sandbox.ready("wrong")


_ALL = '{__name__=~".+"}'
EVERYTHING = " or ".join(f'label_replace({_ALL}, "copy", "{copy}", "", "")' for copy in range(5))


def test_who_asks_for_too_much_is_told_so_and_takes_metrics_from_nobody(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    """Hundreds of series, and a window of 1 s with an hour of history: more points than Prometheus answers."""
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin()
        short = {"source": "Hetserve", "window": "1s", "staleAfter": "10s"}
        asking: dict[str, Manifest] = {
            "all": {"spec.metrics": measured_by({"rate": EVERYTHING})},
            "fine": {"spec.metrics": short, "spec.scaling": {"scaleDown": {"stabilizationWindow": "1h"}}},
            "short": {"spec.metrics": short, "spec.scaling": {"scaleDown": {"stabilizationWindow": "1m"}}},
        }
        for name, fields in asking.items():
            sandbox.service(name, "m", follower.kinds, {"spec.load": {"expectedQPS": 5}, **fields})
        # A Prometheus that has just begun has few series yet.
        told = metrics_available(sandbox, "all", "False", says="truncated due to limit")
        assert told["reason"] == "QueryRefused"
        for name in ("fine", "short"):
            told = metrics_available(sandbox, name, "False", but="MetricsUnreachable")
            assert told["reason"] != "QueryRefused"
            assert "resolution" not in told["message"]
        follower.play([(0, BUSY)])
        assert follower.decides("LoadAboveCapacity", limits.ROLLOUT)["action"] == "ScaleUp"
        assert follower.condition("MetricsAvailable") == "True"


def metrics_available(sandbox: Sandbox, name: str, status: str, but: str = "", says: str = "") -> Manifest:
    """The condition, once it has this status, another reason than `but`, and `says` in its message."""

    def told() -> Manifest | Unmet:
        found: Manifest = sandbox.kube.get("inferenceservices", name, sandbox.namespace)["status"]
        said = {one["type"]: one for one in found.get("conditions", ())}.get("MetricsAvailable", {})
        is_it = said.get("status") == status and said["reason"] != but and says in said["message"]
        return said if is_it else Unmet(found)

    return wait_until(told, limits.REACTION, f"MetricsAvailable of {name} to be {status}")
