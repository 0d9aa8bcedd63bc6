"""Requests to an API server that holds the chart's admission policies: who sends what, and why it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness.kube import MERGE, Manifest
from harness.nodes import Gpus, NodeGroup
from hetserve.api import names
from testing import builders

SPACE: Final = "locked"
V100: Final = NodeGroup("locked", "locked", 1, cpu="16", memory="64Gi", gpus=Gpus("Tesla-V100", 32_768, 2))
(NODE,) = V100.node_names()
MIB: Final = "25000"
GPU, MEMORY, COMPUTE = names.ANNOTATION_GPU, names.ANNOTATION_GPU_MEMORY, names.ANNOTATION_GPU_COMPUTE
SHARING: Final = names.ANNOTATION_GPU_SHARING
TERMS: Final = '{"share":"0.57","tolerance":"1.75","factors":{"*":"1.2"}}'
WIDER: Final = TERMS.replace("1.75", "9")
HELD: Final = {GPU: "0", MEMORY: MIB}
BOUND_FIELD: Final = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{GPU}']"}}}
LOCKS: Final = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")

EXTENDER: Final = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:hetserve-scheduler"
OPERATOR: Final = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:hetserve-operator"
ROUTERS: Final = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:hetserve-router"
TENANT: Final = "tenant"
"""Has every right in its namespace."""
PLAIN: Final = "writer"
"""May write InferenceServices, and create no pod."""
PODDER: Final = "podder"
"""May write InferenceServices and create pods, and no Service."""
KUBELET: Final = f"system:node:{NODE}"
COLLECTOR: Final = "system:serviceaccount:kube-system:pod-garbage-collector"
"""Of the controller manager: ends pods whose node is gone."""
STAND_IN: Final = "stand-in"
"""May write the status of nodes and of their pods, as who stands in for a kubelet does."""
REPORTER: Final = "system:serviceaccount:monitoring:reporter"
"""May write the status of pods, and of no node."""
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    EXTENDER: ("system:serviceaccounts",),
    OPERATOR: ("system:serviceaccounts",),
    ROUTERS: ("system:serviceaccounts",),
    KUBELET: ("system:nodes",),
    COLLECTOR: ("system:serviceaccounts",),
    REPORTER: ("system:serviceaccounts",),
}


def pod(name: str, *, ours: bool = True, scheduler: str | None = None, **spec: Any) -> Manifest:
    """A pod that asks for a GPU of ours, or for none."""
    container: dict[str, Any] = {"name": "model", "image": "none"}
    if ours:
        container["resources"] = {"limits": {MEMORY: MIB}}
        spec = {"schedulerName": names.SCHEDULER_NAME} | spec
    if scheduler is not None:
        spec["schedulerName"] = scheduler
    metadata = {"name": name, "namespace": SPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]} | spec}


def with_metadata(manifest: Manifest, **metadata: Any) -> Manifest:
    return {**manifest, "metadata": manifest["metadata"] | metadata}


def with_env(*entries: Manifest, ours: bool = True, at: str = "containers", **more: Any) -> Manifest:
    made = pod("new", ours=ours)
    made["spec"].setdefault(at, [{"name": "first", "image": "none"}])[0].update({"env": list(entries), **more})
    return made


def beside(container: Manifest) -> Manifest:
    """A pod whose first container is as the operator makes it, with another one."""
    made = with_env(variable(**BOUND_FIELD), **CONFIGURED)
    made["spec"]["containers"].append({"name": "proxy", "image": "none"} | container)
    return made


def variable(**value: Any) -> Manifest:
    return {"name": names.ENV_VISIBLE_DEVICES, **value}


@dataclass(frozen=True)
class Row:
    """A dry run of one request; `words`: of the refusal, none where it passes."""

    who: str
    method: str
    path: str
    body: Manifest
    words: tuple[str, ...] = ()
    media: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def create(who: str, manifest: Manifest, *words: str) -> Row:
    return Row(who, "POST", f"/api/v1/namespaces/{SPACE}/pods", manifest, words)


def patch(who: str, name: str, body: Manifest, *words: str, sub: str = "") -> Row:
    return Row(who, "PATCH", f"/api/v1/namespaces/{SPACE}/pods/{name}{sub}", body, words, MERGE)


def annotate(who: str, name: str, written: Mapping[str, str | None], *words: str, sub: str = "") -> Row:
    return patch(who, name, {"metadata": {"annotations": dict(written)}}, *words, sub=sub)


def ends(who: str, name: str, phase: str, *words: str) -> Row:
    return patch(who, name, {"status": {"phase": phase}}, *words, sub="/status")


def label(who: str, name: str, written: Mapping[str, str | None], *words: str) -> Row:
    return patch(who, name, {"metadata": {"labels": dict(written)}}, *words)


def bind(who: str, written: Mapping[str, str], *words: str, legacy: bool = False, **metadata: Any) -> Row:
    made = {"name": "waiting", "namespace": SPACE, "annotations": dict(written)} | metadata
    path = f"/api/v1/namespaces/{SPACE}/" + ("bindings" if legacy else f"pods/{made['name']}/binding")
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    return Row(who, "POST", path, {"apiVersion": "v1", "kind": "Binding", "metadata": made, "target": target}, words)


def debug(name: str, env: list[Manifest], *words: str, **more: Any) -> Row:
    spec = {"ephemeralContainers": [{"name": "debugger", "image": "none", "env": env} | more]}
    return patch(TENANT, name, {"spec": spec}, *words, sub="/ephemeralcontainers")


def deployment(who: str, labels: Mapping[str, str], *words: str) -> Row:
    template = {"metadata": {"labels": {"app": "new"}}, "spec": pod("new", ours=False)["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "new"}}, "template": template}
    metadata = {"name": "new", "namespace": SPACE, "labels": dict(labels)}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    return Row(who, "POST", f"/apis/apps/v1/namespaces/{SPACE}/deployments", body, words)


def fence(who: str, stamp: str | None, *words: str) -> Row:
    body = {"metadata": {"labels": {names.LABEL_FENCE: stamp}}}
    return Row(who, "PATCH", f"/apis/apps/v1/namespaces/{SPACE}/deployments/fenced", body, words, MERGE)


def service(who: str, overrides: Mapping[str, Any], *words: str, name: str = "new") -> Row:
    made = builders.service(name, {"metadata.namespace": SPACE, **overrides})
    path = f"/apis/{names.API_VERSION}/namespaces/{SPACE}/inferenceservices"
    return Row(who, "POST", path, made, words)


def edit_service(who: str, body: Manifest, *words: str, sub: str = "") -> Row:
    path = f"/apis/{names.API_VERSION}/namespaces/{SPACE}/inferenceservices/before{sub}"
    return Row(who, "PATCH", path, body, words, MERGE)


ROUTER: Final = f"hetserve-router-default.{names.SYSTEM_NAMESPACE}.svc.cluster.local"
ONE_LABEL: Final = "hetserve's router writes no more of a pod than the label hetserve.io/leads.NAME"
DISPATCH: Final = {"spec.dispatch": {"ports": {"http": 8000}}}
"""Of a service that is dispatched to."""


def address(name: str = "new", owner: str | None = None, uid: str = "a", **spec: Any) -> Manifest:
    """The Service that is the address of an InferenceService. owner: its name, by default the same; uid: of it."""
    reference = {"apiVersion": names.API_VERSION, "kind": "InferenceService", "name": owner or name, "uid": uid}
    metadata: Manifest = {"name": name, "namespace": SPACE, "labels": {names.LABEL_SERVICE: name}}
    made = {"type": "ExternalName", "externalName": ROUTER, "ports": [{"port": 80}], **spec}
    metadata["ownerReferences"] = [reference | {"controller": True}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": made}


def create_address(who: str, manifest: Manifest, *words: str) -> Row:
    return Row(who, "POST", f"/api/v1/namespaces/{SPACE}/services", manifest, words)


def edit_address(name: str, body: Manifest, *words: str) -> Row:
    return Row(OPERATOR, "PATCH", f"/api/v1/namespaces/{SPACE}/services/{name}", body, words, MERGE)


def delete_address(name: str, *words: str) -> Row:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
    return Row(OPERATOR, "DELETE", f"/api/v1/namespaces/{SPACE}/services/{name}", body, words)


def template(account: str) -> Manifest:
    spec = {"serviceAccountName": account, "containers": [{"name": "model", "image": "none"}]}
    return {"spec.template": {"spec": spec}}


MIRROR: Final = {
    "kubernetes.io/config.mirror": "a",
    "kubernetes.io/config.hash": "a",
    "kubernetes.io/config.source": "file",
}
OWNER: Final = [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "UID", "controller": True}]
TAKEN: Final = "extender alone writes it"
FROZEN: Final = ("share a GPU on the terms with which they were created", "delete the pod", "its ModelProfile")
RUNS: Final = ("would free the GPUs of a pod that may still run", "node alone writes it", "delete the pod")
NAMING: Final = ("container ", "NVIDIA_VISIBLE_DEVICES names devices", "fieldRef.fieldPath", "void")
INHERITING: Final = ("envFrom: may bring an NVIDIA_VISIBLE_DEVICES", "in env too", "fieldRef.fieldPath", "void")
CONFIGURED: Final[dict[str, Any]] = {"envFrom": [{"configMapRef": {"name": "all-gpus"}}]}
PREFIXED: Final[dict[str, Any]] = {"envFrom": [{"prefix": "NVIDIA_", "secretRef": {"name": "all-gpus"}}]}
CDI: Final = "cdi.k8s.io/gpus"
MOUNT: Final[dict[str, Any]] = {
    "volumeMounts": [{"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}],
}

ROWS: Final[Mapping[str, Row]] = {
    # Who says which GPU a pod has
    "an owner moves its pod to another GPU": annotate(
        TENANT, "held", {GPU: "1"}, f"metadata.annotations: {GPU} may not become", '"1"', TAKEN, "delete the pod"
    ),
    "an owner takes the GPU's name away": annotate(TENANT, "held", {GPU: None}, GPU, "absent", TAKEN),
    "an owner empties the GPU's name": annotate(TENANT, "held", {GPU: ""}, GPU, '""', TAKEN),
    "an owner makes the booking smaller": annotate(TENANT, "held", {MEMORY: "1"}, MEMORY, '"1"', TAKEN),
    "an owner adds compute": annotate(TENANT, "held", {COMPUTE: "1"}, COMPUTE, '"1"', TAKEN),
    "by the status": annotate(TENANT, "held", {GPU: "1"}, GPU, TAKEN, sub="/status"),
    "by a kubelet's status": annotate(KUBELET, "held", {GPU: "1"}, GPU, TAKEN, sub="/status"),
    "an owner writes it on a pod that waits": annotate(TENANT, "waiting", {GPU: "1"}, GPU, TAKEN),
    "the operator writes it": annotate(OPERATOR, "waiting", {GPU: "1"}, "cannot patch resource"),
    "a pod of somebody else gets it": annotate(TENANT, "foreign", {GPU: "1"}, GPU, TAKEN),
    "a pod is born with it": create(TENANT, with_metadata(pod("new"), annotations=HELD), GPU, '"0"', TAKEN),
    "a pod without our resource is born with it": create(
        TENANT, with_metadata(pod("new", ours=False), annotations=HELD), GPU, TAKEN
    ),
    "the extender writes it": annotate(EXTENDER, "waiting", {GPU: "1"}),
    "an owner changes a wish": annotate(TENANT, "waiting", {names.ANNOTATION_GPU_PRODUCT: "Tesla-T4"}),
    # On which terms a pod shares its GPU
    "a pod is born with terms": create(TENANT, with_metadata(pod("new"), annotations={SHARING: TERMS})),
    "another's pod is born with terms": create(
        TENANT, with_metadata(pod("new", ours=False), annotations={SHARING: "any"})
    ),
    "an owner lets its pod be slowed further": annotate(
        TENANT, "pairing", {SHARING: WIDER}, f'{SHARING} may not become "{WIDER}": pods', *FROZEN
    ),
    "an owner takes the terms away": annotate(TENANT, "pairing", {SHARING: None}, SHARING, "absent", *FROZEN),
    "an owner empties the terms": annotate(TENANT, "pairing", {SHARING: ""}, 'become ""', *FROZEN),
    "an owner gives terms to a pod that waits": annotate(TENANT, "waiting", {SHARING: TERMS}, SHARING, *FROZEN),
    "an owner gives terms to a pod at our gate": annotate(TENANT, "gated", {SHARING: TERMS}, SHARING, *FROZEN),
    "terms longer than a message": annotate(TENANT, "pairing", {SHARING: "x" * 30_000}, "xxx...: pods", *FROZEN),
    "the extender changes the terms": annotate(EXTENDER, "pairing", {SHARING: WIDER}, *FROZEN),
    "a kubelet's status changes the terms": annotate(KUBELET, "pairing", {SHARING: WIDER}, *FROZEN, sub="/status"),
    "the terms are written as they are": annotate(TENANT, "pairing", {SHARING: TERMS, "team": "a"}),
    "the status of a pod with terms": patch(
        KUBELET, "pairing", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, sub="/status"
    ),
    "the extender binds a pod with terms": bind(EXTENDER, HELD, name="pairing"),
    "a binding with terms": bind(TENANT, {SHARING: WIDER}, SHARING, "take it out of the binding"),
    # Who says that a pod has ended
    "an owner says that its pod has ended": ends(
        TENANT, "held", "Succeeded", 'status.phase: "Succeeded"', TENANT, *RUNS
    ),
    "an owner says that its pod has failed": ends(TENANT, "held", "Failed", '"Failed"', *RUNS),
    "another account says so": ends(REPORTER, "held", "Failed", REPORTER, *RUNS),
    "an owner says so of a pod without a GPU yet": ends(TENANT, "waiting", "Failed", *RUNS),
    "the kubelet says so": ends(KUBELET, "held", "Succeeded"),
    "the collector of pods without a node says so": ends(COLLECTOR, "held", "Failed"),
    "who stands in for a kubelet says so": ends(STAND_IN, "held", "Succeeded"),
    "an owner says so of a pod without our resources": ends(TENANT, "foreign", "Succeeded"),
    "an owner says that its pod is pending": ends(TENANT, "held", "Pending"),
    "an owner writes a pod's condition": patch(
        TENANT, "held", {"status": {"conditions": [{"type": "example.com/warm", "status": "True"}]}}, sub="/status"
    ),
    "an owner writes the label of a pod that has ended": label(TENANT, "ended", {"team": "a"}),
    # Bindings
    "a binding with a GPU": bind(TENANT, HELD, f"metadata.annotations: {GPU}", '"0"', "leave the binding"),
    "a binding with memory alone": bind(TENANT, {MEMORY: "1"}, MEMORY, "leave the binding"),
    "the old path of bindings": bind(TENANT, HELD, GPU, "leave the binding", legacy=True),
    "a binding with a fence": bind(TENANT, {}, names.LABEL_FENCE, labels={names.LABEL_FENCE: "x"}),
    "the extender's binding": bind(EXTENDER, HELD),
    "a binding of a scheduler": bind(TENANT, {}),
    # Fences
    "a pod is born with a fence": create(
        TENANT, with_metadata(pod("new"), labels={names.LABEL_FENCE: "x"}), names.LABEL_FENCE, '"x"', TAKEN
    ),
    "an owner fences a pod": label(TENANT, "waiting", {names.LABEL_FENCE: "x"}, names.LABEL_FENCE, '"x"', TAKEN),
    "an owner takes a fence away": label(TENANT, "held", {names.LABEL_FENCE: None}, "absent", TAKEN),
    "the extender fences a pod": label(EXTENDER, "waiting", {names.LABEL_FENCE: "x"}),
    "a Deployment is born with a fence": deployment(
        TENANT, {names.LABEL_FENCE: "x"}, names.LABEL_FENCE, '"x"', "operator alone writes it"
    ),
    "an owner changes a Deployment's fence": fence(TENANT, "y", '"y"', "operator alone writes it"),
    "an owner takes a Deployment's fence away": fence(TENANT, None, "absent", "operator alone writes it"),
    "the operator fences a Deployment": fence(OPERATOR, "y"),
    "a Deployment of anybody": deployment(TENANT, {"app": "new"}),
    "a Deployment keeps its fence": fence(TENANT, "before"),
    # Past the scheduler
    "our resource without our scheduler": create(
        TENANT,
        pod("new", scheduler="default-scheduler"),
        'spec.schedulerName: "default-scheduler"',
        MEMORY,
        "set it to hetserve-scheduler",
    ),
    "a whole GPU without our scheduler": create(
        TENANT,
        with_env(ours=False, resources={"limits": {names.RESOURCE_GPU: "1"}}),
        "spec.schedulerName",
        names.RESOURCE_GPU,
    ),
    "compute without our scheduler": create(
        TENANT,
        with_env(ours=False, resources={"limits": {names.RESOURCE_GPU_COMPUTE: "1"}}),
        "spec.schedulerName",
        names.RESOURCE_GPU_COMPUTE,
    ),
    "an init container asks without our scheduler": create(
        TENANT,
        with_env(ours=False, at="initContainers", resources={"limits": {MEMORY: "1"}}),
        "spec.schedulerName",
        MEMORY,
    ),
    "our resource on a named node": create(
        TENANT, pod("new", nodeName=NODE), f'spec.nodeName: "{NODE}"', "spec.nodeSelector"
    ),
    "our resource with our scheduler": create(TENANT, pod("new")),
    "at our gate": create(TENANT, pod("new", schedulingGates=[{"name": names.QUEUE_GATE}])),
    "another's pod on a named node": create(TENANT, pod("new", ours=False, nodeName=NODE)),
    "another's pod by our scheduler": create(TENANT, pod("new", ours=False, scheduler=names.SCHEDULER_NAME)),
    # Devices by environment
    "all devices": create(TENANT, with_env(variable(value="all")), *NAMING),
    "one device by its id": create(TENANT, with_env(variable(value="0")), *NAMING),
    "a device by another variable": create(
        TENANT, with_env({"name": "A", "value": "all"}, variable(value="$(A)")), *NAMING
    ),
    "devices by an annotation of the owner's": create(
        TENANT, with_env(variable(valueFrom={"fieldRef": {"fieldPath": "metadata.annotations['mine']"}})), *NAMING
    ),
    "devices by a ConfigMap": create(
        TENANT, with_env(variable(valueFrom={"configMapKeyRef": {"name": "a", "key": "b"}})), *NAMING
    ),
    "the second of two variables": create(TENANT, with_env(variable(**BOUND_FIELD), variable(value="all")), *NAMING),
    "an init container with all devices": create(TENANT, with_env(variable(value="all"), at="initContainers"), *NAMING),
    # Devices by what CEL does not read
    "a ConfigMap's variables": create(TENANT, with_env(**CONFIGURED), "container model, ", *INHERITING),
    "a Secret's variables, behind a prefix": create(TENANT, with_env(**PREFIXED), *INHERITING),
    "a ConfigMap's variables and one of the owner's": create(
        TENANT, with_env({"name": "A", "value": "1"}, **CONFIGURED), *INHERITING
    ),
    "an init container with a ConfigMap's variables": create(
        TENANT, with_env(at="initContainers", **CONFIGURED), "container first, ", *INHERITING
    ),
    "a container beside the model's with a ConfigMap's variables": create(
        TENANT, beside(CONFIGURED), "container proxy, ", *INHERITING
    ),
    "a ConfigMap's variables and all devices": create(TENANT, with_env(variable(value="all"), **CONFIGURED), *NAMING),
    "a ConfigMap's variables and the device by the ConfigMap": create(
        TENANT, with_env(variable(valueFrom={"configMapKeyRef": {"name": "a", "key": "b"}}), **CONFIGURED), *NAMING
    ),
    "a ConfigMap's variables below the annotation": create(TENANT, with_env(variable(**BOUND_FIELD), **CONFIGURED)),
    "a ConfigMap's variables where there is no GPU": create(
        TENANT, beside({"env": [variable(value="void")]} | CONFIGURED)
    ),
    "a container beside the model's without any variables": create(TENANT, beside({})),
    "an empty list of sources": create(TENANT, with_env(envFrom=[])),
    "another's pod with a ConfigMap's variables": create(TENANT, with_env(ours=False, **CONFIGURED)),
    "a debugger with a ConfigMap's variables": debug("held", [], "container debugger, ", *INHERITING, **CONFIGURED),
    "a debugger with a ConfigMap's variables below the annotation": debug(
        "held", [variable(**BOUND_FIELD)], **CONFIGURED
    ),
    "a debugger of another's pod with a ConfigMap's variables": debug("foreign", [], **CONFIGURED),
    "devices by CDI": create(TENANT, with_metadata(pod("new"), annotations={CDI: "all"}), CDI, "take it out"),
    "devices by CDI on a pod that waits": annotate(TENANT, "waiting", {CDI: "all"}, CDI, "take it out"),
    "devices by a mount": create(
        TENANT,
        with_env(**MOUNT) | {"spec": with_env(**MOUNT)["spec"] | {"volumes": [{"name": "v", "emptyDir": {}}]}},
        "container model, volumeMounts",
        "take the mount out",
    ),
    "what the operator injects": create(TENANT, with_env(variable(**BOUND_FIELD))),
    "a container without a GPU": create(TENANT, with_env(variable(value="void"))),
    "another's pod with all devices": create(TENANT, with_env(variable(value="all"), ours=False)),
    "a debugger with all devices": debug("held", [variable(value="all")], "container debugger", *NAMING),
    "a debugger of our pod": debug("held", []),
    "a debugger of another's pod": debug("foreign", [variable(value="all")]),
    # What must go on
    "a static pod's mirror": create(
        KUBELET,
        with_metadata(pod(f"static-{NODE}", nodeName=NODE), annotations=MIRROR, ownerReferences=OWNER),
    ),
    "an owner's mirror is none": create(
        TENANT, with_metadata(pod("new", nodeName=NODE), annotations=MIRROR), "spec.nodeName"
    ),
    "a label of a pod from before": label(TENANT, "held", {"team": "a"}),
    "an annotation of a pod from before": annotate(TENANT, "held", {"team": "a"}),
    "the status of a pod from before": patch(
        KUBELET, "held", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, sub="/status"
    ),
    "a label of a pod that goes round from before": label(TENANT, "round", {"team": "a"}),
    "the gate is lifted": patch(EXTENDER, "gated", {"spec": {"schedulingGates": None}}),
    "the gate is lifted by hand": patch(TENANT, "gated", {"spec": {"schedulingGates": None}}),
    "an eviction": Row(
        TENANT,
        "POST",
        f"/api/v1/namespaces/{SPACE}/pods/held/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "held", "namespace": SPACE}},
    ),
    # InferenceServices
    "a service of who may create pods": service(TENANT, {}),
    "a service of who may not": service(PLAIN, {}, f"{PLAIN} may not create pods in namespace {SPACE}", "verb create"),
    "a change by who may not": edit_service(PLAIN, {"spec": {"load": {"expectedQPS": 9}}}, "may not create pods"),
    "a label by who may not": edit_service(PLAIN, {"metadata": {"labels": {"team": "a"}}}),
    "a finalizer by who may not": edit_service(PLAIN, {"metadata": {"finalizers": ["example.com/a"]}}),
    "the operator's status": edit_service(OPERATOR, {"status": {"observedGeneration": 1}}, sub="/status"),
    "dispatch by who may create Services": service(TENANT, DISPATCH),
    "dispatch by who may not": service(
        PODDER, DISPATCH, f"spec.dispatch: {PODDER} may not create Services in namespace {SPACE}", "verb create"
    ),
    "a service without dispatch of who may create no Services": service(PODDER, {}),
    "another policy of dispatch by who may not": edit_service(
        PODDER, {"spec": {"dispatch": {"policy": "kairos"}}}, "may not create Services"
    ),
    "dispatch is taken away by who may not": edit_service(PODDER, {"spec": {"dispatch": None}}),
    "another load beside dispatch by who may not": edit_service(PODDER, {"spec": {"load": {"expectedQPS": 9}}}),
    # Addresses
    "a router says who leads": label(ROUTERS, "waiting", {"hetserve.io/leads.hetserve-router-default": "true"}),
    "a router says who leads no more": label(ROUTERS, "led", {"hetserve.io/leads.hetserve-router-default": None}),
    "a router writes another label": label(ROUTERS, "led", {"app": "x"}, ONE_LABEL),
    "a router changes a label": label(ROUTERS, "led", {"tier": "x"}, ONE_LABEL),
    "a router takes a label off": label(ROUTERS, "led", {"tier": None}, ONE_LABEL),
    "a router gives a pod a deadline": patch(ROUTERS, "led", {"spec": {"activeDeadlineSeconds": 1}}, ONE_LABEL),
    "a router annotates a pod": annotate(ROUTERS, "led", {"a": "b"}, ONE_LABEL),
    "a router ends a pod": ends(ROUTERS, "led", "Failed", ONE_LABEL),
    "an address": create_address(OPERATOR, address()),
    "a Service of anybody": create_address(TENANT, address(externalName="example.com")),
    "an address that leads to nobody's router": create_address(
        OPERATOR, address(externalName="example.com"), "leads to a router of its release"
    ),
    "an address that leads to another service of the release": create_address(
        OPERATOR, address(externalName=ROUTER.replace("router-default", "operator")), "leads to a router"
    ),
    "an address with IP addresses": create_address(OPERATOR, address(externalIPs=["192.0.2.1"]), "leads to a router"),
    "a Service of pods by the operator": create_address(
        OPERATOR, address(type="ClusterIP", externalName=None, selector={"app": "a"}), "of type ExternalName"
    ),
    "an address of nobody": create_address(
        OPERATOR, with_metadata(address(), ownerReferences=[]), "ownerReferences: hetserve's operator writes no Service"
    ),
    "an address of another name": create_address(OPERATOR, address(owner="other"), "of the same name"),
    "an address without our label": create_address(
        OPERATOR, with_metadata(address(), labels={}), "metadata.labels", names.LABEL_SERVICE
    ),
    "the operator corrects an address": edit_address("before", {"spec": {"externalName": ROUTER}}),
    "the operator leads an address elsewhere": edit_address(
        "before", {"spec": {"externalName": "example.com"}}, "leads to a router"
    ),
    "the operator takes a Service over": edit_address("theirs", address("theirs"), "writes no Service"),
    "the operator deletes an address": delete_address("before"),
    "the operator deletes a Service of somebody else": delete_address("theirs", "writes no Service"),
    "the default account": service(TENANT, template("default")),
    "an account that is allowed": service(TENANT, template("reader")),
    "an account that is allowed here": service(TENANT, template("here")),
    "an account that is allowed elsewhere": service(
        TENANT, template("there"), '"there" is not among', f"{SPACE}/there"
    ),
    "an account that nobody allowed": service(
        TENANT,
        template("cluster-admin"),
        'serviceAccountName: "cluster-admin"',
        "default, reader",
        "admission.serviceAccounts",
    ),
    "by the old name of the field": service(
        TENANT,
        {"spec.template": {"spec": {"serviceAccount": "old", "containers": [{"name": "model", "image": "none"}]}}},
        '"old" is not among',
    ),
    "an account from before": edit_service(TENANT, {"spec": {"load": {"expectedQPS": 9}}}),
    "another account than before": edit_service(
        TENANT, {"spec": {"template": {"spec": {"serviceAccountName": "other"}}}}, '"other" is not among'
    ),
}
