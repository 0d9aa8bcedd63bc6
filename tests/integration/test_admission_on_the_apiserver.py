"""The chart's admission policies on a real API server: what they refuse, in which words, and what they let pass."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pytest

from admission_requests import (
    DISPATCH,
    GPU,
    GROUPS,
    HELD,
    INHERITING,
    LOCKS,
    NODE,
    PLAIN,
    PODDER,
    REPORTER,
    ROUTERS,
    ROWS,
    SHARING,
    SPACE,
    STAND_IN,
    TENANT,
    TERMS,
    V100,
    Row,
    address,
    annotate,
    deployment,
    pod,
    service,
    template,
    variable,
    with_env,
    with_metadata,
)
from harness import limits
from harness.chart import chart_objects
from harness.cluster import Cluster
from harness.kube import APPLY, MERGE, ApiError, Manifest
from harness.nodes import INSTANCE_TYPE_LABEL
from harness.waiting import Unmet, wait_until
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer


def send(cluster: Cluster, row: Row) -> None:
    """The row's request as its user. Raises ApiError with the API server's words."""
    headers = {"Impersonate-User": row.who, "Content-Type": row.media}
    if groups := GROUPS.get(row.who):
        headers["Impersonate-Group"] = groups[0]
    content = json.dumps(row.body).replace("UID", cluster.get("nodes", NODE)["metadata"]["uid"])
    params = {"dryRun": "All"} | ({"fieldManager": "test"} if row.media == APPLY else {})
    cluster.kube.request(row.method, row.path, content=content, params=params, headers=headers)


def everything(user: str, role: str) -> Manifest:
    """Binding of a role in the namespace."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    metadata = {"name": user, "namespace": SPACE}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
    return {**kind, "metadata": metadata, "roleRef": reference, "subjects": [subject]}


WRITERS: Final = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "locked-writers"},
    "rules": [{"apiGroups": [names.GROUP], "resources": ["inferenceservices"], "verbs": ["*"]}],
}
PODDERS: Final = {
    **WRITERS,
    "metadata": {"name": "locked-podders"},
    "rules": [*WRITERS["rules"], {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}],
}


