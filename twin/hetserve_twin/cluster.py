"""What the twin sees of the cluster: services and their pods, and the GPUs of nodes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from hetserve.base.units import MiB, Millionths
from hetserve.reconcile.cluster.observed import NodeFact, PodFact, node_fact, pod_fact
from hetserve_services.discovery import ServiceDiscovery
from hetserve_services.facts import Key, Place, ReadyPod
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.informer import UNFINISHED_PODS, Reflector
from hetserve_shell.kube.store import Store
from hetserve_twin.devices import Device


class Cluster(ServiceDiscovery):
    """What is found of the services that are played, and of nodes. keys: those services."""

    def __init__(self, api: ApiServer, keys: Collection[Key], slowdown: Millionths) -> None:
        super().__init__(api, frozenset(keys), slowdown)
        self.nodes: Store[NodeFact] = Store(node_fact)
        self.pods: Store[PodFact] = Store(pod_fact, lambda pod: pod.unread)
        self.reflectors.append(Reflector(api, "/api/v1/nodes", self.nodes))
        self.reflectors.append(Reflector(api, "/api/v1/pods", self.pods, UNFINISHED_PODS))
        self.pods.subscribe(lambda _before, _after: self.moved.set())

    def ready(self) -> Iterator[ReadyPod]:
        """Pods of services that are Ready and not being deleted."""
        for pod in self.pods:
            if pod.ready and not pod.terminating and pod.service and pod.instance_type and pod.node:
                key = (pod.namespace, pod.service)
                if key in self._matters:
                    yield ReadyPod(pod.uid, pod.name, key, pod.instance_type, tuple(_places(pod)))

    def devices(self) -> list[Device]:
        """GPUs of all nodes, with the memory that pods have taken: so many MiB, or all of it."""
        taken: dict[Place, float] = {}
        for pod in self.pods:
            for place in _places(pod):
                taken[place] = taken.get(place, 0) + (math.inf if pod.whole_gpu else pod.gpu_memory)
        return [
            Device(node.name, gpu.id, index, gpu.product, gpu.memory_mib, MiB(int(min(used, gpu.memory_mib))))
            for node in sorted(self.nodes, key=lambda node: node.name)
            for index, gpu in enumerate(node.gpus)
            for used in (taken.get((node.name, gpu.id), 0),)
        ]


def _places(pod: PodFact) -> Iterator[Place]:
    if pod.node and pod.gpu:
        for gpu in pod.gpu.split(","):
            yield pod.node, gpu
