"""Promise: a service follows the load that Prometheus measures, and nothing shrinks while it cannot be measured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.cluster import Cluster
from harness.kube import Manifest
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Trace, Twin
from harness.waiting import Unmet, always, wait_until
from hetserve.demand.windows import LEAST_COVER

CALM, BUSY, LITTLE = 24.0, 48.0, 10.0
"""Queries/s of the loads."""
SATURATION = 0.6
SLO = 0.35
"""Seconds."""
PER_INSTANCE = 10
"""Queries/s that an instance carries: 100 ms a query."""
WINDOW = STALE_AFTER = 5
DOWN_WINDOW = 10
FALLS = 8
"""Seconds after which a load falls that is not seen in full."""
SCALING = {
    "saturation": f"{SATURATION}",
    "scaleUp": {"stabilizationWindow": "2s"},
    "scaleDown": {"stabilizationWindow": f"{DOWN_WINDOW}s"},
}


def least(load: float) -> int:
    """Instances that use at most the saturation."""
    return -int(-load // (PER_INSTANCE * SATURATION))


def rise(begin: float, seconds: int, low: float, high: float) -> Trace:
    """From one rate to the other, a little more each second."""
    return [(begin + second, low + (high - low) * second / seconds) for second in range(1, seconds + 1)]


class Follower:
    """A service on one type, which is launched in two seconds, and its load."""

    def __init__(self, sandbox: Sandbox, prometheus: Prometheus, twin: Twin) -> None:
        self.sandbox, self.prometheus, self.twin = sandbox, prometheus, twin
        self.key = (sandbox.namespace, "svc")
        sandbox.nodes("gpu", count=12, gpus=1)
        self.kind = sandbox.instance_type("gpu", overrides={"spec.launchTime": "2s"})
        sandbox.play_launch_times()
        sandbox.profile("m", self.kind)

    def begin(self, **spec: Any) -> None:
        """Applies it; spec: fields beside those of measuring and scaling."""
        metrics = {"source": "Hetserve", "window": f"{WINDOW}s", "staleAfter": f"{STALE_AFTER}s"}
        given = {"load": {"expectedQPS": CALM}, "metrics": metrics, "scaling": SCALING} | spec
        self.sandbox.service("svc", "m", [self.kind], {f"spec.{name}": value for name, value in given.items()})

    def play(self, trace: Trace) -> None:
        self.twin.play({self.key: trace}, timeout="2s")

    def status(self) -> Manifest:
        status: Manifest = self.sandbox.kube.get("inferenceservices", "svc", self.sandbox.namespace)["status"]
        return status

    def condition(self, kind: str) -> str:
        """Its status; Absent: it is not there."""
        found = {c["type"]: c["status"] for c in self.status().get("conditions", ())}
        return str(found.get(kind, "Absent"))

    def deployments(self) -> list[Manifest]:
        return self.sandbox.kube.list("deployments", self.sandbox.namespace)

    def instances(self) -> int:
        return sum(deployment["spec"]["replicas"] for deployment in self.deployments())

    def revision(self) -> str:
        """Of its only Deployment."""
        (deployment,) = self.deployments()
        return str(deployment["metadata"]["resourceVersion"])

    def instances_since(self, revision: str) -> list[int]:
        """After each write of its only Deployment since a revision, and as it was then; nothing is missed."""
        return list(self._written(revision))

    def _written(self, revision: str) -> Iterator[int]:
        for event, deployment in self.sandbox.kube.watch("deployments", self.sandbox.namespace, revision, 1):
            assert event == "MODIFIED", event
            yield deployment["spec"]["replicas"]

    def reaches(self, low: int, high: int, timeout: float, what: str) -> None:
        """Waits until there are so many instances and the service is Ready."""

        def there() -> bool | Unmet:
            seen = self.instances(), self.condition("Ready")
            return (low <= seen[0] <= high and seen[1] == "True") or Unmet((seen, self.told()))

        wait_until(there, timeout, what)

    def becomes(self, kind: str, status: str, timeout: float) -> None:
        def there() -> bool | Unmet:
            return self.condition(kind) == status or Unmet(self.status().get("conditions"))

        wait_until(there, timeout, f"{kind} to be {status}")

    def sees(self, load: float, timeout: float) -> None:
        """Waits until Prometheus has this rate over its window, up to the noise of what arrives."""
        mine = 'namespace="{}",service="{}"'.format(*self.key)
        rate = f'sum(rate(hetserve_requests_total{{{mine},outcome="received"}}[{WINDOW}s]))'

        def measured() -> bool | Unmet:
            value = self.prometheus.value(rate)
            return (value is not None and abs(value - load) <= 0.35 * load) or Unmet(value)

        wait_until(measured, timeout, f"{load:g} queries/s to be measured")

    def told(self) -> list[tuple[str, str, str, str]]:
        """(action, reason, from, to) of the last decisions, the newest first."""
        keys = ("action", "reason", "from", "to")
        entries = self.status().get("lastDecisions", ())
        return [(entry[keys[0]], entry[keys[1]], entry[keys[2]], entry[keys[3]]) for entry in entries]


def test_a_load_that_doubles_is_carried_and_one_that_falls_gives_instances_back(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower(sandbox, prometheus, twin)
        follower.begin()
        sandbox.ready("svc")
        follower.play([(0, CALM), *rise(8, 20, CALM, BUSY), (45, LITTLE)])
        begun = time.monotonic()
        follower.reaches(least(BUSY), least(BUSY) + 3, 45, "instances for twice the load")
        most = follower.instances()
        print(f"{most} instances after {time.monotonic() - begun:.1f} s; {follower.told()}")
        ups = {reason for action, reason, _, _ in follower.told() if action == "ScaleUp"}
        assert ups
        assert ups <= {"LoadAboveCapacity", "TrendAboveCapacity"}

        follower.reaches(least(LITTLE), least(LITTLE) + 1, 60, "fewer instances for a third of the load")
        after = time.monotonic() - begun
        print(f"{follower.instances()} instances after {after:.1f} s; {follower.told()}")
        assert after > 45 + DOWN_WINDOW
        assert ("ScaleDown", "LoadFitsOnLess") in {entry[:2] for entry in follower.told()}
        ended, in_time = twin.ended(*follower.key, SLO)
        print(f"{in_time} of {ended} queries in time")
        assert ended > 20 * CALM + 10 * BUSY
        assert in_time >= 0.98 * ended


@pytest.mark.parametrize("way", ["stopped", "frozen"])
def test_nothing_is_removed_while_prometheus_is_away_and_what_it_missed_is_made_good(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, way: str
) -> None:
    away, back = (prometheus.stop, prometheus.start) if way == "stopped" else (prometheus.freeze, prometheus.thaw)
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower(sandbox, prometheus, twin)
        follower.begin()
        sandbox.ready("svc")
        # What is last seen is a load that has fallen, and would give instances back a few seconds later.
        follower.play([(0, CALM), (FALLS, LITTLE), *rise(FALLS + 10, 15, LITTLE, BUSY)])
        follower.becomes("ScalingActive", "True", 30)
        follower.sees(LITTLE, FALLS + 20)
        before, told, revision = follower.instances(), follower.told(), follower.revision()
        away()
        gone = time.monotonic()
        follower.becomes("MetricsAvailable", "False", 4 * STALE_AFTER)
        follower.becomes("ScalingActive", "False", 5)
        passed = time.monotonic() - gone
        always(lambda: follower.instances() >= before, 5 * STALE_AFTER - passed, "what runs")
        assert follower.condition("MetricsAvailable") == "False"
        assert follower.told() == told

        back()
        follower.becomes("MetricsAvailable", "True", 20)
        follower.reaches(least(BUSY), least(BUSY) + 3, 30, "instances for twice the load")
        decisions, written = follower.told()[: -len(told)], follower.instances_since(revision)
        print(f"{way}: {before} instances, then {written}; {decisions}")
        assert decisions[-1][:2] == ("ScaleUp", "LoadAboveCapacity")
        assert written == sorted(written)
        assert min(written) >= before


def test_a_prometheus_without_its_data_shrinks_nothing_until_the_window_is_covered(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower(sandbox, prometheus, twin)
        follower.begin()
        sandbox.ready("svc")
        follower.play([(0, CALM), (FALLS, LITTLE)])
        follower.becomes("ScalingActive", "True", 30)
        follower.sees(LITTLE, FALLS + 20)
        before, revision = follower.instances(), follower.revision()
        # Of the higher load nothing is left: every sample that there is shows the lower one.
        prometheus.stop()
        restarted = datetime.now(UTC)
        prometheus.start(empty=True)
        follower.becomes("MetricsAvailable", "False", 15)
        follower.becomes("MetricsAvailable", "True", 20)
        follower.reaches(least(LITTLE), least(LITTLE) + 1, 40, "fewer instances once the window is covered")
        written, told = follower.instances_since(revision), follower.told()
        print(f"{before} instances, then {written}; {told}")
        first = [entry for entry in follower.status()["lastDecisions"] if entry["action"] == "ScaleDown"][-1]
        waited = (datetime.fromisoformat(first["time"]) - restarted).total_seconds()
        print(f"the first of them was removed {waited:.1f} s after the restart")
        assert waited >= LEAST_COVER * DOWN_WINDOW


def test_a_service_that_advises_writes_no_deployment(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower(sandbox, prometheus, twin)

        def advised(load: float) -> Manifest | Unmet:
            status = follower.status()
            advice: Manifest = status.get("advice", {})
            count = int(advice.get("summary", "0x").partition("x")[0])
            measured = "as measured" in advice.get("message", "") or "throughout" in advice.get("message", "")
            return advice if measured and least(load) <= count <= least(load) + 3 else Unmet(status)

        follower.begin(mode="Advise")
        follower.play([(0, CALM)])
        print(wait_until(lambda: advised(CALM), 30, "advice for a service that does not run"))
        assert follower.deployments() == []
        assert follower.condition("ScalingActive") == "False"

        sandbox.edit("svc", {"spec": {"mode": "Apply"}})
        sandbox.ready("svc")
        assert "advice" not in follower.status()
        before, revision = follower.instances(), follower.revision()
        sandbox.edit("svc", {"spec": {"mode": "Advise"}})
        follower.becomes("ScalingActive", "False", 15)
        follower.play([(0, BUSY)])
        print(wait_until(lambda: advised(BUSY), 30, "advice for twice the load"))
        assert set(follower.instances_since(revision)) <= {before}
        assert follower.instances() == before
