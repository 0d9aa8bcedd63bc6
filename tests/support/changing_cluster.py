"""A cluster whose objects change, services that feel it, and the watches that tell an operator."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from hetserve.api.kinds import INFERENCE_SERVICE, INSTANCE_TYPE, MODEL_PROFILE
from hetserve.api.names import LABEL_SERVICE
from hetserve.reconcile.deployments.build import deployment_name
from hetserve_operator.watch.handlers import EventHandlers
from testing.builders import MEASURED, instance_type, model_profile, service
from testing.cluster import gpu_pod
from testing.kit.apiserver import FakeApiServer
from testing.kit.deployments import copied
from testing.scenes import CPU_TYPE, GPU_TYPE, autoscaler, cpu_profile, cpu_type, node

Json = dict[str, Any]
LABELS = {"metadata.labels": {"tier": "gpu"}}
BY_KAIROS = {"spec.planner": "kairos"}
"""Plans within a millisecond; the service `named` is planned by default, which takes two answers."""
SERVICES = [
    service("starved", {"spec.budget.hourly": "9", "spec.model.name": "rm2", **BY_KAIROS}),
    service(
        "named", {"spec.instanceTypes": {"names": [GPU_TYPE]}, "spec.model.name": "named", "spec.budget.hourly": "0.6"}
    ),
    service(
        "selecting",
        {"spec.instanceTypes": {"selector": {"matchLabels": {"tier": "gpu"}}}, "spec.model.name": "rm2", **BY_KAIROS},
    ),
    service("missing", {"spec.instanceTypes": {"names": ["later"]}, **BY_KAIROS}),
    service("unprofiled", {"spec.model.name": "later", **BY_KAIROS}),
]
PROFILES = [model_profile("named", {"spec.model": "named"}), model_profile("named-later", {"spec.model": "named"})]


def broken(raw: Json, part: str) -> Json:
    raw = copy.deepcopy(raw)
    raw["spec"][part] = "odd"
    return raw


def foreign(
    name: str, on: str, gpu: str | None, model: str = "other", mib: str = "12000", compute: int | None = None
) -> Json:
    raw = gpu_pod(name, node=on, gpu=gpu, memory_mib=mib, compute=compute)
    raw["metadata"].pop("uid", None)
    raw["metadata"]["labels"]["hetserve.io/model"] = model
    return raw


CORDONED = {"spec": {"unschedulable": True}}
LATER = instance_type("later", {"spec.nodeSelector": {"node.kubernetes.io/instance-type": GPU_TYPE}})
SHARES: list[Json] = [{}, MEASURED, {**MEASURED, "spec.computeShare": "0.8"}]
"""Of a profile that is not measured, and of two measurements."""
THINGS: list[Json] = [
    *(node(f"gpu-{n}", GPU_TYPE, gpus=gpus) for n in (0, 1, 9) for gpus in (1, 2)),
    *(node(f"gpu-{n}", GPU_TYPE, gpus=1) | CORDONED for n in (0, 1)),
    node("gpu-0", CPU_TYPE),
    *(node(f"cpu-{n}", CPU_TYPE, pods=pods) for n in (0, 99) for pods in (1, 2)),
    node("cpu-1", CPU_TYPE) | CORDONED,
    *(foreign(f"f{n}", on, gpu) for n, on, gpu in ((0, "gpu-0", "0"), (1, "gpu-1", "0"), (2, "gpu-2", None))),
    foreign("same", "gpu-3", "0", "rm2", "100"),
    foreign("same", "gpu-3", "0", "other", "100"),
    instance_type(),
    instance_type(overrides=LABELS),
    instance_type(overrides={"spec.price.hourly": "0.6"}),
    instance_type(overrides={"spec.maxInstances": 1}),
    broken(instance_type(), "price"),
    instance_type(overrides={"spec.price": {"hourly": "0.04", "per": "GiB"}}),
    *(model_profile(overrides={"spec.gpuMemory": "4Gi", **share}) for share in SHARES),
    *(foreign("beside", "gpu-3", "0", mib="100", compute=compute) for compute in (None, 20, 65)),
    cpu_type(),
    cpu_type(LABELS),
    cpu_type({"spec.price.hourly": "0.11"}),
    LATER,
    broken(LATER, "price"),
    instance_type("later", LABELS),
    model_profile(),
    broken(model_profile(), "latency"),
    cpu_profile(),
    model_profile("again"),
    model_profile("elsewhere", {"metadata.namespace": "team"}),
    model_profile("later", {"spec.model": "later"}),
    model_profile("later", {"spec.model": "rm2", "spec.instanceType": "later"}),
    *PROFILES,
    *(autoscaler("hpa", deployment_name(name, GPU_TYPE)) for name in ("starved", "selecting")),
]


class Watches:
    """Feeds an operator's handlers as watches would."""

    def __init__(self, server: FakeApiServer, feed: EventHandlers) -> None:
        self._server = server
        self._seen: dict[str, Json] = {}
        self._told = 0
        self._takers: dict[str, Callable[..., None]] = {
            "nodes": feed.node,
            "pods": feed.pod,
            "horizontalpodautoscalers": feed.scaler,
            "deployments": feed.deployment,
            INFERENCE_SERVICE.plural: feed.service,
            INSTANCE_TYPE.plural: partial(feed.plan_input, INSTANCE_TYPE),
            MODEL_PROFILE.plural: partial(feed.plan_input, MODEL_PROFILE),
        }

    def tell(self) -> None:
        """Feeds what has changed since the last call."""
        if self._told == self._server.revision:
            return
        self._told, objects = self._server.revision, self._server.objects
        for path in self._seen.keys() - objects.keys():
            gone = self._seen.pop(path)
            # As the API server does: the event of a deletion has the revision of the deletion.
            gone["metadata"]["resourceVersion"] = str(self._server.revision)
            self._event(path, gone, deleted=True)
        for path, raw in objects.items():
            if self._seen.get(path, {}).get("metadata") != raw["metadata"]:
                self._seen[path] = copied(raw)
                self._event(path, self._seen[path], deleted=False)

    def _event(self, path: str, raw: Json, *, deleted: bool) -> None:
        plural = path.rsplit("/", 2)[1]
        take = self._takers.get(plural)
        selected = plural != "deployments" or LABEL_SERVICE in (raw["metadata"].get("labels") or {})
        if take is not None and selected:
            take(raw, deleted=deleted)
