"""Laws of whose a pod is, and of who holds a field, for any chain of owners and any list of managers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deep_objects import nested
from hetserve.api import names
from hetserve.objects.metadata import OwnerReference as Owner
from hetserve.reconcile.cluster.observed import PodFact
from hetserve.reconcile.deployments.build import deployment_name
from hetserve.reconcile.deployments.diff import handed_over
from hetserve.reconcile.deployments.ownership import sort_pods

Json = dict[str, Any]
TYPE = "t4"
NAME = deployment_name("svc", TYPE)


def deployment(uid: str, owner: Owner | None) -> Json:
    meta: Json = {"name": NAME, "uid": uid, "annotations": {names.ANNOTATION_APPLIED: "x/1"}}
    return {"metadata": meta | _owned(owner), "spec": {"selector": {"matchLabels": {names.LABEL_INSTANCE_TYPE: TYPE}}}}


def replica_set(uid: str, owner: Owner | None) -> Json:
    return {"metadata": {"name": f"{NAME}-{uid}", "uid": uid} | _owned(owner)}


def _owned(owner: Owner | None) -> Json:
    return {} if owner is None else {"ownerReferences": [{**owner._asdict(), "controller": True}]}


SERVICE_OWNERS = st.sampled_from(
    [None, Owner("InferenceService", "svc", "s"), Owner("InferenceService", "other", "o"), Owner("Rollout", "svc", "r")]
)
DEPLOYMENTS = st.dictionaries(st.sampled_from(["d1", "d2"]), SERVICE_OWNERS)
CONTROLLERS = st.one_of(
    st.none(),
    st.builds(
        Owner, st.sampled_from(["Deployment", "Rollout"]), st.sampled_from([NAME, "x"]), st.sampled_from(["d1", "d2"])
    ),
)
SETS = st.dictionaries(st.sampled_from(["r1", "r2", "r3"]), CONTROLLERS)
POD_OWNERS = st.one_of(
    st.none(),
    st.builds(
        Owner,
        st.sampled_from(["ReplicaSet", "Job"]),
        st.sampled_from([f"{NAME}-r1", "x-r1"]),
        st.sampled_from(["r1", "r2", "r3", "gone"]),
    ),
)
PODS = st.lists(POD_OWNERS, max_size=8)
Sorted = tuple[tuple[PodFact, ...], tuple[PodFact, ...]]


def sort(deployments: Json, sets: Json, owners: Sequence[Owner | None], seed: int | None = None) -> Sorted:
    pods = [PodFact(str(i), "ns", str(i), owner=owner, instance_type=TYPE) for i, owner in enumerate(owners)]
    made = [deployment(*item) for item in deployments.items()]
    between = [replica_set(*item) for item in sets.items()]
    if seed is not None:
        for several in (pods, made, between):
            Random(seed).shuffle(several)  # noqa: S311  (a test's order)
    return sort_pods("svc", made, between, pods)


@given(DEPLOYMENTS, SETS, PODS, st.integers(0, 99))
def test_every_pod_is_the_services_or_a_strangers_in_whatever_order_they_are_listed(
    deployments: Json, sets: Json, owners: list[Owner | None], seed: int
) -> None:
    own, foreign_pods = sort(deployments, sets, owners)
    assert sorted(p.uid for p in (*own, *foreign_pods)) == sorted(str(i) for i in range(len(owners)))
    again = sort(deployments, sets, owners, seed)
    assert [set(part) for part in again] == [set(own), set(foreign_pods)]


@given(DEPLOYMENTS, SETS, PODS)
def test_a_pod_counts_only_by_a_chain_to_the_service_or_to_what_is_gone(
    deployments: Json, sets: Json, owners: list[Owner | None]
) -> None:
    own, _ = sort(deployments, sets, owners)
    for pod in own:
        assert pod.owner is not None
        assert pod.owner.kind == "ReplicaSet", "nobody's pod counts"
        between = sets.get(pod.owner.uid)
        if between is not None and between.uid in deployments:
            end = deployments[between.uid]
            assert end is None or (end.kind, end.name) == ("InferenceService", "svc")
            assert not pod.terminating
        else:
            assert pod.terminating, "what a deleted owner left has no future, and its successor comes on top of it"
            assert pod.owner.uid not in sets or between is not None, "a ReplicaSet that nobody controls is a stranger's"


FIELDS: st.SearchStrategy[Json] = st.recursive(
    st.just({}), lambda children: st.dictionaries(st.sampled_from(["f:a", "f:b", "k:c", "."]), children), max_leaves=12
)
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {
            "manager": st.sampled_from([names.FIELD_MANAGER, "kubectl"]),
            "operation": st.sampled_from(["Apply", "Update"]),
            "fieldsV1": FIELDS,
        },
        optional={"subresource": st.sampled_from(["status", "scale"])},
    ),
    max_size=5,
)


def paths(tree: Json, prefix: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    return {prefix}.union(*(paths(child, (*prefix, key)) for key, child in tree.items()))


@given(ENTRIES)
def test_handing_over_loses_no_field_touches_no_other_manager_and_is_done_once(entries: list[Json]) -> None:
    raw = {"metadata": {"managedFields": entries}}
    ours = [e for e in entries if e["manager"] == names.FIELD_MANAGER and "subresource" not in e]
    held = handed_over(raw)
    if held is None:
        assert all(e["operation"] == "Apply" for e in ours)
        return
    assert held[1:] == [e for e in entries if e not in ours]
    assert (held[0]["manager"], held[0]["operation"]) == (names.FIELD_MANAGER, "Apply")
    assert paths(held[0]["fieldsV1"]) == set().union(*(paths(e["fieldsV1"]) for e in ours))
    assert handed_over({"metadata": {"managedFields": held}}) is None


def test_managed_fields_that_somebody_nested_too_deeply_are_left_out() -> None:
    """They can be neither walked nor sent."""
    deep = json.loads(nested(600))
    entries = [
        {"manager": names.FIELD_MANAGER, "operation": "Update", "fieldsV1": {"f:spec": {}}},
        {"manager": names.FIELD_MANAGER, "operation": "Update", "fieldsV1": deep},
        {"manager": "other", "operation": "Update", "fieldsV1": deep},
    ]
    held = handed_over({"metadata": {"managedFields": entries}})
    assert held == [{**entries[0], "operation": "Apply"}]
