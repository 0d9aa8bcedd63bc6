"""Builds the Deployment of one service on one instance type: pure manifests.

No type gets a progress deadline, which gated pods may exceed, nor surge instances, which would cost more than the
budget and might find no node: see `rollout.py` for where they do not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hetserve.api import names
from hetserve.api.inference_service import InferenceService
from hetserve.objects.gpu_sharing import SharingTerms, terms_text
from hetserve.placement.pods.requests import AntiAffinity
from hetserve.planning.offers import Offer
from hetserve.planning.tenancy import GpuDemand, Tenancy
from hetserve.reconcile.deployments.template import TemplateError, model_container, user_template

Json = dict[str, Any]
NO_DEADLINE: Final = 2147483647
_MAX_NAME: Final = 63
_HASH: Final = 6


def deployment_name(service: str, instance_type: str) -> str:
    """``{service}-{type, dots as dashes}-{hash6}``; the hash distinguishes a-b + c from a + b-c, and long names."""
    digest = hashlib.sha256(f"{service}/{instance_type}".encode()).hexdigest()[:_HASH]
    readable = f"{service}-{instance_type}".replace(".", "-")[: _MAX_NAME - _HASH - 1].rstrip("-")
    return f"{readable}-{digest}"


def may_be_of(deployment: str, service: str) -> bool:
    """Whether a Deployment of this name may be one of the service's; True for each name of `deployment_name`."""
    return deployment.startswith(service.replace(".", "-")[: _MAX_NAME - _HASH - 1].rstrip("-"))


def desired_deployment(service: InferenceService, offer: Offer, *, memory_limit: bool = True) -> Json:
    """Deployment of one service on one type, without replicas.

    memory_limit: whether the environment limits what an instance that shares a GPU under MPS may allocate there.
    Raises TemplateError if the user's pod template conflicts with what hetserve must set in it.
    """
    meta, instance_type = service.metadata, offer.type
    own = {names.LABEL_SERVICE: meta.name, names.LABEL_INSTANCE_TYPE: instance_type.metadata.name}
    labels = {**own, names.LABEL_MODEL: service.spec.model.name, names.LABEL_MANAGED_BY: names.MANAGED_BY}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": deployment_name(meta.name, instance_type.metadata.name),
            "namespace": meta.namespace or "default",
            "labels": labels,
            "annotations": {},
            "ownerReferences": [owner_reference(service)],
        },
        "spec": {
            "selector": {"matchLabels": own},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "progressDeadlineSeconds": NO_DEADLINE,
            "template": _pod_template(service, offer, labels, memory_limit=memory_limit),
        },
    }


