"""Simplified controllers around the operator: Deployments, scheduler, kubelet, garbage collection.

One `tick` moves every object by one stage: deleted to terminating to gone, created to bound to ready.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import Any

from hetserve.api import names
from hetserve.objects.gpu_sharing import tolerate
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.inventory import Gpu, parse_node
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest
from hetserve.placement.pods.view import parse_pod
from testing.kit.apiserver import FakeApiServer
from testing.kit.deployments import copied

Json = dict[str, Any]


class Controllers:
    """Deployment controller, scheduler with the extender's rules, kubelet and garbage collector over one server.

    counts_pairs: False: the extender is of before slow-downs were counted by pairs, and books percent. launch_ticks:
    stages from bound to ready. never_ready: types whose instances do not become ready. terminating_ticks: stages from
    deleted to gone. gated: types whose instances stay at their gates. refused: types whose instances the scheduler
    finds no place for, and why. clock: what a new pod's creation time is read from; None: from how many there were.
    """

    def __init__(self, api: FakeApiServer) -> None:
        self.api = api
        self.made = 0
        self.terminating_ticks = 1
        self.launch_ticks = 0
        self.never_ready: set[str] = set()
        self.counts_pairs = True
        self.gated: set[str] = set()
        self.refused: dict[str, str] = {}
        self.clock: Callable[[], datetime] | None = None

    def tick(self) -> None:
        """Moves everything by one stage."""
        self._collect()
        self._terminate()
        self._start()
        self._bind()
        for path, deployment in list(self.api.items("deployments")):
            self._roll(path, deployment)

    def settle(self, ticks: int = 40) -> None:
        """Ticks until nothing more can change."""
        for _ in range(ticks):
            self.tick()

    def pods(self, deployment: Json | None = None) -> list[tuple[str, Json]]:
        """All pods, or those of a Deployment."""
        if deployment is None:
            return list(self.api.items("pods"))
        sets = {raw["metadata"]["uid"] for _, raw in self.replica_sets(deployment)}
        return [(p, pod) for p, pod in self.api.items("pods") if _owner(pod) in sets]

    def replica_sets(self, deployment: Json) -> list[tuple[str, Json]]:
        """ReplicaSets of a Deployment."""
        uid = deployment["metadata"]["uid"]
        return [(p, raw) for p, raw in self.api.items("replicasets") if _owner(raw) == uid]

    def _collect(self) -> None:
        for folder in ("deployments", "replicasets", "pods"):
            alive = {o["metadata"]["uid"] for o in self.api.objects.values()}
            for path, raw in list(self.api.items(folder)):
                if _owner(raw) is not None and _owner(raw) not in alive:
                    self._delete_pod(path) if folder == "pods" else self.api.remove(path)

    def _delete_pod(self, path: str) -> None:
        pod = self.api.objects[path]
        if "deletionTimestamp" not in pod["metadata"]:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            pod["metadata"]["ticks"] = 0
            self.api.touch(path)

    def _terminate(self) -> None:
        for path, pod in self.pods():
            if "deletionTimestamp" in pod["metadata"]:
                pod["metadata"]["ticks"] += 1
                self.api.touch(path)
                if pod["metadata"]["ticks"] > self.terminating_ticks:
                    self.api.remove(path)

    def _start(self) -> None:
        for path, pod in self.pods():
            if not pod["spec"].get("nodeName") or pod["status"].get("conditions"):
                continue
            waited = pod["metadata"].setdefault("launching", 0)
            pod["metadata"]["launching"] = waited + 1
            serves = waited >= self.launch_ticks and _kind(pod) not in self.never_ready
            if serves:
                pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            if serves or waited < self.launch_ticks:
                self.api.touch(path)

    def _bind(self) -> None:
        for path, pod in self.pods():
            if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            if _kind(pod) in self.gated and pod["spec"].get("schedulingGates"):
                continue
            refusal = self.refused.get(_kind(pod) or "")
            place = None if refusal is not None else self._place(pod)
            if place is None:
                words = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                message = refusal or "0/1 nodes are available: 1 same model on every GPU."
                conditions = [{**words, "message": message}]
                if pod["status"].get("conditions") == conditions:
                    continue
                pod["status"]["conditions"] = conditions
            else:
                node, gpu = place
                pod["spec"]["nodeName"] = node
                pod["spec"].pop("schedulingGates", None)
                pod["status"].pop("conditions", None)
                if gpu is not None:
                    pod["metadata"].setdefault("annotations", {})[names.ANNOTATION_GPU] = gpu
            self.api.touch(path)

    def _place(self, pod: Json) -> tuple[str, str | None] | None:
        wanted, request = pod["spec"].get("nodeSelector") or {}, parse_pod(pod).request
        there: dict[str | None, list[Json]] = defaultdict(list)
        for _, each in self.pods():
            there[each["spec"].get("nodeName")].append(each)
        for _, node in self.api.items("nodes"):
            labels = node["metadata"]["labels"]
            if any(labels.get(k) != v for k, v in wanted.items()):
                continue
            here = there[node["metadata"]["name"]]
            if not request.needs_gpu:
                if len(here) < int(node["status"]["allocatable"]["pods"]):
                    return node["metadata"]["name"], None
                continue
            for gpu in parse_node(node).gpus:
                on_it = [p for p in here if p["metadata"]["annotations"].get(names.ANNOTATION_GPU) == gpu.id]
                if self._takes(gpu, request, [parse_pod(p).request for p in on_it]):
                    return node["metadata"]["name"], gpu.id
        return None

    def _takes(self, gpu: Gpu, request: GpuRequest, there: list[GpuRequest]) -> bool:
        """Whether a GPU with these pods takes one more, by the rules of the extender."""
        if request.whole or any(other.whole for other in there):
            return not there
        room = gpu.memory_mib - sum(other.memory_mib for other in there) >= request.memory_mib
        copies = [other for other in there if other.model_key == request.model_key]
        apart = copies and any(one.anti_affinity is AntiAffinity.HARD for one in (request, *copies))
        if apart or not room:
            return False
        everybody = (request, *there)
        if len({other.kind for other in everybody}) > 1:
            return False
        if request.sharing is not None and self.counts_pairs:
            return tolerate([other.tenant(other.sharing) for other in everybody if other.sharing is not None])
        return sum(other.booked_compute for other in everybody) <= WHOLE_COMPUTE

    def _roll(self, path: str, deployment: Json) -> None:
        """maxSurge 0, maxUnavailable 1: an old pod goes only while every other one is ready; or, with maxSurge 1 and
        maxUnavailable 0, only while as many others are.

        Of a smaller count, those without a node go first, then those that are not ready, as a ReplicaSet chooses.
        """
        spec, digest = deployment["spec"], _hash(deployment["spec"]["template"])
        live = [(p, pod) for p, pod in self.pods(deployment) if "deletionTimestamp" not in pod["metadata"]]
        old = [(p, pod) for p, pod in live if pod["metadata"]["labels"]["pod-template-hash"] != digest]
        surge = spec["strategy"]["rollingUpdate"]["maxSurge"] if old and spec["replicas"] else 0
        victims = sorted(live, key=lambda one: (_age(one[1]), one not in old))
        for victim, _ in victims[: max(0, len(live) - spec["replicas"] - surge)]:
            self._delete_pod(victim)
        most = spec["replicas"] + surge
        if old and len(live) <= most and sum(_ready(pod) for _, pod in live) == most:
            self._delete_pod(old[0][0])
        live = [(p, pod) for p, pod in live if "deletionTimestamp" not in pod["metadata"]]
        for _ in range(most - len(live)):
            live.append(self._make_pod(path, deployment, digest))
        updated = sum(pod["metadata"]["labels"]["pod-template-hash"] == digest for _, pod in live)
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": len(live),
            "updatedReplicas": updated,
        }
        if deployment.get("status") != status:
            deployment["status"] = status
            self.api.touch(path)

    def _replica_set(self, path: str, deployment: Json, digest: str) -> Json:
        meta, template = deployment["metadata"], deployment["spec"]["template"]
        name = f"{meta['name']}-{digest}"
        place = f"{path.rsplit('/', 2)[0]}/replicasets/{name}"
        if place not in self.api.objects:
            metadata = {
                "name": name,
                "namespace": meta["namespace"],
                "labels": {**template["metadata"]["labels"], "pod-template-hash": digest},
                "ownerReferences": [_controlled_by("Deployment", deployment)],
            }
            self.api.put(place, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {}})
        return self.api.objects[place]

    def _make_pod(self, path: str, deployment: Json, digest: str) -> tuple[str, Json]:
        self.made += 1
        meta, template = deployment["metadata"], copied(deployment["spec"]["template"])
        owner = self._replica_set(path, deployment, digest)
        name = f"{owner['metadata']['name']}-{self.made}"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "creationTimestamp": self._created(),
                "labels": {**template["metadata"]["labels"], "pod-template-hash": digest},
                "annotations": dict(template["metadata"].get("annotations") or {}),
                "ownerReferences": [_controlled_by("ReplicaSet", owner)],
            },
            "spec": template["spec"],
            "status": {},
        }
        if _kind(pod) in self.gated:
            pod["spec"]["schedulingGates"] = [{"name": names.QUEUE_GATE}]
        namespace = path.rsplit("/", 2)[0].replace("/apis/apps/v1", "/api/v1")
        pod_path = f"{namespace}/pods/{name}"
        return pod_path, self.api.put(pod_path, pod)

    def _created(self) -> str:
        if self.clock is None:
            return f"2026-01-01T00:{self.made // 60 % 60:02d}:{self.made % 60:02d}Z"
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")


def _owner(raw: Json) -> str | None:
    return next((o["uid"] for o in raw["metadata"].get("ownerReferences") or () if o.get("controller")), None)


def _kind(pod: Json) -> str | None:
    kind: str | None = (pod["metadata"].get("labels") or {}).get(names.LABEL_INSTANCE_TYPE)
    return kind


def _controlled_by(kind: str, raw: Json) -> Json:
    meta = raw["metadata"]
    return {"kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


def _age(pod: Json) -> int:
    """0: without a node; 1: not ready; 2: ready."""
    return 2 if _ready(pod) else int(bool(pod["spec"].get("nodeName")))


def _ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())


def _hash(template: Json) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
