"""An API server in memory: as much of the real one as the operator's writes depend on.

resourceVersions, UIDs, generations, preconditions, defaulting, dry runs, server-side apply with ownership per
manager, merge patches of a status, label selectors. Faults are put in by `before` and `after` hooks on writes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hetserve.api.inference_service import NOT_OBSERVED
from hetserve.api.kinds import INFERENCE_SERVICE, KINDS
from hetserve.api.names import FIELD_MANAGER
from hetserve.testing.apply import applied, as_fields, copied, defaulted, schema_refusal

Json = dict[str, Any]
Refuse = Callable[[int, str, str], Exception]
Hook = Callable[[str, str, Any], None]


class FakeApiServer:
    """Objects by path (``/apis/.../deployments/name``); refuse: makes the exception of a refusal."""

    def __init__(self, refuse: Refuse) -> None:
        self.objects: dict[str, Json] = {}
        self.writes: list[tuple[str, str]] = []
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self._refuse = refuse
        self._versions = itertools.count(1)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
    ) -> Json:
        """One request, as the operator's client makes it."""
        query, body = query or {}, copied(body)
        if method == "GET":
            return copied(self._read(path, query))
        dry = query.get("dryRun") == "All"
        for hook in self.before:
            hook(method, path, query)
        if not dry:
            self.writes.append((method, path))
        answer = copied(self._write(method, path, query, body, content_type))
        for hook in self.after:
            hook(method, path, query)
        return answer

    def put(self, path: str, raw: Mapping[str, Any]) -> Json:
        """Create or replace an object as somebody with every right would."""
        found = self.objects.get(path)
        fresh = copied(dict(raw))
        if found is None:
            fresh["metadata"] |= {"uid": f"uid-{next(self._versions)}", "generation": 1}
        else:
            fresh["metadata"] |= {"uid": found["metadata"]["uid"], "generation": found["metadata"]["generation"]}
            fresh["metadata"]["generation"] += fresh.get("spec") != found.get("spec")
            fresh.setdefault("status", found.get("status"))
        return self._store(path, fresh)

    def remove(self, path: str) -> None:
        """Delete an object at once."""
        self.objects.pop(path, None)

    def items(self, folder: str) -> Iterator[tuple[str, Json]]:
        """Objects whose path ends with ``/folder/NAME``, in the order of their paths."""
        for path in sorted(self.objects):
            if path.rsplit("/", 2)[1] == folder:
                yield path, self.objects[path]

    def touch(self, path: str) -> None:
        """Give an object that was changed in place a new resourceVersion."""
        self.objects[path]["metadata"]["resourceVersion"] = str(next(self._versions))

    # Reading

    def _read(self, path: str, query: Mapping[str, str]) -> Json:
        path = path.rstrip("/")  # an object without a name is a list, there as here
        if path in self.objects:
            return self.objects[path]
        folder = path.rsplit("/", 1)[1]
        if path.count("/") >= 3 and folder in {*_BUILT_IN, *(kind.plural for kind in KINDS)}:
            # Of one namespace, or of all of them.
            names = [p for p, _ in self.items(folder) if "/namespaces/" not in path or p.rsplit("/", 1)[0] == path]
            found = [self.objects[p] for p in names if _selected(self.objects[p], query.get("labelSelector"))]
            return {"metadata": {"resourceVersion": str(next(self._versions))}, "items": found}
        raise self._refuse(404, "NotFound", f"{path} not found")

    # Writing

    def _write(self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str) -> Json:
        dry = query.get("dryRun") == "All"
        if method == "PATCH":
            return self._patch(path, body, content_type, dry=dry)
        if method == "POST":
            return self._create(path, body, dry=dry)
        if method == "DELETE":
            return self._delete(path, body)
        return self._replace(path, body, dry=dry)

    def _patch(self, path: str, body: Any, content_type: str, *, dry: bool) -> Json:
        if content_type == "application/apply-patch+yaml":
            return self._apply(path, body, dry=dry)
        if content_type == "application/json-patch+json":
            return self._hand_over(path, body)
        if path.endswith("/status"):
            return self._patch_status(path.removesuffix("/status"), body)
        return self._label(path, body)

    def _create(self, folder: str, body: Json, *, dry: bool) -> Json:
        path = f"{folder}/{body['metadata']['name']}"
        if path in self.objects:
            raise self._refuse(409, "AlreadyExists", f"{path} already exists")
        body = self._admitted(path, body)
        return body if dry else self.put(path, _held(body, "Update"))

    def _delete(self, path: str, body: Json) -> Json:
        found = self._existing(path, {"metadata": (body or {}).get("preconditions") or {}})
        self.remove(path)
        return found

    def _apply(self, path: str, body: Json, *, dry: bool) -> Json:
        refusal = schema_refusal(body)
        if refusal is not None:
            raise self._refuse(500, "", f"failed to create typed patch object ({path}): {refusal}")
        found = self.objects.get(path)
        if found is None and body["metadata"].get("uid"):
            raise self._refuse(409, "Conflict", "uid mismatch: the object does not exist")
        if found is not None:
            self._existing(path, body)
        last = None if found is None else _held_by(found, "Apply")
        merged = self._admitted(path, applied(found, last, body))
        return merged if dry else self.put(path, _held(merged, "Apply", body))

    def _replace(self, path: str, body: Json, *, dry: bool) -> Json:
        found = self._existing(path, body)
        body = self._admitted(path, body)
        body["metadata"]["managedFields"] = found["metadata"].get("managedFields") or []
        return body if dry else self.put(path, _held(body, "Update"))

    def _hand_over(self, path: str, patch: list[Json]) -> Json:
        """A JSON patch, of which the operator makes one kind."""
        wanted = {step["path"].rsplit("/", 1)[1]: step["value"] for step in patch}
        found = copied(self._existing(path, {"metadata": wanted}))
        found["metadata"]["managedFields"] = wanted["managedFields"]
        return self._store(path, found)

    def _label(self, path: str, patch: Json) -> Json:
        """A merge patch, of which the operator makes one kind beside that of a status."""
        found = copied(self._existing(path, patch))
        found["metadata"]["labels"] = _merged(found["metadata"].get("labels"), patch["metadata"]["labels"])
        return self._store(path, found)

    def _patch_status(self, path: str, body: Json) -> Json:
        found = copied(self._existing(path, body))
        before = found.get("status") or {}
        found["status"] = _merged(before, body["status"])
        return self.objects[path] if found["status"] == before else self._store(path, found)

    def _existing(self, path: str, body: Json) -> Json:
        found = self.objects.get(path)
        if found is None:
            raise self._refuse(404, "NotFound", f"{path} not found")
        for field in ("uid", "resourceVersion"):
            wanted = body["metadata"].get(field)
            if wanted is not None and wanted != found["metadata"][field]:
                raise self._refuse(409, "Conflict", f"{field} of {path} is another by now")
        return found

    def _admitted(self, path: str, body: Json) -> Json:
        if "/deployments" not in path:
            return body
        body = defaulted(body)
        for index, container in enumerate(body["spec"]["template"]["spec"].get("containers") or [{}]):
            if not container.get("image"):
                text = f"spec.template.spec.containers[{index}].image: Required value"
                name = body["metadata"]["name"]
                raise self._refuse(422, "Invalid", f'Deployment.apps "{name}" is invalid: {text}')
        return body

    def _store(self, path: str, raw: Json) -> Json:
        raw["metadata"]["resourceVersion"] = str(next(self._versions))
        if f"/{INFERENCE_SERVICE.plural}/" in path and not raw.get("status"):
            raw["status"] = {"observedGeneration": NOT_OBSERVED}
        self.objects[path] = raw
        return raw


