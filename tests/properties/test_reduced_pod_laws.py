"""Whatever is odd about a pod, all of its readers agree: of the whole pod, of the reduced one, of its outline."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api import names
from hetserve.objects.fields import MOST_ITEMS, InvalidObjectError
from hetserve.objects.pod import PodOutline
from hetserve.objects.reduced import reduced_pod
from hetserve.placement.pods.read_ahead import read_ahead
from hetserve.placement.pods.view import PodView, parse_pod, unread_pod
from hetserve.reconcile.cluster.observed import pod_fact
from testing.cluster import gpu_pod

Some = st.SearchStrategy[Any]
MANY = [{"name": "c", "type": "Ready", "resources": {"limits": {"cpu": "1"}}}] * (MOST_ITEMS + 1)
ASKING = [{"name": "c", "resources": {"limits": {names.RESOURCE_GPU: "1"}}}] * (MOST_ITEMS + 1)
PLUGGED = [{"name": "c", "resources": {"limits": {f"{names.NVIDIA}hostdev": "1"}}}] * (MOST_ITEMS + 1)
odd: Some = st.sampled_from(
    (
        *(None, 0, 7, True, "", "x", [], ["x"], {}, {"a": 1}, "4096", "2026-01-01T00:00:00Z"),
        *([{"name": names.QUEUE_GATE}], MANY, MANY[1:], ASKING, ASKING[1:], PLUGGED, [*MANY, *ASKING[:2]]),
        [*MANY, {"resources": 7}],
    )
)
resources: Some = st.fixed_dictionaries(
    {},
    optional={
        names.RESOURCE_GPU_MEMORY: odd,
        names.RESOURCE_GPU: st.sampled_from(("1", "2", 0)),
        names.RESOURCE_GPU_COMPUTE: st.one_of(odd, st.sampled_from(("30", "101", "0.5"))),
        names.RESOURCE_NVIDIA_GPU: odd,
        f"{names.RESOURCE_NVIDIA_MIG}1g.5gb": st.sampled_from(("1", "0", "1e9999999")),
        f"{names.NVIDIA}hostdev": odd,
        "cpu": odd,
    },
)
container: Some = st.fixed_dictionaries(
    {"name": odd},
    optional={
        "restartPolicy": st.sampled_from(("Always", "Never")),
        "resources": st.one_of(odd, st.fixed_dictionaries({}, optional={"limits": resources, "requests": odd})),
    },
)
containers: Some = st.one_of(odd, st.lists(container, max_size=2))
wishes: Some = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        (
            names.ANNOTATION_GPU,
            names.ANNOTATION_GPU_MEMORY,
            names.ANNOTATION_GPU_COMPUTE,
            names.ANNOTATION_GPU_PRODUCT,
            names.ANNOTATION_GPU_UUID_EXCLUDE,
            names.ANNOTATION_ANTI_AFFINITY,
            names.ANNOTATION_PLACEMENT_POLICY,
            "other/annotation",
        ),
        odd,
    ),
)
labels: Some = st.fixed_dictionaries({}, optional={names.LABEL_MODEL: odd, "app": odd})
conditions: Some = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(("Ready", "PodScheduled"))}, optional={"status": odd, "reason": odd}
    ),
    max_size=2,
)
raw_pods: Some = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.one_of(
            odd,
            st.fixed_dictionaries(
                {},
                optional={
                    "name": odd,
                    "uid": odd,
                    "namespace": odd,
                    "creationTimestamp": odd,
                    "deletionTimestamp": odd,
                    "labels": st.one_of(odd, labels),
                    "annotations": st.one_of(odd, wishes),
                    "managedFields": odd,
                },
            ),
        ),
        "spec": st.one_of(
            odd,
            st.fixed_dictionaries(
                {},
                optional={
                    "nodeName": odd,
                    "priority": odd,
                    "schedulerName": odd,
                    "schedulingGates": odd,
                    "containers": containers,
                    "initContainers": containers,
                    "volumes": odd,
                },
            ),
        ),
        "status": st.one_of(
            odd, st.fixed_dictionaries({}, optional={"phase": odd, "conditions": st.one_of(odd, conditions)})
        ),
    },
)


PATHS = (
    ("metadata", "uid"),
    ("metadata", "creationTimestamp"),
    ("metadata", "deletionTimestamp"),
    ("metadata", "namespace"),
    ("metadata", "labels", names.LABEL_MODEL),
    ("metadata", "annotations", names.ANNOTATION_GPU),
    ("metadata", "annotations", names.ANNOTATION_GPU_PRODUCT),
    ("metadata", "annotations", names.ANNOTATION_ANTI_AFFINITY),
    ("spec", "nodeName"),
    ("spec", "priority"),
    ("spec", "schedulerName"),
    ("spec", "schedulingGates"),
    ("spec", "initContainers"),
    ("spec", "containers"),
    ("status", "phase"),
    ("status", "conditions"),
)
EDITS: Some = st.lists(st.tuples(st.sampled_from(PATHS), odd), max_size=2)


def edited(bound: bool, changes: list[Any]) -> dict[str, Any]:
    """A good pod with a few odd fields."""
    where: dict[str, Any] = {"node": "n0", "gpu": "0"} if bound else {"gates": (names.QUEUE_GATE, "other")}
    raw = gpu_pod(created="2026-02-03T04:05:06Z", product="V100", priority=7, unschedulable=True, **where)
    raw["spec"]["volumes"] = raw["metadata"]["managedFields"] = [{"name": "x"}]
    for (*parents, last), value in changes:
        inside = raw
        for part in parents:
            inside = inside.setdefault(part, {})
        inside[last] = value
    return raw


any_pods: Some = st.one_of(raw_pods, st.builds(edited, st.booleans(), EDITS))


def reading(raw: Any) -> Any:
    """What parse_pod makes of an object, its refusal included."""
    try:
        return parse_pod(raw)
    except InvalidObjectError as error:
        return str(error)


@given(raw_pods)
@settings(max_examples=examples(300))
def test_a_reduced_pod_reads_as_the_whole_one(raw: dict[str, Any]) -> None:
    assert reading(reduced_pod(raw)) == reading(raw)


@given(any_pods)
@settings(max_examples=examples(300))
def test_the_outline_of_a_pod_raises_nothing_and_says_what_the_view_says(raw: dict[str, Any]) -> None:
    outline, read = PodOutline(raw), reading(raw)
    known = (outline.node or None, outline.finished, outline.gated, outline.may_have_gpus, outline.revision)
    if isinstance(read, str):
        return
    assert known[:3] == (read.node, read.finished, bool(read.gates))
    assert known[3] or not read.request.needs_gpu
    assert (outline.uid, outline.name) == (read.uid, read.request.name)


@given(any_pods)
@settings(max_examples=examples(300))
def test_placement_and_the_operator_see_one_pod(raw: dict[str, Any]) -> None:
    fact, read = pod_fact(raw), reading(raw)
    if isinstance(read, str) or read.finished:
        assert fact is None or fact.unread is not None or fact.node is None or not unread(raw).holds
        return
    assert fact is not None or read.node is None
    if fact is None or fact.unread is not None:  # the operator reads more: its owner, what it requests of the host
        return
    assert (fact.uid, fact.name, fact.node) == (read.uid, read.request.name, read.node)
    assert (fact.gated, fact.terminating) == (bool(read.gates), read.terminating)
    assert (fact.gpu_memory, fact.gpus_unknown) == (read.request.memory_mib, read.gpus_unknown)


def unread(raw: Any) -> PodView:
    found = unread_pod(raw)
    assert found is not None
    return found


@given(raw_pods)
@settings(max_examples=examples(300))
def test_what_cannot_be_read_or_holds_gpus_concerns_us(raw: dict[str, Any]) -> None:
    """What does not is in no record of the placement log."""
    read = reading(raw)
    if isinstance(read, str) or read.concerns_us:
        assert read_ahead(raw).relevant
    if unread_pod(reduced_pod(raw)) is not None:
        assert unread_pod(reduced_pod(raw)) == unread_pod(raw)


@given(raw_pods)
@settings(max_examples=examples(300))
def test_a_bound_pod_whose_containers_name_no_gpu_never_holds_any(raw: dict[str, Any]) -> None:
    raw = {"metadata": {}, "status": {}} | raw | {"spec": {"nodeName": "n0", "containers": MANY}}
    there = unread_pod(raw)
    assert there is not None
    assert not there.holds


@given(st.booleans(), EDITS)
@example(True, [(("spec", "containers"), MANY)])
@example(True, [(("spec", "initContainers"), MANY)])
@example(True, [(("spec", "containers"), ASKING)])
@example(True, [(("spec", "containers"), [*MANY, *ASKING[:2]])])
@example(True, [(("spec", "containers"), [*MANY, {"resources": 7}]), (("spec", "initContainers"), ASKING)])
@example(True, [(("spec", "schedulingGates"), MANY)])
@example(True, [(("status", "conditions"), MANY)])
@settings(max_examples=examples(300))
def test_a_good_pod_with_a_few_odd_fields_reads_the_same_reduced(bound: bool, changes: list[Any]) -> None:
    raw = edited(bound, changes)
    assert reading(reduced_pod(raw)) == reading(raw)
