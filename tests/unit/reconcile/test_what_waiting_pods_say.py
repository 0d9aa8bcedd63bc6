"""Since when pods wait, and for what.

Scarcity of a type counts no time at a gate, and no wait for another model.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hetserve.reconcile.cluster.observed import PodFact, pod_fact
from hetserve.reconcile.plans.autoscaled import waiting_times
from hetserve.reconcile.snapshot import ServiceSnapshot

Json = dict[str, Any]
CREATED, REFUSED, LATER = (f"2026-11-23T13:{minute}:00Z" for minute in ("00", "05", "06"))
NOW = datetime(2026, 11, 23, 13, 10, tzinfo=UTC)
FULL = "0/2 nodes are available: 2 no GPU with 4096 MiB free; the most free on any eligible GPU is 12 MiB."
SAME = "0/2 nodes are available: 1 node(s) had untolerated taint {team: free}, 1 same model on every GPU."


def waiting(
    message: str = FULL, time: str | None = None, *entries: Json, generation: int | None = None, **spec: Any
) -> PodFact:
    labels = {"hetserve.io/instance-type": "t4"}
    metadata = {"name": "p", "namespace": "default", "uid": "u", "creationTimestamp": CREATED, "labels": labels}
    raw: Json = {"metadata": {**metadata, "managedFields": list(entries)}, "spec": {"containers": [], **spec}}
    if generation is not None:
        raw["metadata"]["generation"] = generation
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": time}
    raw["status"] = {"conditions": [{**scheduled, "message": message}]}
    found = pod_fact(raw)
    assert found is not None
    return found


def wrote(time: str, condition: str = "PodScheduled", subresource: str = "status") -> Json:
    fields: Json = {"f:status": {"f:conditions": {f'k:{{"type":"{condition}"}}': {"f:message": {}}}}}
    return {"manager": "kube-scheduler", "subresource": subresource, "time": time, "fieldsV1": fields}


def seconds(*pods: PodFact) -> dict[str, float]:
    return dict(waiting_times(ServiceSnapshot(None, NOW, pods=pods)))


def test_a_pod_waits_from_its_first_refusal_on() -> None:
    changed = wrote(LATER)

    assert seconds(waiting(FULL, REFUSED)) == {"t4": 300.0}
    assert seconds(waiting(FULL, REFUSED, changed)) == {"t4": 300.0}, "other words are no other wait"
    assert seconds(waiting(FULL, REFUSED, changed, generation=1)) == {"t4": 300.0}


def test_a_pod_that_was_gated_waits_from_when_the_scheduler_first_looked_for_a_place() -> None:
    written = wrote(REFUSED), wrote(LATER, "Ready"), wrote(LATER, subresource="")

    assert seconds(waiting(FULL, CREATED, *written, generation=2)) == {"t4": 300.0}


@pytest.mark.parametrize(
    "odd",
    ["odd", None, 3, {"subresource": "status", "fieldsV1": 3}, {**wrote("soon")}, {**wrote("")}, {"fieldsV1": {}}],
)
def test_an_entry_that_cannot_be_read_lets_no_time_at_a_gate_count(odd: Any) -> None:
    for entries in ((odd, wrote(REFUSED)), (wrote(REFUSED), odd)):
        assert seconds(waiting(FULL, CREATED, *entries, generation=2)) == {"t4": 300.0}


@pytest.mark.parametrize(
    "entries", [(), ({"subresource": "status"},), ("odd",), ({"subresource": "status", "fieldsV1": 3},)]
)
def test_where_nothing_says_since_when_it_is_the_creation(entries: tuple[Any, ...]) -> None:
    assert seconds(waiting(FULL, None, *entries, generation=2)) == {"t4": 600.0}
    assert seconds(waiting(FULL, None)) == {"t4": 600.0}
    assert seconds(waiting(FULL, "soon")) == {"t4": 600.0}


def test_the_pod_that_has_waited_longest_counts() -> None:
    assert seconds(waiting(FULL, LATER), waiting(FULL, REFUSED)) == {"t4": 300.0}


def test_neither_a_gate_nor_the_same_model_is_a_lack_of_room() -> None:
    assert seconds(waiting(FULL, REFUSED, schedulingGates=[{"name": "example.com/gate"}])) == {}
    assert seconds(waiting(SAME, REFUSED)) == {}
    assert seconds(waiting(SAME.replace("1 node(s)", "1 Insufficient cpu, 1 node(s)"), REFUSED)) == {"t4": 300.0}
