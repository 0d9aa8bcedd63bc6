"""An API server in memory: UIDs, generations, resourceVersions, preconditions, selectors, pages, watches, bindings.

Also JSON, merge and apply patches with managers, dry runs, and defaults of Deployments. No schemas, no admission. Field
selectors work in lists only. `faults`, `before` and `after` make requests fail.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from hetserve_shell.kube.client import APPLY_PATCH, JSON_PATCH, NOT_SENT, Answer, ApiStatusError
from hetserve_shell.kube.connection import JSON, ApiUnreachableError
from testing.kit.deployments import applied, as_fields, copied, defaulted, schema_refusal
from testing.kit.patches import json_patched, merged
from testing.kit.watch_cache import WatchCache, listed

Json = dict[str, Any]
Fault = Literal["lost before", "lost after"] | int
"""Loses the answer before or after the request is carried out, or answers with this status."""
Hook = Callable[[str, str, Any], None]
"""Called with method, path and query of a write; its exception is the answer."""
ANNOTATIONS_AT_MOST: Final = 256 << 10  # bytes
_LABEL_VALUE: Final = re.compile(r"(?=.{0,63}\Z)([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_CREATED_BY_PUT: Final = "leases"
_NO_GENERATION: Final = ("pods", "nodes", "leases")


@dataclass
class FakeApiServer:
    """Objects by path (`/apis/.../deployments/NAME`).

    statuses: initial status by plural name. faults: by method, one per request. calls: requests with bodies; writes:
    those that changed something or tried to.
    """

    objects: dict[str, Json] = field(default_factory=dict)
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    writes: list[tuple[str, str]] = field(default_factory=list)
    before: list[Hook] = field(default_factory=list)
    after: list[Hook] = field(default_factory=list)
    hold_binds: asyncio.Event | None = None
    bind_arrived: asyncio.Event = field(default_factory=asyncio.Event)
    revision: int = 1
    watchers: list[tuple[str, asyncio.Queue[bytes | Exception | None]]] = field(default_factory=list)
    """Path and lines of each open watch; an exception breaks it, None ends it."""
    statuses: Mapping[str, Json] = field(default_factory=dict)
    cache: WatchCache = field(default_factory=WatchCache)
    """What lists are answered from that need not be the latest."""
    _uids: int = 0

    # What tests do as somebody with every right

    def add(self, raw: Mapping[str, Any]) -> Json:
        return self.put(path_of(raw), raw)

    def put(self, path: str, raw: Mapping[str, Any]) -> Json:
        """Creates or replaces the object at a path; it keeps its UID unless `raw` has another."""
        found = self.objects.get(path)
        fresh = copied(dict(raw))
        meta = fresh["metadata"]
        if found is not None and meta.get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            found = None
        if meta.get("uid") is None:
            meta["uid"] = self._next_uid() if found is None else found["metadata"]["uid"]
        if _plural(path) not in _NO_GENERATION:
            last = 0 if found is None else found["metadata"].get("generation", 1)
            meta["generation"] = last + (found is None or fresh.get("spec") != found.get("spec"))
        if found is not None and found.get("status") is not None:
            fresh.setdefault("status", found["status"])
        return self._store(path, fresh)

    def remove(self, which: str | Mapping[str, Any]) -> None:
        path = which if isinstance(which, str) else path_of(which)
        gone = self.objects.pop(path, None)
        if gone is not None:
            self.revision += 1
            gone["metadata"]["resourceVersion"] = str(self.revision)
            self._tell("DELETED", path, gone)

    def touch(self, path: str) -> None:
        """Gives an object changed in place a new resourceVersion."""
        self._store(path, self.objects[path])

    def pod(self, name: str, namespace: str = "default") -> Json:
        return self.objects[f"/api/v1/namespaces/{namespace}/pods/{name}"]

    def items(self, folder: str) -> Iterator[tuple[str, Json]]:
        """Objects under `/folder/NAME`, sorted by path."""
        end = f"/{folder}/"
        for path in sorted(path for path in self.objects if end in path and _plural(path) == folder):
            yield path, self.objects[path]

    def end_watches(self, with_error: Exception | None = None) -> None:
        """Ends every watch, with an error or as a time limit does."""
        for _, queue in self.watchers:
            queue.put_nowait(with_error)
        self.watchers.clear()

    def copy(self) -> tuple[int, dict[str, Json]]:
        """A copy of etcd."""
        return self.revision, copied(self.objects)

    def restore(self, copy: tuple[int, dict[str, Json]]) -> None:
        """Starts again from a copy of etcd: watches break, and none that goes on is told what changed by it."""
        self.revision, self.objects = copy[0], copied(copy[1])
        self.end_watches(ApiUnreachableError("the API server restarts"))

    # What components do

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
        unless: Callable[[], str] | None = None,
    ) -> Answer:
        """Carries a request out unless a fault prevents it."""
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
        answer = self.answer(method, path, query or {}, body, content_type)
        if fault == "lost after":
            raise ApiUnreachableError("timeout")
        return answer

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        """Events from now on, until `end_watches`."""
        queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.watchers.append((path, queue))
        while (item := await queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    def answer(
        self, method: str, path: str, query: Mapping[str, str], body: Any = None, content_type: str = JSON
    ) -> Answer:
        try:
            if method == "GET":
                return _answer(200, self._read(path.rstrip("/"), query))
            for hook in self.before:
                hook(method, path, query)
            if query.get("dryRun") != "All":
                self.writes.append((method, path))
                self.cache.fall_behind(self.revision, self.objects)
            answer = self._write(method, path, query, copied(body), content_type)
            for hook in self.after:
                hook(method, path, query)
        except ApiStatusError as error:
            return _answer(error.status, {"reason": error.reason, "message": error.message})
        return answer

    # Reading

    def _read(self, path: str, query: Mapping[str, str]) -> Json:
        if path in self.objects:
            return self.objects[path]
        if not _is_collection(path):
            raise ApiStatusError(404, "NotFound", f"{path} not found")
        labels, fields = query.get("labelSelector"), query.get("fieldSelector", "")
        revision, there = self.cache.answers(query, self.revision, self.objects, path)
        found = [raw for raw in there if _selected(raw, labels) and _has_fields(raw, fields)]
        first = int(query.get("continue", 0))
        end = first + int(query.get("limit", len(found) or 1))
        metadata: Json = {"resourceVersion": str(revision)}
        if end < len(found):
            metadata["continue"] = str(end)
            if not labels and not fields:
                metadata["remainingItemCount"] = len(found) - end
        return {"metadata": metadata, "items": found[first:end]}

    def listing(self, path: str) -> list[Json]:
        return listed(self.objects, path)

    # Writing

    def _write(self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str) -> Answer:
        dry = query.get("dryRun") == "All"
        manager = query.get("fieldManager", "unknown")
        if method == "POST" and path.endswith("/binding"):
            return self._bind(path.removesuffix("/binding"), body)
        if method == "POST":
            return _answer(201, self._create(path, body, manager, dry=dry))
        if method == "PUT":
            return self._replace(path, body, manager, dry=dry)
        if method == "DELETE":
            found = self._existing(path, (body or {}).get("preconditions") or {})
            self.remove(path)
            return _answer(200, found)
        return _answer(200, self._patch(path, body, content_type, manager, dry=dry))

    def _create(self, folder: str, body: Json, manager: str, *, dry: bool) -> Json:
        path = f"{folder}/{body['metadata']['name']}"
        if path in self.objects:
            raise ApiStatusError(409, "AlreadyExists", f"{path} already exists")
        body = _admitted(path, body)
        return body if dry else self.put(path, _held(body, manager, "Update"))

    def _replace(self, path: str, body: Json, manager: str, *, dry: bool) -> Answer:
        created, changed = path not in self.objects and _plural(path) == _CREATED_BY_PUT, body
        if created and body["metadata"].get("resourceVersion") is not None:
            raise ApiStatusError(409, "Conflict", f"{path} was deleted")
        if not created:
            found = self._existing(path, body["metadata"])
            if _plural(path) == _CREATED_BY_PUT and body["metadata"].get("resourceVersion") is None:
                raise ApiStatusError(409, "Conflict", f"{path}: metadata.resourceVersion must be specified")
            body["metadata"]["managedFields"] = found["metadata"].get("managedFields") or []
            changed = _changed_notes(found, body)
        body = _admitted(path, body)
        held = _held(body, manager, "Update", changed)
        return _answer(201 if created else 200, body if dry else self.put(path, held))

    def _patch(self, path: str, body: Any, content_type: str, manager: str, *, dry: bool) -> Json:
        if content_type == APPLY_PATCH:
            return self._apply(path, body, manager, dry=dry)
        if content_type == JSON_PATCH:
            found = self._existing(path, {})
            patched = json_patched(copied(found), body)
            self._existing(path, patched["metadata"])
            return self._store(path, patched)
        if path.endswith("/status"):
            path, body = path.removesuffix("/status"), {"metadata": body.get("metadata", {}), "status": body["status"]}
        found = self._existing(path, body.get("metadata") or {})
        patched = merged(found, body)
        if words := _invalid(patched["metadata"]):
            raise ApiStatusError(422, "Invalid", words)
        return found if patched == found else self.put(path, patched)

    def _apply(self, path: str, body: Json, manager: str, *, dry: bool) -> Json:
        if _plural(path) == "deployments" and (refusal := schema_refusal(body)) is not None:
            raise ApiStatusError(500, "", f"failed to create typed patch object ({path}): {refusal}")
        found = self.objects.get(path)
        if found is None and body["metadata"].get("uid"):
            raise ApiStatusError(409, "Conflict", "uid mismatch: the object does not exist")
        if found is not None:
            self._existing(path, body["metadata"])
        last = None if found is None else _held_by(found, "Apply")
        patched = _admitted(path, applied(found, last, body))
        return patched if dry else self.put(path, _held(patched, manager, "Apply", body))

    def _bind(self, path: str, body: Json) -> Answer:
        wanted = body["metadata"]
        found = copied(self._existing(path, wanted))
        if found["spec"].get("nodeName"):
            raise ApiStatusError(409, "Conflict", f"pod {wanted['name']} is already assigned to a node")
        if found["spec"].get("schedulingGates"):
            raise ApiStatusError(409, "Conflict", f"pod {wanted['name']} has non-empty .spec.schedulingGates")
        found["spec"]["nodeName"] = body["target"]["name"]
        found["metadata"].setdefault("annotations", {}).update(wanted.get("annotations", {}))
        self._store(path, found)
        return _answer(201, {})

    def _existing(self, path: str, preconditions: Mapping[str, Any]) -> Json:
        found = self.objects.get(path)
        if found is None:
            raise ApiStatusError(404, "NotFound", f"{path} not found")
        for name in ("uid", "resourceVersion"):
            wanted = preconditions.get(name)
            if wanted is not None and wanted != found["metadata"][name]:
                words = f"the {name} in the precondition does not match that of {path}"
                raise ApiStatusError(409, "Conflict", words)
        return found

    def _store(self, path: str, raw: Json) -> Json:
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.revision += 1
        raw["metadata"]["resourceVersion"] = str(self.revision)
        status = self.statuses.get(_plural(path))
        if status is not None and not raw.get("status"):
            raw["status"] = copied(status)
        self.objects[path] = raw
        self._tell(kind, path, raw)
        return raw

    def _next_uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _tell(self, kind: str, path: str, raw: Json) -> None:
        if not self.watchers:
            return
        line = orjson.dumps({"type": kind, "object": raw})
        for watched, queue in self.watchers:
            folder, plural = watched.rsplit("/", 1)
            if _plural(path) == plural and path.startswith(f"{folder}/"):
                queue.put_nowait(line)


def path_of(raw: Mapping[str, Any]) -> str:
    """Path of an object; without a kind: a pod if it has a namespace, else a node."""
    meta = raw["metadata"]
    namespace = meta.get("namespace")
    kind = raw.get("kind") or ("Pod" if namespace else "Node")
    version = raw.get("apiVersion", "v1")
    group = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    folder = f"{kind.lower()}s"
    return (
        f"{group}/namespaces/{namespace}/{folder}/{meta['name']}" if namespace else f"{group}/{folder}/{meta['name']}"
    )


def _plural(path: str) -> str:
    return path.rsplit("/", 2)[1]


def _is_collection(path: str) -> bool:
    """`/api/v1/pods`, `/api/v1/namespaces/NS/pods`, `/apis/GROUP/VERSION/...`."""
    parts = path.split("/")[3 if path.startswith("/api/") else 4 :]
    return len(parts) == 1 or (len(parts) == 3 and parts[0] == "namespaces")


def _admitted(path: str, body: Json) -> Json:
    if _plural(path) != "deployments":
        return body
    body = defaulted(body)
    for index, container in enumerate(body["spec"]["template"]["spec"].get("containers") or [{}]):
        if not container.get("image"):
            text = f"spec.template.spec.containers[{index}].image: Required value"
            name = body["metadata"]["name"]
            raise ApiStatusError(422, "Invalid", f'Deployment.apps "{name}" is invalid: {text}')
    return body


def _held(raw: Json, manager: str, operation: str, body: Json | None = None) -> Json:
    """The object with an entry in managedFields for `body` (None: all of it)."""
    others = [e for e in raw["metadata"].get("managedFields") or () if e["operation"] != operation]
    written = body or raw
    said = {k: v for k, v in written["metadata"].items() if k in ("labels", "annotations")}
    data = {"data": written["data"]} if "data" in written else {}
    fields = as_fields({"metadata": said, "spec": written.get("spec"), **data})
    entry = {"manager": manager, "operation": operation, "fieldsV1": fields}
    return {**raw, "metadata": {**raw["metadata"], "managedFields": [*others, entry]}}


def _changed_notes(found: Json, body: Json) -> Json:
    """The body with only those labels and annotations that it changes: an update takes no others over."""
    meta = dict(body["metadata"])
    for part in ("labels", "annotations"):
        known = found["metadata"].get(part) or {}
        meta[part] = {key: value for key, value in (meta.get(part) or {}).items() if known.get(key) != value}
    return {**body, "metadata": meta}


def _held_by(raw: Json, operation: str) -> Json | None:
    entries = raw["metadata"].get("managedFields") or []
    return next((entry["fieldsV1"] for entry in entries if entry["operation"] == operation), None)


def _invalid(metadata: Json) -> str:
    """The API server's refusal of labels and annotations; empty if accepted."""
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATIONS_AT_MOST:
        return f"metadata.annotations: Too long: may not be more than {ANNOTATIONS_AT_MOST} bytes"
    odd = [value for value in labels.values() if not _LABEL_VALUE.fullmatch(value)]
    return f"metadata.labels: Invalid value: {odd[0]!r}" if odd else ""


def _selected(raw: Json, selector: str | None) -> bool:
    labels = raw["metadata"].get("labels") or {}
    terms = (term.partition("=") for term in (selector or "").split(",") if term)
    return all(labels.get(key) == value if equals else key in labels for key, equals, value in terms)


def _has_fields(raw: Json, selector: str) -> bool:
    """Whether an object matches a field selector of `a.b=c` and `a.b!=c`; an absent field is empty."""
    for term in filter(None, selector.split(",")):
        path, _, wanted = term.replace("!=", "=").replace("==", "=").partition("=")
        value: Any = raw
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if (str(value or "") == wanted) == ("!=" in term):
            return False
    return True


def _answer(status: int, content: object) -> Answer:
    return Answer(status, orjson.dumps(content))
