"""The twin's parts put together: watches, the play in real time, and the port of probes and metrics."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from hetserve.base.units import MiB, Millionths, Seconds
from hetserve.demand import contract
from hetserve.reconcile.cluster.observed import NodeFact, PodFact, node_fact, pod_fact
from hetserve_services.discovery import ServiceDiscovery
from hetserve_services.exposition import Families, ServingCollector, metrics_text
from hetserve_services.facts import Key, Place, ReadyPod
from hetserve_shell.http.probes import LIMITS, probe_server
from hetserve_shell.http.server import allotted, listen
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.informer import UNFINISHED_PODS, Reflector
from hetserve_shell.kube.reviews import check_of
from hetserve_shell.kube.store import Store
from hetserve_twin.devices import Device
from hetserve_twin.engine import LoadTwin, TracedLoad, compile_loop
from hetserve_twin.settings import TwinSettings


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


TARGET: Final = "hetserve_twin_target_qps"
LAG: Final = "hetserve_twin_lag_seconds"


class TwinCollector(ServingCollector):
    """Metrics of a twin; devices: the GPUs that there are. lag: seconds that the play is behind."""

    def __init__(self, twin: LoadTwin, devices: Callable[[], Iterable[Device]], lag: Callable[[], float]) -> None:
        super().__init__(twin.services, twin.instances, lambda: twin.now)
        self._twin, self._devices, self._lag = twin, devices, lag

    def _own(self) -> list[Metric]:
        gpu = contract.GPU_LABELS
        return [
            GaugeMetricFamily(contract.GPU_UTILISATION, "GPU utilization (in %).", labels=gpu),
            GaugeMetricFamily(contract.GPU_MEMORY_USED, "Framebuffer memory used (in MiB).", labels=gpu),
            GaugeMetricFamily(contract.GPU_MEMORY_FREE, "Framebuffer memory free (in MiB).", labels=gpu),
            GaugeMetricFamily(TARGET, "Rate of the trace now, queries/s.", labels=contract.SERVICE_LABELS),
            GaugeMetricFamily(LAG, "Time by which the play is behind."),
        ]

    def _add_own(self, families: Families) -> None:
        for figures in self._twin.services.values():
            families[TARGET].add_metric((*figures.key, figures.model), figures.rate)
        for device in self._devices():
            self._add_device(families, device)
        families[LAG].add_metric([], self._lag())

    def _add_device(self, families: Families, device: Device) -> None:
        labels = [str(device.index), device.id, f"nvidia{device.index}", device.product, device.node]
        percent = self._twin.devices.percent.get(device.place, 0.0)
        families[contract.GPU_UTILISATION].add_metric(labels, percent)
        families[contract.GPU_MEMORY_USED].add_metric(labels, device.used)
        families[contract.GPU_MEMORY_FREE].add_metric(labels, device.memory - device.used)


log = logging.getLogger(__name__)

DRAIN_WITHIN: Final = Seconds(5.0)
"""Seconds for the answers to what has arrived, when the process ends."""
PROBES_DRAIN_WITHIN: Final = 3.0
NOT_SYNCED: Final = "the objects of the cluster are not listed yet"
NOT_PLAYING: Final = "the play has not begun yet"


class Twin:
    """The parts of a twin. loads: what is played, by service. clock, sleep: of real time, in seconds.

    review_api: connections that ask who may read the port.
    """

    def __init__(
        self,
        settings: TwinSettings,
        loads: Mapping[Key, TracedLoad],
        api: ApiServer,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        *,
        review_api: ApiServer | None = None,
    ) -> None:
        self.settings = settings
        self._check = check_of(settings.probe_authorization, review_api or api)
        self.engine = LoadTwin(loads, settings.policy, settings.speed, settings.seed, Seconds(settings.timeout))
        self.cluster = Cluster(api, loads.keys(), settings.max_slowdown)
        self.address: tuple[str, int] | None = None
        self.playing = asyncio.Event()
        self._clock, self._sleep = clock, sleep
        self._began = 0.0
        self._collector = TwinCollector(self.engine, self.cluster.devices, self.lag)

    def lag(self) -> float:
        """Seconds by which the play is behind the clock."""
        return max(self._clock() - self._began - self.engine.now, 0.0) if self.playing.is_set() else 0.0

    def not_ready(self) -> str:
        """Why /readyz fails; empty if it does not."""
        if not all(reflector.synced.is_set() for reflector in self.cluster.reflectors):
            return NOT_SYNCED
        return "" if self.playing.is_set() else NOT_PLAYING

    async def run(self, stop: asyncio.Event) -> None:
        """Plays until `stop` is set and what has arrived is served, or DRAIN_WITHIN has passed."""
        limits = replace(LIMITS, connections=allotted({"probes": LIMITS.connections})["probes"])
        probes = probe_server(self.text, self.not_ready, limits=limits, check=self._check)
        listener = listen(self.settings.host, self.settings.port)
        self.address = listener.getsockname()[:2]
        log.info("metrics on %s:%d", *self.address)
        await probes.start(listener)
        try:
            async with asyncio.TaskGroup() as group:
                watches = [group.create_task(reflector.run()) for reflector in self.cluster.reflectors]
                playing = group.create_task(self._play())
                await stop.wait()
                log.info("stopping")
                playing.cancel()
                await self._drain()
                for task in watches:
                    task.cancel()
        finally:
            await probes.stop(PROBES_DRAIN_WITHIN)

    async def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return metrics_text(self._collector)

    async def _play(self) -> None:
        await self.cluster.synced()
        for policy in {self.settings.policy} | {facts.policy for _, facts in self.cluster.declared() if facts.policy}:
            await asyncio.to_thread(compile_loop, policy)
        self._began = self._clock()
        self.look()
        self.playing.set()
        while True:
            await self._slice()

    async def _slice(self) -> None:
        await self._sleep(self.settings.slice)
        self.look()
        self.engine.advance(Seconds(self._clock() - self._began))

    def look(self) -> None:
        """Takes over what has changed in the cluster."""
        redeclared, moved = self.cluster.redeclared, self.cluster.moved
        if redeclared.is_set():
            self.engine.declare(facts for _, facts in self.cluster.declared())
        if redeclared.is_set() or moved.is_set():
            self.engine.stand(self.cluster.ready())
        redeclared.clear()
        moved.clear()

    async def _drain(self) -> None:
        """Lets nothing more arrive; plays on until all is answered, so that the last scrape shows it."""
        if not self.playing.is_set():
            return
        self.engine.close()
        until = self._clock() + DRAIN_WITHIN
        while self.engine.in_flight and self._clock() < until:
            await self._slice()
