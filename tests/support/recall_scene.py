"""Refused pods before full nodes, and a requeuer that a test lets run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.requeue.requeuer import Requeuer
from testing.cluster import gpu_node, gpu_pod
from testing.kit.apiserver import FakeApiServer

Json = dict[str, Any]
NODES = ("n0", "n1")


@dataclass
class Scene:
    """Two nodes with one GPU each, full of pods `a` and `b`; the watch shows what a test lets it."""

    api: FakeApiServer = field(default_factory=FakeApiServer)
    clock: list[float] = field(default_factory=lambda: [0.0])
    outcomes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.placer = Placer(clock=lambda: Seconds(self.clock[0]), hold=Seconds(30.0))
        numbers = iter(range(10_000))
        self.requeuer = Requeuer(
            self.api,
            self.placer,
            lambda: str(next(numbers)),
            clock=lambda: self.clock[0],
            on_requeue=self.outcomes.append,
        )
        self.placer.on_change = self.requeuer.wake
        for name, node in zip("ab", NODES, strict=True):
            self.api.add(gpu_node(node, gpus=1))
            self.api.add(gpu_pod(name, node=node, gpu="0", memory_mib=32768, model=name))
        NodeEventHandler(self.placer).replace(self.api.listing("/api/v1/nodes"))
        PodEventHandler(self.placer).replace(self.api.listing("/api/v1/pods"))

    def pod(self, name: str, mib: int = 4096, **fields: Any) -> Json:
        """A pod that the watch has shown."""
        raw = self.api.add(gpu_pod(name, **{"memory_mib": mib, "model": name, **fields}))
        PodEventHandler(self.placer).apply("ADDED", raw)
        return raw

    def equals(self, count: int) -> list[Json]:
        """Refused pods of one kind."""
        pods = [self.pod(f"p{number}", 20000, model=None) for number in range(count)]
        for raw in pods:
            assert not self.filter(raw)
        return pods

    def filter(self, raw: Json, *offered: str) -> bool:
        """The filter verb; whether the pod was placed."""
        passed = self.placer.filter(raw, offered or NODES).passed
        self.requeuer.answered(raw, offered or NODES, placed=bool(passed))
        return bool(passed)

    def end(self, name: str) -> None:
        """The watch shows that a pod is gone."""
        PodEventHandler(self.placer).apply("DELETED", gpu_pod(name))

    def remembered(self) -> list[str]:
        return list(self.requeuer.refused.pods)

    def patched(self) -> list[str]:
        """Names of the pods to which a patch went, whatever became of it."""
        return [path.rsplit("/", 1)[-1] for method, path, _ in self.api.calls if method == "PATCH"]

    def recalled(self) -> list[str]:
        """Names of the pods that carry the annotation, in the order of the patches."""
        there = {one["metadata"]["name"]: one["metadata"]["annotations"] for one in self.api.listing("/api/v1/pods")}
        return [name for name in self.patched() if names.ANNOTATION_RECALLED in there.get(name, {})]
