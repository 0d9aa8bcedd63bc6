"""The kubelet of pods that run the reference worker: a process for each, at an address of its own on loopback.

python -c 'from harness.kubelet import main; main()' KUBECONFIG NETWORK LOGS

KWOK plays everything else: by the annotation WORKER its Stages (stages-workers.yaml) give a pod its IP and make it
Ready. A worker is forked from a process that has imported it, so it takes a few MiB and starts at once. As a kubelet
does, this one starts a worker anew that ended, asks whether it is ready, and sends SIGTERM when its pod is deleted.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Final

from harness.ports import BLOCK, FIRST, Ports
from hetserve.objects.metadata import RawObject
from hetserve.objects.pod import Pod
from hetserve_shell.kube.client import ApiServer, KubernetesApi, pod_path
from hetserve_shell.kube.connection import ApiConnection, ApiUnreachableError
from hetserve_shell.kube.informer import Reflector
from hetserve_shell.kube.store import Store

log = logging.getLogger(__name__)

IMAGE: Final = "hetserve/worker"
"""In the name of the image of a container that is run."""
WORKER: Final = "harness.hetserve.io/worker"
"""Annotation: the address of a worker that is ready."""
PID: Final = "harness.hetserve.io/pid"
"""Annotation beside it."""
UNREADY: Final = "harness.hetserve.io/unready"
"""Annotation with which a test makes a pod unready whose worker is well."""
PROBE_EVERY: Final = 1.0
"""Seconds between two questions of whether a worker is ready, and for the answer; until the first, a tenth of it."""
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  (of the pod's network, which is one address here)


def network(ports: Ports) -> str:
    """The first three bytes of the addresses of a cluster's pods: no two clusters of this machine share them."""
    block = (ports.etcd - FIRST) // BLOCK
    return f"127.{77 + block // 256}.{block % 256}"


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """A bound pod with a worker's container. grace: seconds from its deletion to its end; None: it is not deleted."""

    uid: str
    name: str
    namespace: str
    arguments: tuple[str, ...]
    grace: float | None


def worker_pod(raw: RawObject) -> WorkerPod | None:
    """None: no container of it is run, or it is not bound. `$(NAME)` in arguments: value, or a label by its fieldRef."""
    pod = Pod(raw)
    found = [one for one in raw["spec"]["containers"] if IMAGE in one.get("image", "")]
    if not found or not pod.node:
        return None
    values = {one["name"]: _value(one, pod.labels) for one in found[0].get("env") or ()}
    arguments = [re.sub(r"\$\((\w+)\)", lambda name: values[name[1]], text) for text in found[0].get("args") or ()]
    grace = float(raw["metadata"].get("deletionGracePeriodSeconds") or 0) if pod.terminating else None
    return WorkerPod(pod.uid, pod.name, pod.namespace, tuple(arguments), grace)


def _value(variable: RawObject, labels: Mapping[str, object]) -> str:
    path = (variable.get("valueFrom") or {}).get("fieldRef", {}).get("fieldPath", "")
    label = re.fullmatch(r"metadata\.labels\['(.+)'\]", path)
    return str(labels.get(label[1], "") if label else variable.get("value", ""))


def _work(arguments: Sequence[str], path: str) -> None:
    """In the worker's process, which ends with the kubelet."""
    from hetserve_worker.main import main as worker  # noqa: PLC0415

    with Path(path).open("ab") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (connection.wait([parent.sentinel]), os._exit(1)), daemon=True).start()
    worker(list(arguments))


def _forks() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    # Its server reads no other path.
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    context.set_forkserver_preload(["harness.kubelet", "hetserve_worker.main"])
    return context


@dataclass(eq=False)
class Kubelet:
    """api: of the administrator. network: as of `network`. logs: folder of the workers' output."""

    api: ApiServer
    network: str
    logs: Path
    _pods: Store[WorkerPod] = field(default_factory=lambda: Store(worker_pod))
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _addresses: dict[str, str] = field(default_factory=dict)
    """By uid of a pod whose worker is kept."""
    _next: itertools.cycle[int] = field(default_factory=lambda: itertools.cycle(range(1, 255)))
    _context: ForkServerContext = field(default_factory=_forks)

    async def run(self) -> None:
        """Never returns."""
        self._pods.subscribe(lambda _before, _after: self._changed.set())
        async with asyncio.TaskGroup() as group:
            group.create_task(Reflector(self.api, "/api/v1/pods", self._pods).run())
            while True:
                for pod in self._pods:
                    if pod.uid not in self._addresses and pod.grace is None:
                        self._addresses[pod.uid] = self._free_address()
                        group.create_task(self._keep(pod))
                await self._changed.wait()
                self._changed.clear()

    def _free_address(self) -> str:
        used = set(self._addresses.values())
        return next(found for last in self._next if (found := f"{self.network}.{last}") not in used)

    def _now(self, pod: WorkerPod) -> WorkerPod | None:
        return next((one for one in self._pods if one.uid == pod.uid), None)

    async def _keep(self, pod: WorkerPod) -> None:
        """Runs the worker of a pod until that is deleted, and then what its grace allows."""
        address, was_ready, process = self._addresses[pod.uid], False, self._start(pod)
        while (now := self._now(pod)) is not None and now.grace is None:
            if not process.is_alive():
                log.warning("%s/%s: its worker ended with %s", pod.namespace, pod.name, process.exitcode)
                process = self._start(pod)
            is_ready = await _is_ready(address, _port(pod))
            if is_ready != was_ready and await self._annotate(pod, address if is_ready else None, process.pid):
                was_ready = is_ready
            await asyncio.sleep(PROBE_EVERY if was_ready else PROBE_EVERY / 10)
        await self._end(process, 0.0 if now is None else now.grace or 0.0)
        await self._annotate(pod, None, None)
        del self._addresses[pod.uid]

    def _start(self, pod: WorkerPod) -> ForkServerProcess:
        given = [text.replace(ANY_ADDRESS, self._addresses[pod.uid]) for text in pod.arguments]
        process = self._context.Process(target=_work, args=(given, str(self.logs / f"worker-{pod.name}.log")))
        process.start()
        return process

    async def _end(self, process: ForkServerProcess, grace: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                process.terminate()
                while process.is_alive():
                    await asyncio.sleep(0.02)
        process.kill()
        await asyncio.to_thread(process.join)

    async def _annotate(self, pod: WorkerPod, address: str | None, pid: int | None) -> bool:
        annotations = {WORKER: address, PID: str(pid) if address else None}
        patch = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        with suppress(ApiUnreachableError):
            path = pod_path(pod.namespace, pod.name)
            await self.api.request("PATCH", path, body=patch, content_type="application/merge-patch+json")
            return True
        return False


def _port(pod: WorkerPod) -> int:
    return int(pod.arguments[pod.arguments.index("--listen") + 1].rpartition(":")[2])


async def _is_ready(address: str, port: int) -> bool:
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(PROBE_EVERY):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(b"GET /v2/health/ready HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n")
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    return False


async def _serve(kubeconfig: Path, given: str, logs: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    api = await ApiConnection.connect(kubeconfig, user_agent="harness-kubelet")
    running = asyncio.create_task(Kubelet(KubernetesApi(api), given, logs).run())
    await asyncio.wait([running, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()


def main() -> None:
    """Ends at SIGTERM, and the workers with it."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    kubeconfig, given, logs = sys.argv[1:]
    asyncio.run(_serve(Path(kubeconfig), given, Path(logs)))
