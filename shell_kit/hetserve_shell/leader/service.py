"""What a leader behind a Service needs: the label that finds it, a probe of itself, and an orderly end of calls.

Nothing else tells a leader that nobody reaches it, and it must not go on renewing its Lease then: the Lease has a
connection of its own, and the probes a port of their own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from hetserve_shell.http.client import HttpClient
from hetserve_shell.kube.client import MERGE_PATCH, ApiServer, pod_path
from hetserve_shell.kube.connection import ApiUnreachableError

log = logging.getLogger(__name__)

LABELLED_EVERY: Final = 2.0
"""Seconds between two looks: a label that a paused leader wrote late sends calls astray only so long."""
_LABEL_TIMEOUT: Final = 2.0


@dataclass(slots=True)
class LeaderLabel:
    """Keeps `label` on the pod `name` of `namespace` while it leads: only the way of calls depends on it.

    `worn`: whether it was ever put on, so that calls may be on their way.
    """

    api: ApiServer
    label: str
    namespace: str
    name: str
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def keep(self) -> None:
        """Never returns: the label is on our pod and on no other."""
        while True:
            try:
                await self._settle()
            except ApiUnreachableError as error:
                log.warning("label %s: %s", self.label, error)
            await self.sleep(LABELLED_EVERY)

    async def _settle(self) -> None:
        query = {"labelSelector": f"{self.label}=true"}
        collection = pod_path(self.namespace, "").removesuffix("/")
        answer = await self.api.request("GET", collection, query=query, timeout=_LABEL_TIMEOUT)
        if not answer.ok:
            log.warning("label %s: %s", self.label, answer.message)
            return
        labelled = {str(raw["metadata"]["name"]) for raw in answer.json().get("items") or []}
        if self.name not in labelled:
            await self._patch(self.name, "true")
        for other in sorted(labelled - {self.name}):
            await self._patch(other, None)

    async def _patch(self, name: str, value: str | None) -> None:
        patch = {"metadata": {"labels": {self.label: value}}}
        path = pod_path(self.namespace, name)
        answer = await self.api.request("PATCH", path, body=patch, content_type=MERGE_PATCH, timeout=_LABEL_TIMEOUT)
        if not answer.ok and answer.status != 404:
            log.warning("label %s on %s: %s", self.label, name, answer.message)


PROBED_EVERY: Final = 1.0
WITHIN: Final = 2.0
"""Seconds for an answer of our own, which takes none. At the least: where `renewDeadline` is longer it is that, so that
a machine that is busy for less than it takes to lose the Lease deposes nobody."""
IN_A_ROW: Final = 3
"""Probes that fail before we count as unfit: one alone may come from a moment of a busy machine. And as many that do
not before we count as fit: by then another has had the time to take the Lease, if there is one."""
SPARE: Final = 8
"""Descriptors that serving takes at the least: where there is no port to probe, these can be had."""
_CHUNK: Final = 65536

Address = tuple[str, int]


@dataclass(slots=True)
class SelfProbe:
    """Probes ourselves again and again; `probe` says what is wrong, empty where nothing is."""

    probe: Callable[[], Awaitable[str]]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _message: str = ""
    """What was wrong at the last probe that failed."""
    _unfit: bool = False
    _other: int = 0
    """Probes in a row that say otherwise."""

    def unfit(self) -> str:
        """Why this process must not lead, in words; empty where it may."""
        return f"it cannot serve: {self._message}" if self._unfit else ""

    def note(self, message: str) -> None:
        """Take what one probe has shown."""
        self._message = message or self._message
        self._other = self._other + 1 if bool(message) != self._unfit else 0
        if self._other < IN_A_ROW:
            return
        self._unfit, self._other = not self._unfit, 0
        if self._unfit:
            log.error("%s; the Lease is left to others", self.unfit())
        else:
            log.info("it can serve again")

    async def run(self, stop: asyncio.Event) -> None:
        """Probe until `stop`: a port that is closed in order must not keep the Lease from the next."""
        while not stop.is_set():
            message = await self.probe()
            if not stop.is_set():
                self.note(message)
                await self.sleep(PROBED_EVERY)


async def reach(address: Address | None, renew_deadline: float = 0.0, *, tls: bool = False) -> str:
    """Why nobody reaches our port, asked over a new connection; None: the port is not ours, are there descriptors?

    `renew_deadline` [s]: for how long a leader leads without renewing; an answer may take as long. `tls`: we have no
    client's certificate, so the server's part of a handshake is the answer.
    """
    within = max(WITHIN, renew_deadline)
    try:
        if address is None:
            with ExitStack() as stack:
                for _ in range(SPARE):
                    stack.enter_context(socket.socket())
            return ""
        if tls:
            return await _greet(address, within)
        status = await _ask(address, within)
    except OSError as error:
        return str(error) or f"no answer within {within:g} s"
    return "" if status == 200 else f"its own port answers {status}"


async def _ask(address: Address, within: float) -> int:
    host, port = address
    client = HttpClient(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}", None, 1)
    try:
        status, _ = await client.request("POST", "/healthz", headers={}, timeout=within)
    finally:
        client.close()
    return status


async def _greet(address: Address, within: float) -> str:
    """Why the port does not do its part of a handshake; empty if it does. Ours is not sent: nobody is refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(received, to_send)
    writer = None
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_connection(*address)
            while not _shaken(client):
                writer.write(to_send.read())
                data = await reader.read(_CHUNK)
                if not data:
                    return "its own port closes in the middle of a handshake"
                received.write(data)
    except ssl.SSLError as error:
        return f"its own port speaks no TLS: {error.reason}"
    finally:
        if writer is not None:
            writer.close()
    return ""


def _shaken(client: ssl.SSLObject) -> bool:
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


AT_ONCE: Final = struct.pack("ii", 1, 0)
"""Value of SO_LINGER: a connection that is closed is reset."""


async def refuse_calls(
    listener: socket.socket,
    quiet: float,
    least: float,
    within: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> int:
    """Refuses calls until none came for a while, and closes the listener.

    Nodes take a while to learn that calls go to another pod. The address of a pod that is gone answers nothing, and the
    scheduler waits for its whole timeout; a pod whose call is refused it tries again after a second.

    Args:
        listener: Takes the calls.
        quiet: Seconds without a call after which the nodes are believed to know.
        least: Seconds that it stays though none comes: with no pod to place the scheduler calls nobody.
        within: Seconds after which it ends whatever comes.
        clock: Seconds.
        sleep: Waits for so many of them.

    Returns:
        How many calls came.
    """
    came = [began := clock()]

    def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(clock())
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        writer.transport.abort()

    async with await asyncio.start_server(refuse, sock=listener):
        while (left := min(max(came[-1] + quiet, began + least), began + within) - clock()) > 0:
            await sleep(left)
    log.info("refused %d calls that came after the Lease was given up", len(came) - 1)
    return len(came) - 1
