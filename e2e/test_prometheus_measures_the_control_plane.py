"""Promise of the harness: Prometheus beside the control plane measures it, and its failures can be played."""

from __future__ import annotations

import httpx
import pytest

from harness import limits
from harness.cluster import Cluster
from harness.prometheus import Prometheus, QueryError
from harness.waiting import Unmet, wait_until

OURS = ("hetserve-extender", "hetserve-operator")
MEASURED = {"hetserve-extender": "hetserve_leader", "hetserve-operator": "hetserve_operator_leader"}


def test_what_operator_and_extender_export_is_scraped_each_second(cluster: Cluster, prometheus: Prometheus) -> None:
    prometheus.wait_until_scraped(*OURS)

    def lead() -> bool | Unmet:
        seen = {job: prometheus.value(f'{metric}{{job="{job}"}}') for job, metric in MEASURED.items()}
        return set(seen.values()) == {1} or Unmet(seen)

    # Who makes a Lease leads some seconds later, and may have been scraped before.
    wait_until(lead, limits.REACTION, "extender and operator to say that they lead")

    assert prometheus.scrape_intervals() == {"1s"}
    with pytest.raises(QueryError, match="parse error"):
        prometheus.query("rate(")


def oldest(prometheus: Prometheus) -> float:
    """Time of the first sample that it still has."""
    return min(sample.value for sample in prometheus.query("min_over_time(timestamp(up)[5m:100ms])"))


def test_prometheus_keeps_its_data_when_killed_and_loses_them_with_its_disk(
    cluster: Cluster, prometheus: Prometheus
) -> None:
    prometheus.wait_until_scraped(*OURS)
    before = oldest(prometheus)

    prometheus.kill()
    with pytest.raises(httpx.ConnectError):
        prometheus.query("up")
    prometheus.start()
    prometheus.wait_until_scraped(*OURS)
    assert oldest(prometheus) == before

    prometheus.restart_empty()
    prometheus.wait_until_scraped(*OURS)
    assert oldest(prometheus) > before


def test_a_frozen_prometheus_does_not_answer_and_goes_on_when_thawed(cluster: Cluster, prometheus: Prometheus) -> None:
    prometheus.wait_until_scraped(*OURS)
    prometheus.freeze()
    assert cluster.running("prometheus")
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{prometheus.url}/-/ready", timeout=1.0, trust_env=False)
    prometheus.thaw()
    prometheus.wait_until_scraped(*OURS)


def test_an_exporter_more_is_scraped_with_its_own_labels_until_it_is_forgotten(
    cluster: Cluster, prometheus: Prometheus
) -> None:
    prometheus.scrape("again", cluster.ports.extender_probe, {"namespace": "shop", "state": "overridden"})
    samples = prometheus.query('hetserve_bookings{job="again"}')
    assert {sample.labels["namespace"] for sample in samples} == {"shop"}
    assert {sample.labels["state"] for sample in samples} == {"reserved", "binding", "bound"}
    prometheus.forget("again")

    def gone() -> bool | Unmet:
        left = prometheus.query('up{job="again"}')
        return not left or Unmet([sample.labels for sample in left])

    wait_until(gone, limits.REACTION, "the target to be scraped no more")
