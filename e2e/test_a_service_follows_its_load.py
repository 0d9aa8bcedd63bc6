"""Promise: a service follows the load that Prometheus measures, and nothing shrinks while it cannot be measured."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.follower import BUSY, CALM, DOWN_WINDOW, LITTLE, STALE_AFTER, WINDOW, Follower, least, patient, rise
from harness.kube import Manifest
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Twin
from harness.waiting import Unmet, always, wait_until
from hetserve.demand.windows import LEAST_COVER

SLO = 0.35
"""Seconds."""
DROPS = 40
"""Seconds after which a load falls that has doubled before."""
FALLS, PATIENCE = 12, 20
"""Seconds after which a load falls that is lost from sight, and for which it must fit on less before anything goes.

What is seen goes before the patience is over, by more than any machine needs to notice it.
"""


@pytest.mark.timeout(limits.LONG_TEST)
def test_a_load_that_doubles_is_carried_and_one_that_falls_gives_instances_back(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin()
        sandbox.ready("svc")
        follower.play([(0, CALM), *rise(4, 12, CALM, BUSY), (DROPS, LITTLE)])
        begun = time.monotonic()
        follower.reaches(least(BUSY), least(BUSY) + 3, DROPS, "instances for twice the load")
        most = follower.instances()
        print(f"{most} instances after {time.monotonic() - begun:.1f} s; {follower.told()}")
        ups = {reason for action, reason, _, _ in follower.told() if action == "ScaleUp"}
        assert ups
        assert ups <= {"LoadAboveCapacity", "TrendAboveCapacity"}

        follower.reaches(least(LITTLE), least(LITTLE) + 1, limits.ROLLOUT, "fewer instances for a third of the load")
        after = time.monotonic() - begun
        print(f"{follower.instances()} instances after {after:.1f} s; {follower.told()}")
        assert after > DROPS + DOWN_WINDOW
        assert ("ScaleDown", "LoadFitsOnLess") in {entry[:2] for entry in follower.told()}
        ended, in_time = twin.ended(*follower.key, SLO)
        print(f"{in_time} of {ended} queries in time")
        assert ended > 20 * CALM + 10 * BUSY
        assert in_time >= 0.98 * ended
        assert {"LoadFitsOnLess", *ups} <= set(follower.replayed(tmp_path))
        assert "mix" not in follower.status()["plan"], "the sizes are as declared"


def test_nothing_is_removed_while_prometheus_is_away_and_what_it_missed_is_made_good(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin(scaling=patient(PATIENCE))
        sandbox.ready("svc")
        # What is last seen is a load that has fallen, and would give instances back a few seconds later.
        follower.play([(0, CALM), (FALLS, LITTLE), *rise(FALLS + 18, 10, LITTLE, BUSY)])
        follower.becomes("ScalingActive", "True", limits.REACTION)
        follower.sees(LITTLE, FALLS + 20)
        fell = time.monotonic()
        before, told, mark = follower.instances(), follower.told(), follower.mark()
        assert before > least(LITTLE) + 1, "there is something to give back"
        prometheus.stop()
        follower.becomes("MetricsAvailable", "False", 4 * STALE_AFTER)
        follower.becomes("ScalingActive", "False", limits.ANSWER)
        passed = time.monotonic() - fell
        print(f"nothing is measured any more {passed:.1f} s after the load fell; {follower.told()}")
        always(
            lambda: follower.instances() >= before or Unmet(follower.told()),
            PATIENCE + 2 * WINDOW - passed,
            "what runs",
        )
        assert follower.condition("MetricsAvailable") == "False"
        assert follower.told() == told

        prometheus.start()
        follower.becomes("MetricsAvailable", "True", limits.REACTION)
        follower.reaches(least(BUSY), least(BUSY) + 3, limits.REACTION, "instances for twice the load")
        decisions, written = follower.told()[: -len(told)], follower.totals_since(mark)
        print(f"{written} instances; {decisions}")
        assert decisions[-1][:2] == ("ScaleUp", "LoadAboveCapacity")
        assert written == sorted(written)
        assert min(written) >= before


def test_a_prometheus_without_its_data_shrinks_nothing_until_the_window_is_covered(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)
        follower.begin(scaling=patient(PATIENCE))
        sandbox.ready("svc")
        follower.play([(0, CALM), (FALLS, LITTLE)])
        follower.becomes("ScalingActive", "True", limits.REACTION)
        follower.sees(LITTLE, FALLS + 20)
        told, mark = follower.told(), follower.mark()
        # Of the higher load nothing is left: every sample that there is shows the lower one.
        prometheus.stop()
        restarted = datetime.now(UTC)
        prometheus.start(empty=True)
        follower.becomes("MetricsAvailable", "False", limits.REACTION)
        follower.becomes("MetricsAvailable", "True", limits.REACTION)
        follower.reaches(least(LITTLE), least(LITTLE) + 1, 30 + PATIENCE, "fewer instances once the window is covered")
        print(f"{follower.totals_since(mark)} instances; {follower.told()}")
        first = follower.status()["lastDecisions"][-len(told) - 1]
        assert first["action"] == "ScaleDown"
        waited = (datetime.fromisoformat(first["time"]) - restarted).total_seconds()
        print(f"the first of them was removed {waited:.1f} s after the restart")
        assert waited >= LEAST_COVER * PATIENCE


def test_a_service_that_advises_writes_no_deployment(
    cluster: Cluster, prometheus: Prometheus, twin: Twin, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus, twin)

        def advised(load: float) -> Manifest | Unmet:
            status = follower.status()
            advice: Manifest = status.get("advice", {})
            count = int(advice.get("summary", "0x").partition("x")[0])
            measured = "as measured" in advice.get("message", "") or "throughout" in advice.get("message", "")
            return advice if measured and least(load) <= count <= least(load) + 3 else Unmet(status)

        # Advice that only digits would change stays as it is, so what is expected is not what is measured.
        follower.begin(mode="Advise", load={"expectedQPS": LITTLE})
        follower.play([(0, CALM)])
        print(wait_until(lambda: advised(CALM), limits.REACTION, "advice for a service that does not run"))
        assert follower.deployments() == []
        assert follower.condition("ScalingActive") == "False"

        sandbox.edit("svc", {"spec": {"mode": "Apply"}})
        sandbox.ready("svc")
        assert "advice" not in follower.status()
        sandbox.edit("svc", {"spec": {"mode": "Advise"}})
        follower.becomes("ScalingActive", "False", limits.REACTION)
        before, mark = follower.instances(), follower.mark()
        follower.play([(0, BUSY)])
        print(wait_until(lambda: advised(BUSY), limits.REACTION, "advice for twice the load"))
        assert follower.totals_since(mark) == [before]
        assert follower.instances() == before