def with_surge(manifest: Json) -> Json:
    """The Deployment, whose old instances go when the new ones are ready."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return {**manifest, "spec": {**manifest["spec"], "strategy": strategy}}


def owner_reference(service: InferenceService) -> Json:
    """Owner reference that makes the service the controller of an object."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "InferenceService",
        "name": service.metadata.name,
        "uid": service.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Digest of a desired Deployment without replicas and annotations."""
    spec = {key: value for key, value in manifest["spec"].items() if key != "replicas"}
    meta = {key: manifest["metadata"][key] for key in ("labels", "ownerReferences")}
    text = json.dumps([meta, spec], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Applied(NamedTuple):
    """What our last apply of a Deployment wrote, as an annotation records it: digest of the manifest, and replicas."""

    digest: str
    replicas: str

    @classmethod
    def parse(cls, annotation: object) -> Applied:
        """The record in an annotation; whatever a foreign hand has written there is a digest of nothing."""
        digest, _, replicas = str(annotation).partition("/")
        return cls(digest, replicas)

    def __str__(self) -> str:
        return f"{self.digest}/{self.replicas}"


def with_replicas(manifest: Json, replicas: int) -> Json:
    """A manifest with replicas, and with the annotation that records what was applied; its template is shared."""
    applied = str(Applied(manifest_digest(manifest), str(replicas)))
    meta, spec = manifest["metadata"], manifest["spec"]
    annotations = {**meta["annotations"], names.ANNOTATION_APPLIED: applied}
    return {**manifest, "metadata": {**meta, "annotations": annotations}, "spec": {**spec, "replicas": replicas}}


def _pod_template(service: InferenceService, offer: Offer, labels: Mapping[str, str], *, memory_limit: bool) -> Json:
    template = user_template(service.spec.template)
    spec, instance_type = template["spec"], offer.type
    template["metadata"]["labels"] |= labels
    _place(spec, offer)
    container = model_container(template)
    _add_resources(container, offer)
    if instance_type.spec.gpu is not None:
        template["metadata"]["annotations"][names.ANNOTATION_GPU_PRODUCT] = instance_type.spec.gpu.product
        _schedule_on_gpu(spec)
    if offer.gpu is not None and offer.gpu.terms is not None:
        template["metadata"]["annotations"] |= _sharing(offer.gpu, offer.gpu.terms)
        if memory_limit and offer.gpu.mps:
            _limit_memory(container, offer.gpu)
    _show_devices(spec, None if instance_type.spec.gpu is None else container)
    if not template["metadata"]["annotations"]:
        del template["metadata"]["annotations"]
    return template


def _place(spec: Json, offer: Offer) -> None:
    selector, declared = spec.setdefault("nodeSelector", {}), offer.type.spec
    for key, value in declared.node_selector.items():
        if selector.get(key, value) != value:
            raise TemplateError(
                f"spec.template.spec.nodeSelector: {key}={selector[key]} contradicts {offer.type.kind} "
                f"{offer.name}, whose nodes have {key}={value}; take it out"
            )
        selector[key] = value
    if not selector:
        del spec["nodeSelector"]
    if declared.tolerations:
        spec["tolerations"] = [*spec.get("tolerations", []), *declared.tolerations]


def _add_resources(container: Json, offer: Offer) -> None:
    host = offer.type.spec.resources
    wanted = {} if host is None else {"cpu": host.cpu, "memory": host.memory}
    ours = {key: value for key, value in wanted.items() if value is not None}
    ours |= {} if offer.gpu is None else gpu_resources(offer.gpu)
    if not ours:
        return
    resources = container.setdefault("resources", {})
    for kind in ("limits", "requests"):
        section = resources.setdefault(kind, {})
        for key, value in ours.items():
            if key in section:
                raise TemplateError(
                    f"spec.template: container {container.get('name')!r} sets resources.{kind}.{key}, which "
                    f"{offer.type.kind} {offer.name} sets to {value}; take it out of the template"
                )
            section[key] = value


def gpu_resources(gpu: GpuDemand) -> Mapping[str, str]:
    """Extended resources that an instance requests."""
    if gpu.tenancy is Tenancy.EXCLUSIVE:
        return {names.RESOURCE_GPU: "1"}
    memory = {names.RESOURCE_GPU_MEMORY: str(gpu.memory)}
    return memory | {names.RESOURCE_GPU_COMPUTE: str(gpu.compute)} if gpu.compute else memory


def _sharing(gpu: GpuDemand, terms: SharingTerms) -> Mapping[str, str]:
    """Annotations of an instance that shares its GPU on terms."""
    written = {names.ANNOTATION_GPU_SHARING: terms_text(terms)}
    return written | {names.ANNOTATION_ANTI_AFFINITY: AntiAffinity.NONE.value} if gpu.copies else written


def _limit_memory(container: Json, gpu: GpuDemand) -> None:
    """Under MPS an instance that allocates more than it asks for fails, not its neighbours."""
    if any(entry.get("name") == names.ENV_MEMORY_LIMIT for entry in container.get("env", [])):
        raise TemplateError(
            f"spec.template: container {container.get('name')!r} sets {names.ENV_MEMORY_LIMIT}, which hetserve sets to "
            f"the profile's gpuMemory; take it out"
        )
    # The one GPU that the container sees is its device 0.
    limit = {"name": names.ENV_MEMORY_LIMIT, "value": f"0={gpu.memory}M"}
    container["env"] = [*container.get("env", []), limit]


def _schedule_on_gpu(spec: Json) -> None:
    spec["schedulerName"] = names.SCHEDULER_NAME
    gates = spec.setdefault("schedulingGates", [])
    if {"name": names.QUEUE_GATE} not in gates:
        gates.append({"name": names.QUEUE_GATE})


def _show_devices(spec: Json, holder: Json | None) -> None:
    """Shows the bound GPU to `holder`, and no GPU to every other container.

    The variable is set on all containers, also of CPU types: images made for CUDA ask for all GPUs of the node, and
    a variable set here overrides envFrom and the image.
    """
    bound = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{names.ANNOTATION_GPU}']"}}}
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        value: Json = bound if container is holder else {"value": names.NO_DEVICES}
        container["env"] = [*container.get("env", []), {"name": names.ENV_VISIBLE_DEVICES, **value}]