_BUILT_IN = (
    "deployments",
    "replicasets",
    "pods",
    "nodes",
    "events",
)


def _held(raw: Json, operation: str, body: Json | None = None) -> Json:
    """The object with a note of what the operator has written by an operation: `body`, or all of it."""
    others = [e for e in raw["metadata"].get("managedFields") or () if e["operation"] != operation]
    written = body or raw
    said = {k: v for k, v in written["metadata"].items() if k in ("labels", "annotations")}
    fields = as_fields({"metadata": said, "spec": written.get("spec")})
    entry = {"manager": FIELD_MANAGER, "operation": operation, "fieldsV1": fields}
    return {**raw, "metadata": {**raw["metadata"], "managedFields": [*others, entry]}}


def _held_by(raw: Json, operation: str) -> Json | None:
    entries = raw["metadata"].get("managedFields") or []
    return next((entry["fieldsV1"] for entry in entries if entry["operation"] == operation), None)


def _selected(raw: Json, selector: str | None) -> bool:
    if selector is None:
        return True
    key, _, value = selector.partition("=")
    return bool((raw["metadata"].get("labels") or {}).get(key) == value)


def _merged(before: Any, patch: Any) -> Any:
    if not isinstance(before, dict) or not isinstance(patch, dict):
        return {k: v for k, v in patch.items() if v is not None} if isinstance(patch, dict) else patch
    result = dict(before)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(before.get(key), value)
    return result
