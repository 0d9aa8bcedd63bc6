"""Two processes of a router with their pods, and clients whom the label leads to one of them, as a Service would."""

from __future__ import annotations

import select
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Final

from harness import limits
from harness.beside import ROUTER, ROUTER_ENTRY
from harness.cluster import Cluster
from harness.components import HOST, STANDBY
from harness.kube import Kube
from harness.serving import query_of
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE
from hetserve_router.cluster import LEADER_LABEL

BOTH: Final = (ROUTER, f"{ROUTER}-{STANDBY}")
LABEL: Final = f"{LEADER_LABEL}{ROUTER_ENTRY}"
NOWHERE: Final = "no endpoint"


def pods() -> list[dict[str, object]]:
    """What the label is put on; no node runs them."""
    spec = {"schedulerName": "none", "containers": [{"name": "router", "image": "none"}]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": {"hetserve.io/router": ROUTER_ENTRY}},
            "spec": spec,
        }
        for name in BOTH
    ]


def labelled(kube: Kube) -> str:
    """The process to whose pod the Service leads; empty: there is none, or there are two."""
    found = kube.list("pods", SYSTEM_NAMESPACE, labels=f"{LABEL}=true")
    return str(found[0]["metadata"]["name"]) if len(found) == 1 else ""


@dataclass(frozen=True, slots=True)
class Ended:
    """A query: when it was asked and ended [s], and how: its status, or the error in place of one. router: asked."""

    asked: float
    at: float
    outcome: str
    router: str


@dataclass(eq=False)
class RoutedClients:
    """Each asks again once it is answered, by a connection that it keeps while the router does.

    way: the process to which new connections lead. pause: of each before it asks again [s]. ended: queries, in order.
    """

    cluster: Cluster
    host: str
    model: str
    pause: float = 0.0
    way: str = ""
    ended: list[Ended] = field(default_factory=list)
    _stops: threading.Event = field(default_factory=threading.Event)

    def more(self, answers: int, router: str = "") -> None:
        """Waits for so many answers, of this process if one is named, to queries that are asked from now on."""
        now = time.monotonic()

        def answered() -> bool | Unmet:
            found = [one for one in self.since(now) if one.outcome == "200" and router in {"", one.router}]
            return len(found) >= answers or Unmet(f"{len(found)} of {Counter(one.outcome for one in self.since(now))}")

        wait_until(answered, limits.ROLLOUT, f"{answers} answers of {router or 'any router'}")

    def since(self, moment: float) -> list[Ended]:
        """Those that were asked from then on."""
        return [one for one in self.ended if one.asked >= moment]

    def outcomes(self) -> dict[str, int]:
        return dict(Counter(one.outcome for one in self.ended))

    def follow(self) -> None:
        """As kube-proxy does, goes on with what it knows where the API server does not answer."""
        kube = Kube(self.cluster.folder.kubeconfig)
        while not self._stops.wait(0.02):
            with suppress(Exception):
                self.way = labelled(kube)
        kube.close()

    def ask_on(self) -> None:
        connection, router = None, ""
        while not self._stops.is_set():
            if connection is not None and _is_closed(connection):
                connection.close()
                connection = None
            if connection is None:
                router = self.way
                connection = HTTPConnection(HOST, self._port(router), timeout=limits.REACTION)
                with suppress(OSError):
                    connection.connect()
            asked = time.monotonic()
            outcome = self._ask(connection) if router else NOWHERE
            self.ended.append(Ended(asked, time.monotonic(), outcome, router))
            if outcome != "200":
                connection.close()
                connection = None
                self._stops.wait(0.05)
            self._stops.wait(self.pause)
        if connection is not None:
            connection.close()

    def stop(self) -> None:
        self._stops.set()

    def _port(self, router: str) -> int:
        return self.cluster.ports.router_standby if router.endswith(STANDBY) else self.cluster.ports.router

    def _ask(self, connection: HTTPConnection) -> str:
        """The status, or the name of the error."""
        try:
            connection.request("POST", f"/v2/models/{self.model}/infer", query_of(1), {"host": self.host})
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException) as error:
            return type(error).__name__
        return str(answer.status)


def _is_closed(connection: HTTPConnection) -> bool:
    """Whether one on which nothing is asked has ended, by its last answer or by the other side."""
    return connection.sock is None or bool(select.select([connection.sock], [], [], 0)[0])


@contextmanager
def asking(cluster: Cluster, namespace: str, service: str, model: str, pause: float = 0.0) -> Iterator[RoutedClients]:
    """Four clients of a service during the block, and a second router; every query has ended after it."""
    made = RoutedClients(cluster, f"{service}.{namespace}", model, pause)
    cluster.kube.apply_all(pods())
    cluster.start_component(BOTH[1])
    threads = [threading.Thread(target=made.follow, daemon=True)]
    threads[0].start()
    wait_until(lambda: bool(made.way) or Unmet("no label"), limits.REACTION, "a router that leads")
    threads += [threading.Thread(target=made.ask_on, daemon=True) for _ in range(4)]
    for thread in threads[1:]:
        thread.start()
    try:
        yield made
    finally:
        made.stop()
        for thread in threads:
            thread.join(timeout=2 * limits.REACTION)
        cluster.stop_component(BOTH[1])
        for name in BOTH:
            cluster.kube.delete("pods", name, SYSTEM_NAMESPACE)