def reporters() -> list[Manifest]:
    """Roles of who writes the status of pods alone, and of who writes that of nodes too."""
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    found: list[Manifest] = []
    for name, user, resources in (
        ("locked-reporters", REPORTER, ["pods/status"]),
        ("locked-stand-ins", STAND_IN, ["pods/status", "nodes/status"]),
    ):
        rules = [{"apiGroups": [""], "resources": resources, "verbs": ["patch"]}]
        found.append({**kind, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        binding = {**kind, "kind": "ClusterRoleBinding", "metadata": {"name": name}}
        found.append({**binding, "roleRef": role, "subjects": [subject]})
    return found


def from_before(cluster: Cluster) -> None:
    """What a cluster holds when the chart with the policies comes: they would refuse some of it."""
    held = {"annotations": HELD, "labels": {names.LABEL_FENCE: "before"}}
    cluster.apply(
        [
            with_metadata(pod("held", nodeName=NODE), **held),
            with_metadata(with_env(variable(value="all")), name="round"),
            pod("waiting", scheduler="nobody"),
            with_metadata(pod("pairing", scheduler="nobody"), annotations={SHARING: TERMS}),
            pod("gated", schedulingGates=[{"name": names.QUEUE_GATE}]),
            pod("foreign", ours=False, scheduler="nobody"),
            pod("ended", scheduler="nobody"),
            with_metadata(
                pod("led", ours=False, scheduler="nobody"),
                labels={"tier": "a", "hetserve.io/leads.hetserve-router-default": "true"},
            ),
        ]
    )
    cluster.kube.patch("pods", "ended", {"status": {"phase": "Failed"}}, SPACE, subresource="status")
    fenced = deployment("", {names.LABEL_FENCE: "before"}).body
    cluster.apply(with_metadata(fenced, name="fenced"))
    (owner,) = cluster.apply(service("", {**template("before"), **DISPATCH}, name="before").body)
    theirs = with_metadata(address("theirs"), ownerReferences=[])
    cluster.apply([address("before", uid=owner["metadata"]["uid"], externalName="example.com"), theirs])


@pytest.fixture(scope="module")
def inhabited(bare_cluster: Cluster) -> Iterator[Cluster]:
    """A tenant's namespace with a node of two GPUs, before there is a policy."""
    cluster = bare_cluster
    cluster.add_nodes(V100)
    cluster.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    wait_until(
        lambda: cluster.kube.find("serviceaccounts", "default", SPACE) is not None,
        limits.REACTION,
        "the default account",
    )
    cluster.apply([WRITERS, *(everything(who, "cluster-admin") for who in (TENANT, ROUTERS))])
    cluster.apply([everything(PLAIN, "locked-writers"), *reporters()])
    cluster.apply([PODDERS, everything(PODDER, "locked-podders")])
    from_before(cluster)
    yield cluster
    for kind in ("inferenceservices", "deployments"):
        cluster.kube.delete_all(kind, SPACE)
    for one in cluster.pods(SPACE):
        cluster.kube.delete("pods", one["metadata"]["name"], SPACE, grace=0)
    cluster.kube.delete("namespaces", SPACE)
    for role in ("locked-writers", "locked-podders"):
        cluster.kube.delete("clusterroles", role)
    for document in reporters():
        cluster.kube.delete(document["kind"], document["metadata"]["name"])
    cluster.remove_nodes(V100)


@pytest.fixture(scope="module")
def locked(inhabited: Cluster) -> Iterator[Cluster]:
    """The same with the chart's cluster roles and policies, which go again."""
    allowed = ",".join(f"admission.serviceAccounts[{i}]={a}" for i, a in enumerate(ACCOUNTS))
    routers = 'routers=[{"name": "default", "namespaces": ["*"]}]'
    rendered = chart_objects("--set", allowed, "--set", "components.enabled=false", "--set-json", routers)
    kinds = ("ClusterRole", "ClusterRoleBinding", *LOCKS)
    mine = [d for d in rendered if d and d["kind"] in kinds]
    inhabited.apply(mine)
    probe = [ROWS["a pod is born with it"], ROWS["a binding with a GPU"]]
    probe += [ROWS["a Deployment is born with a fence"], ROWS["a service of who may not"], ROWS["an address of nobody"]]
    probe += [ROWS["a router writes another label"], ROWS["an owner takes the terms away"]]

    def all_refuse() -> bool | Unmet:
        return not (open_ := [row.path for row in probe if refusal(inhabited, row) is None]) or Unmet(open_)

    wait_until(all_refuse, limits.REACTION, "the policies to be in force")
    yield inhabited
    for document in mine:
        inhabited.kube.delete(document["kind"], document["metadata"]["name"])
    wait_until(lambda: refusal(inhabited, probe[0]) is None, limits.REACTION, "the policies to be gone")


ACCOUNTS: Final = ("default", "reader", f"{SPACE}/here", "elsewhere/there")


def refusal(cluster: Cluster, row: Row) -> str | None:
    try:
        send(cluster, row)
    except ApiError as error:
        return error.message
    return None


def next_gpus(cluster: Cluster) -> tuple[str, ...]:
    """GPUs that the next extender, which knows only what the API server says, gives another pod like `held`."""
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).replace(cluster.kube.list("nodes"))
    PodEventHandler(placer).replace(cluster.kube.list("pods"))
    another = with_metadata(pod("another"), uid="another")
    assert placer.filter(another, [NODE]).passed == (NODE,)
    booking = placer.ledger.booking("another")
    assert booking is not None
    return tuple(booking.gpus)


TOLD_ENDED: Final = "an owner says that its pod has ended"
MOVES: Final = pytest.mark.parametrize("way", ["an owner moves its pod to another GPU", "by the status", TOLD_ENDED])


def really_move(cluster: Cluster, way: str) -> None:
    headers = {"Impersonate-User": TENANT, "Content-Type": MERGE}
    row = ROWS[way]
    cluster.kube.request(row.method, row.path, content=json.dumps(row.body), headers=headers)


@MOVES
def test_without_the_lock_an_owners_edit_gives_a_full_gpu_away(inhabited: Cluster, way: str) -> None:
    assert next_gpus(inhabited) == ("1",), "25,000 of 32,768 MiB of GPU 0 are held"
    really_move(inhabited, way)
    assert next_gpus(inhabited) == ("0",), "the threat: 50,000 MiB on a GPU of 32,768, and no drift"
    inhabited.kube.patch("pods", "held", {"metadata": {"annotations": HELD}}, SPACE)
    inhabited.kube.patch("pods", "held", {"status": {"phase": "Running"}}, SPACE, subresource="status")


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.words[-len(INHERITING) :] == INHERITING])
def test_without_the_lock_devices_come_from_what_no_policy_reads(inhabited: Cluster, name: str) -> None:
    assert refusal(inhabited, ROWS[name]) is None, "the threat: env is empty, and the container sees all GPUs"


@pytest.mark.parametrize("sub", ["resize", "ephemeralcontainers"])
def test_other_subresources_write_no_annotation(inhabited: Cluster, sub: str) -> None:
    row = annotate(TENANT, "waiting", {GPU: "1"}, sub=f"/{sub}")
    assert refusal(inhabited, row) is None
    inhabited.kube.patch("pods", "waiting", row.body, SPACE, subresource=sub)
    assert GPU not in inhabited.get("pods", "waiting", SPACE)["metadata"].get("annotations", {})


