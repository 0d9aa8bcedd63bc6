"""Deployments, scheduler with the real placer, and kubelet: pods become instances of the scene, and end with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from benchmarks.hetsev.operated.gates import Gates
from benchmarks.hetsev.policy import InstanceSeen, Seen, Start

from hetserve.api.names import LABEL_SERVICE
from hetserve.base.units import Seconds
from hetserve.placement.decision.refusals import NodeRefusal
from hetserve.placement.decision.wording import texts_by_node
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import PolicyName
from hetserve.placement.pods.view import parse_pod
from hetserve_extender.verbs.binding import binding
from hetserve_extender.verbs.wire import BindArgs
from testing.kit.apiserver import FakeApiServer
from testing.operator import Controllers

Json = dict[str, Any]
_HOLD: Final = Seconds(30.0)
"""Life of a reservation, as of the extender."""


class PodLife(Controllers):
    """Moves pods by a stage at each look. starts, stops: of instances, since they were last taken."""

    def __init__(self, api: FakeApiServer, now: datetime, policy: PolicyName) -> None:
        super().__init__(api)
        self.now, self._clock = now, now.timestamp()
        self.clock = lambda: self.now
        self.placer = Placer(lambda: Seconds(self.now.timestamp()), _HOLD, policy=policy)
        NodeEventHandler(self.placer).replace([raw for _, raw in api.items("nodes")])
        self._events = PodEventHandler(self.placer)
        largest = max(gpu.memory_mib for node in self.placer.ledger.inventories().values() for gpu in node.gpus)
        self._gates = Gates(self.placer, largest)
        self._told: dict[str, Json] = {}
        self._versions: dict[str, str] = {}
        self._there: Mapping[str, InstanceSeen] = {}
        self._state: tuple[int, list[tuple[int, bool, bool]]] | None = None
        """Before the last tick: revision of the API server, and of each instance whether it leaves and can serve."""
        self.starts: list[Start] = []
        self.stops: list[int] = []

    def look(self, seen: Seen, now: datetime) -> None:
        """Moves everything by one stage, as the instances that are seen have it; unless nothing can have changed."""
        self.now, self._there = now, {one.name: one for one in seen.instances}
        state = self.api.revision, [(one.id, one.leaving, one.ready <= seen.now) for one in seen.instances]
        if state == self._state and not self._gates.hold:
            return
        self._state, self._seconds = state, seen.now
        self.tick()

    def taken(self) -> tuple[tuple[Start, ...], tuple[int, ...]]:
        starts, stops = tuple(self.starts), tuple(self.stops)
        self.starts, self.stops = [], []
        return starts, stops

    def _terminate(self) -> None:
        """A pod ends when its instance has served what it had; one without an instance at once."""
        for path, pod in self.pods():
            if "deletionTimestamp" not in pod["metadata"]:
                continue
            here = self._there.get(path)
            if here is None:
                self.api.remove(path)
            elif not here.leaving:
                self.stops.append(here.id)

    def _start(self) -> None:
        """A pod is ready when its instance can serve."""
        for path, pod in self.pods():
            here = self._there.get(path)
            if here is not None and here.ready <= self._seconds and not pod["status"].get("conditions"):
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": self._stamp()}
                pod["status"]["conditions"] = [ready]
                self.api.touch(path)

    def _bind(self) -> None:
        """Each pod without a gate and a node, the oldest first, as kube-scheduler asks the extender about it."""
        self._tell()
        self._release()
        waiting = [
            (path, pod)
            for path, pod in self.pods()
            if not (pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates"))
            and "deletionTimestamp" not in pod["metadata"]
        ]
        for path, pod in sorted(waiting, key=lambda one: (one[1]["metadata"]["creationTimestamp"], one[0])):
            self._schedule(path, pod)
        self._tell()

    def _release(self) -> None:
        """Removes the gates of the pods whose turn it is."""
        by_uid = {pod["metadata"]["uid"]: (path, pod) for path, pod in self.pods()}
        for uid in self._gates.released():
            path, pod = by_uid[uid]
            pod["spec"]["schedulingGates"] = []
            self.api.touch(path)
        self._tell()

    def _schedule(self, path: str, pod: Json) -> None:
        wanted = pod["spec"].get("nodeSelector") or {}
        offered = [
            raw["metadata"]["name"]
            for _, raw in self.api.items("nodes")
            if wanted.items() <= raw["metadata"]["labels"].items()
        ]
        outcome = self.placer.filter(pod, offered)
        if not outcome.passed:
            self._refuse(path, pod, outcome.refusals)
            return
        (node,) = outcome.passed
        meta = pod["metadata"]
        booking = self.placer.fix_gpus(parse_pod(pod).placeable(), node)
        bound = binding(BindArgs(meta["name"], meta["namespace"], meta["uid"], node), booking, "")
        meta["annotations"] |= bound["metadata"]["annotations"]  # type: ignore[index]
        pod["spec"]["nodeName"] = node
        pod["status"].pop("conditions", None)
        self.api.touch(path)
        (gpu,) = booking.gpus
        self.starts.append(Start(meta["labels"][LABEL_SERVICE], f"{node}/{gpu}", path))

    def _refuse(self, path: str, pod: Json, refusals: Iterable[NodeRefusal]) -> None:
        """As kube-scheduler says it: each of the extender's texts behind the number of its nodes."""
        texts = Counter(texts_by_node(refusals).values())
        message = f"0/{texts.total()} nodes are available: {', '.join(f'{n} {text}' for text, n in texts.items())}."
        known: Json = next(iter(pod["status"].get("conditions") or ()), {})
        if known.get("message") == message:
            return
        since = known.get("lastTransitionTime") or self._stamp()
        words = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        pod["status"]["conditions"] = [{**words, "lastTransitionTime": since}]
        self.api.touch(path)

    def _stamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _tell(self) -> None:
        """Tells the placer of pods that have changed or are gone."""
        there = dict(self.pods())
        for path in self._told.keys() - there.keys():
            self._events.apply("DELETED", self._told.pop(path))
            del self._versions[path]
        for path, pod in there.items():
            version = pod["metadata"]["resourceVersion"]
            if self._versions.get(path) != version:
                self._events.apply("MODIFIED", pod)
                self._told[path], self._versions[path] = pod, version
