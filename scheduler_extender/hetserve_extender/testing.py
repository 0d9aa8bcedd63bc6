"""An API server in memory for tests: pods and nodes, bindings, guarded patches, watches, and lost answers."""

from __future__ import annotations

import asyncio
import copy
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from hetserve.api import names
from hetserve_shell.kube.client import NOT_SENT, Answer
from hetserve_shell.kube.connection import JSON, ApiUnreachableError, RawObject


class Unfenced:
    """What binds meet where nobody is elected: nothing, so that they name no resourceVersion."""

    def term(self) -> int | None:
        return 1

    def revision(self, uid: str) -> str | None:  # noqa: ARG002
        return ""

    def over(self, term: int | None) -> str:  # noqa: ARG002
        return ""


Fault = Literal["lost before", "lost after"] | int
"""What happens to a request: its answer is lost before or after it is carried out, or this status is answered."""
ANNOTATIONS_AT_MOST: Final = 256 << 10
"""Bytes of all keys and values that the API server takes; labels are bounded one by one."""
_LABEL_VALUE: Final = re.compile(r"(?=.{0,63}\Z)([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


@dataclass(slots=True)
class FakeApi:
    """Holds pods and nodes by path; `faults` are consumed one per request of that method."""

    objects: dict[str, RawObject] = field(default_factory=dict)
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    hold_binds: asyncio.Event | None = None
    bind_arrived: asyncio.Event = field(default_factory=asyncio.Event)
    revision: int = 1
    watchers: list[tuple[str, asyncio.Queue[bytes | Exception | None]]] = field(default_factory=list)

    def add(self, raw: RawObject) -> RawObject:
        """Create or replace an object, as another client would."""
        path = _path(raw)
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.revision += 1
        raw = copy.deepcopy(raw)
        raw["metadata"]["resourceVersion"] = str(self.revision)
        self.objects[path] = raw
        self._tell(kind, path, raw)
        return raw

    def remove(self, raw: RawObject) -> None:
        """Delete an object."""
        path = _path(raw)
        gone = self.objects.pop(path)
        self.revision += 1
        gone["metadata"]["resourceVersion"] = str(self.revision)
        self._tell("DELETED", path, gone)

    def pod(self, name: str, namespace: str = "default") -> RawObject:
        return self.objects[f"/api/v1/namespaces/{namespace}/pods/{name}"]

    def listing(self, collection: str) -> list[RawObject]:
        """Objects of /api/v1/pods, of a namespace's pods, or of /api/v1/nodes."""
        folder, kind = collection.rsplit("/", 1)
        return [raw for path, raw in self.objects.items() if path.split("/")[-2] == kind and path.startswith(folder)]

    def end_watches(self, with_error: Exception | None = None) -> None:
        """Close every open watch, with an error or as the server does when its time is up."""
        for _, queue in self.watchers:
            queue.put_nowait(with_error)
        self.watchers.clear()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,  # noqa: ARG002
        timeout: float = 10.0,  # noqa: ARG002, ASYNC109
        unless: Callable[[], str] | None = None,
    ) -> Answer:
        """Carry a request out, or not, as the faults say."""
        if unless is not None and (words := unless()):
            return _answer(NOT_SENT, {"message": words})
        self.calls.append((method, path, body))
        if method == "POST":
            self.bind_arrived.set()
            if self.hold_binds is not None:
                await self.hold_binds.wait()
        pending = self.faults.get(method)
        fault = pending.popleft() if pending else None
        if fault == "lost before":
            raise ApiUnreachableError("connection reset")
        if isinstance(fault, int):
            return _answer(fault, {"message": f"injected {fault}"})
        answer = self._serve(method, path, body, (query or {}).get("labelSelector"))
        if fault == "lost after":
            raise ApiUnreachableError("timeout")
        return answer

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        """Events from now on; a test ends it by `end_watches`."""
        queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.watchers.append((path, queue))
        while (item := await queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    def _serve(self, method: str, path: str, body: Any, selector: str | None) -> Answer:
        if method == "GET" and path.endswith(("/pods", "/nodes")):
            items = [raw for raw in self.listing(path) if _selected(raw, selector)]
            return _answer(200, {"metadata": {"resourceVersion": str(self.revision)}, "items": items})
        raw = self.objects.get(path.removesuffix("/binding"))
        if method == "PUT":
            return self._put(raw, body)
        if raw is None:
            return _answer(404, {"message": f"{path} not found"})
        if method == "POST":
            return self._bind(raw, body)
        if method == "PATCH":
            return self._patch(raw, body)
        return _answer(200, raw)

    def _put(self, raw: RawObject | None, body: Any) -> Answer:
        """As for a Lease: created where it is not there, else guarded by its resourceVersion."""
        known = (raw or {}).get("metadata", {}).get("resourceVersion")
        if body["metadata"].get("resourceVersion") != known:
            return _answer(409, {"message": "the object has been modified"})
        return _answer(200 if raw else 201, self.add(body))

    def _bind(self, raw: RawObject, body: Any) -> Answer:
        wanted = body["metadata"]
        if wanted.get("resourceVersion", raw["metadata"]["resourceVersion"]) != raw["metadata"]["resourceVersion"]:
            return _answer(409, {"message": "the resourceVersion in the precondition does not match"})
        if raw["metadata"]["uid"] != wanted["uid"]:
            return _answer(409, {"message": "the UID in the precondition does not match"})
        if raw["spec"].get("nodeName"):
            return _answer(409, {"message": f"pod {wanted['name']} is already assigned to a node"})
        if raw["spec"].get("schedulingGates"):
            return _answer(409, {"message": f"pod {wanted['name']} has non-empty .spec.schedulingGates"})
        bound = copy.deepcopy(raw)
        bound["spec"]["nodeName"] = body["target"]["name"]
        bound["metadata"].setdefault("annotations", {}).update(wanted.get("annotations", {}))
        self.add(bound)
        return _answer(201, {})

    def _patch(self, raw: RawObject, operations: Any) -> Answer:
        changed = copy.deepcopy(raw)
        if isinstance(operations, dict):
            return self._merge(changed, operations["metadata"])
        for operation in operations:
            *parents, last = operation["path"].strip("/").split("/")
            target: Any = changed
            for part in parents:
                target = target[part]
            if operation["op"] == "test" and target.get(last) != operation["value"]:
                return _answer(422, {"message": f"testing value {operation['path']} failed"})
            if operation["op"] == "remove":
                del target[last]
        self.add(changed)
        return _answer(200, changed)

    def _merge(self, raw: RawObject, metadata: Any) -> Answer:
        """A merge patch of labels and annotations; a UID in it is a precondition."""
        if metadata.get("uid", raw["metadata"]["uid"]) != raw["metadata"]["uid"]:
            return _answer(409, {"message": "the UID in the precondition does not match"})
        for part in ("labels", "annotations"):
            merged = (raw["metadata"].get(part) or {}) | (metadata.get(part) or {})
            raw["metadata"][part] = {key: value for key, value in merged.items() if value is not None}
        if words := _invalid(raw["metadata"]):
            return _answer(422, {"message": words})
        return _answer(200, self.add(raw))

    def _tell(self, kind: str, path: str, raw: RawObject) -> None:
        line = orjson.dumps({"type": kind, "object": raw})
        collection = "/api/v1/" + path.split("/")[-2]
        for watched, queue in self.watchers:
            if watched == collection:
                queue.put_nowait(line)


@dataclass
class BusyApi(FakeApi):
    """Where something happens just before each request is carried out."""

    happening: Callable[[str], None] = lambda _method: None

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        self.happening(method)
        return await super().request(method, path, **rest)


def released_lease(namespace: str = names.SYSTEM_NAMESPACE, name: str = "hetserve-extender") -> RawObject:
    """The Lease of a leader that ended in order: the next leads at once."""
    metadata = {"namespace": namespace, "name": name, "uid": "uid-lease"}
    spec = {"holderIdentity": "", "leaseDurationSeconds": 3, "renewTime": "2026-01-01T00:00:00.000000Z"}
    return {"kind": "Lease", "metadata": metadata, "spec": spec}


def _invalid(metadata: RawObject) -> str:
    """What the API server would say of these labels and annotations; empty where it takes them."""
    if sum(len(key) + len(value) for key, value in metadata["annotations"].items()) > ANNOTATIONS_AT_MOST:
        return f"metadata.annotations: Too long: may not be more than {ANNOTATIONS_AT_MOST} bytes"
    odd = [value for value in metadata["labels"].values() if not _LABEL_VALUE.fullmatch(value)]
    return f"metadata.labels: Invalid value: {odd[0]!r}" if odd else ""


def _selected(raw: RawObject, selector: str | None) -> bool:
    """Whether an object has the one label that the selector names (none: all have)."""
    if selector is None:
        return True
    key, _, value = selector.partition("=")
    return (raw["metadata"].get("labels") or {}).get(key) == value


def _path(raw: RawObject) -> str:
    metadata = raw["metadata"]
    if raw.get("kind") == "Lease":
        return f"/apis/coordination.k8s.io/v1/namespaces/{metadata['namespace']}/leases/{metadata['name']}"
    if "namespace" in metadata:
        return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    return f"/api/v1/nodes/{metadata['name']}"


def _answer(status: int, content: object) -> Answer:
    return Answer(status, orjson.dumps(content))