@MOVES
def test_with_the_lock_the_ledger_keeps_what_the_binding_wrote(locked: Cluster, way: str) -> None:
    with pytest.raises(ApiError, match="alone writes it"):
        really_move(locked, way)
    assert next_gpus(locked) == ("1",)


@pytest.mark.parametrize("name", ROWS)
def test_a_request_passes_or_is_refused_with_field_value_and_remedy(locked: Cluster, name: str) -> None:
    row = ROWS[name]
    said = refusal(locked, row)
    if not row.words:
        assert said is None
        return
    assert said is not None
    for word in row.words:
        assert word in said


SETS_IT: Final = "!c.?env.orValue([]).exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')"
HAS_SOURCES: Final = "c.?envFrom.orValue([]).size() > 0"
HOLES: Final[Mapping[str, tuple[str, str, str]]] = {
    "containers are passed over": (
        f"object.spec.containers.filter(c, {HAS_SOURCES}",
        "object.spec.containers.filter(c, false",
        "a ConfigMap's variables",
    ),
    "init containers are passed over": (
        f"object.spec.?initContainers.orValue([]).filter(c, {HAS_SOURCES}",
        "object.spec.?initContainers.orValue([]).filter(c, false",
        "an init container with a ConfigMap's variables",
    ),
    "debuggers are passed over": (
        f"variables.newDebuggers.filter(c, {HAS_SOURCES}",
        "variables.newDebuggers.filter(c, false",
        "a debugger with a ConfigMap's variables",
    ),
    "any variable will do": (
        SETS_IT,
        "c.?env.orValue([]).size() == 0",
        "a ConfigMap's variables and one of the owner's",
    ),
}
"""By what is wrong with the rule about envFrom: what to replace in it by what, and whose row then passes."""


@contextmanager
def expressions(cluster: Cluster, old: str, new: str) -> Iterator[None]:
    """Policy of pods with another text in its expressions, during the block."""
    spec = cluster.get("validatingadmissionpolicies", "hetserve-pods")["spec"]
    assert old in str([each["expression"] for each in spec["variables"]])
    variables = [each | {"expression": each["expression"].replace(old, new)} for each in spec["variables"]]
    cluster.kube.patch("validatingadmissionpolicies", "hetserve-pods", {"spec": {"variables": variables}})
    try:
        yield
    finally:
        cluster.kube.patch("validatingadmissionpolicies", "hetserve-pods", {"spec": {"variables": spec["variables"]}})


@pytest.mark.parametrize("hole", HOLES)
def test_each_part_of_the_rule_about_sources_of_variables_refuses_what_it_is_for(locked: Cluster, hole: str) -> None:
    old, new, name = HOLES[hole]

    def passes() -> bool:
        return refusal(locked, ROWS[name]) is None

    assert not passes()
    with expressions(locked, old, new):
        wait_until(lambda: passes() or Unmet("it is refused still"), limits.REACTION, "the hole to be there")
    wait_until(lambda: not passes() or Unmet("it passes still"), limits.REACTION, "the hole to be mended")


def test_the_api_server_warns_of_no_expression(locked: Cluster) -> None:
    def checked() -> list[Manifest] | Unmet:
        found = [p for p in locked.kube.list("validatingadmissionpolicies") if p["metadata"]["name"].startswith("hets")]
        unread = [p["metadata"]["name"] for p in found if p.get("status", {}).get("observedGeneration") is None]
        return Unmet(unread) if unread else found

    policies = wait_until(checked, limits.REACTION, "the controller manager to check the types of the expressions")
    assert {p["metadata"]["name"] for p in policies} == set(names.ADMISSION_POLICIES)
    assert [w for p in policies for w in p["status"].get("typeChecking", {}).get("expressionWarnings", [])] == []


def test_a_deployment_of_somebody_else_runs_and_is_told_of(locked: Cluster) -> None:
    """The controller manager creates, the cluster's scheduler binds, a kubelet writes the status."""
    made = deployment("", {}).body
    made["spec"] |= {"replicas": 2}
    made["spec"]["template"]["spec"]["nodeSelector"] = {INSTANCE_TYPE_LABEL: "locked"}
    made["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    locked.apply(made)

    def available() -> bool | Unmet:
        status = locked.get("deployments", "new", SPACE).get("status", {})
        return status.get("availableReplicas") == 2 or Unmet(status)

    wait_until(available, limits.REACTION, "both pods to be available")
    locked.kube.delete("deployments", "new", SPACE)
