"""Laws of the address of a service: one write makes it what it should be, and what is not ours is left alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api.inference_service import InferenceService
from hetserve.api.names import LABEL_SERVICE
from hetserve.reconcile.deployments.address import PORTS, address_difference, correction, desired_address
from hetserve.reconcile.snapshot import RouterFact, ServiceSnapshot, WriteAddress
from testing.builders import service
from testing.kit.deployments import copied
from testing.kit.patches import merged

Json = dict[str, Any]
HOSTS = ("r.hetserve-system.svc.cluster.local", "example.com")
OWNERS: list[list[Json]] = [
    [],
    [{"kind": "InferenceService", "uid": "u", "controller": True}],
    [{"kind": "Other", "uid": "x"}],
    [{"kind": "InferenceService", "uid": "older", "controller": True}],
]


def owned(owners: list[Json]) -> list[Json]:
    return [{"apiVersion": "v1", "name": "s", **one} for one in owners]


some = st.sampled_from
ports = st.lists(some([*PORTS, {"port": 81}]), max_size=3)
specs = st.fixed_dictionaries(
    {"type": some(["ExternalName", "ClusterIP"])},
    optional={
        "externalName": some(HOSTS),
        "ports": ports,
        "selector": some([{}, {"app": "a"}]),
        "externalIPs": some([[], ["192.0.2.1"]]),
        "sessionAffinity": some(["None", "ClientIP"]),
    },
)
metadatas = st.fixed_dictionaries(
    {"ownerReferences": some(OWNERS).map(owned)},
    optional={"labels": st.dictionaries(some([LABEL_SERVICE, "team"]), some(["s", "t"]))},
)
addresses = st.none() | st.builds(
    lambda meta, spec: {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default", "uid": "of-it", "resourceVersion": "7", **meta},
        "spec": spec,
    },
    metadatas,
    specs,
)
dispatches = some([None, {"ports": {"http": 8000}}])
routers = some([None, *(RouterFact("r", host) for host in HOSTS)])


def written(request: WriteAddress) -> Json | None:
    """What the API server stores."""
    if request.wanted is None:
        return None
    if request.found is None:
        return copied(request.wanted)
    stored: Json = merged(copied(dict(request.found)), correction(request.found, request.wanted))
    return stored


@given(addresses, dispatches, routers)
@settings(max_examples=examples(200))
def test_one_write_makes_an_address_what_it_should_be_and_no_stranger_is_written(
    found: Json | None, dispatch: Json | None, router: RouterFact | None
) -> None:
    raw = service("s", {"metadata.uid": "u", **({} if dispatch is None else {"spec.dispatch": dispatch})})
    declared = InferenceService.model_validate(raw)
    snapshot = ServiceSnapshot(raw, datetime(2026, 1, 1, tzinfo=UTC), router=router, address=found)
    request = address_difference(snapshot, declared)
    if found is not None and all(one["uid"] != "u" for one in found["metadata"]["ownerReferences"]):
        assert request is None
        return
    stored = found if request is None else written(request)
    assert address_difference(replace(snapshot, address=stored), declared) is None
    wanted = desired_address(declared, router)
    assert (stored is None) == (wanted is None)
    if stored is not None and wanted is not None:
        assert stored["spec"].items() >= wanted["spec"].items()
        assert not stored["spec"].get("selector")
        assert not stored["spec"].get("externalIPs")
        assert stored["metadata"]["labels"][LABEL_SERVICE] == "s"
