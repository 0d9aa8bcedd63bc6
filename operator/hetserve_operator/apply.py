"""The only writer: performs one request, as our field manager and with its preconditions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Final

from hetserve.api import names
from hetserve.reconcile import (
    Announcement,
    Apply,
    Create,
    Delete,
    HandOver,
    Render,
    Replace,
    Request,
    WriteStatus,
)
from hetserve.reconcile.api_messages import is_of_the_content
from hetserve.reconcile.ownership import is_ours
from hetserve_operator.paths import deployments_path, service_path
from hetserve_shell.kube.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, ApiServer, ApiStatusError
from hetserve_shell.kube.connection import RawObject
from hetserve_shell.kube.events import Event, EventRecorder

MANAGER: Final = {"fieldManager": names.FIELD_MANAGER}
_READABLE: Final = 50
CONTROLLER: Final = "hetserve.io/operator"


class NameTakenError(Exception):
    """A Deployment with the name that we need exists and is not ours."""


def unused_name(render: Render) -> str:
    """Unused name for a dry-run apply; under a used name the answer would contain merged fields."""
    meta = render.manifest["metadata"]
    owner = meta["ownerReferences"][0]["uid"]
    digest = hashlib.sha256(f"{owner}/{meta['name']}/{render.digest}".encode()).hexdigest()
    return f"{meta['name'][:_READABLE].rstrip('-')}-{digest[:12]}"


class Writer:
    """Performs requests; all are idempotent."""

    def __init__(self, api: ApiServer, instance: str, now: Callable[[], datetime]) -> None:
        self._api = api
        self._events = EventRecorder(api, CONTROLLER, instance, lambda: now().timestamp())

    async def perform(self, request: Request) -> RawObject:
        """Performs one request and returns the resulting object.

        Raises ApiStatusError, ApiUnreachableError, or NameTakenError.
        """
        match request:
            case Render():
                answer = await self._render(request)
            case Create():
                answer = await self._create(request)
            case Apply():
                answer = await self._apply(request.manifest, request.uid)
            case Replace():
                answer = await self._replace(request)
            case HandOver():
                answer = await self._hand_over(request)
            case Delete():
                answer = await self._delete(request)
            case WriteStatus():
                answer = await self._write_status(request)
        return answer

    async def announce(self, service: RawObject, news: Announcement) -> None:
        """Posts an Event about a service, once. Raises ApiStatusError, ApiUnreachableError."""
        meta = service["metadata"]
        name = news.name(str(meta["name"]), str(meta["uid"]), int(meta.get("generation") or 0))
        regarding = {
            "apiVersion": names.API_VERSION,
            "kind": "InferenceService",
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": meta.get("resourceVersion"),
        }
        await self._events.post(Event(name, regarding, news.action, news.reason, news.note, news.warning))

    async def _render(self, request: Render) -> RawObject:
        """Dry run by apply, which refuses manifests that a POST accepts."""
        try:
            return await self._dry_apply(request.manifest, unused_name(request))
        except ApiStatusError as error:
            if error.status != 403:
                raise
            return await self._render_in_place(request, error)

    async def _dry_apply(self, manifest: RawObject, name: str) -> RawObject:
        body = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
        path = deployments_path(body["metadata"]["namespace"], name)
        query = {**MANAGER, "force": "true", "dryRun": "All"}
        return (await self._api.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)).content()

    async def _render_in_place(self, request: Render, denied: ApiStatusError) -> RawObject:
        """Dry run on the existing Deployment, since an exhausted quota refuses a dry run of a creation.

        Apply merges foreign fields, so it only checks the manifest; the rendered spec comes from a replacement.
        """
        meta = request.manifest["metadata"]
        path = deployments_path(meta["namespace"], meta["name"])
        try:
            await self._dry_apply(request.manifest, meta["name"])
            query = {**MANAGER, "dryRun": "All"}
            return (await self._api.request("PUT", path, query=query, body=request.manifest)).content()
        except ApiStatusError as error:
            if is_of_the_content(error.status, error.message):
                raise
            raise denied from None

    async def _create(self, request: Create) -> RawObject:
        """Creates by POST: apply would take over a foreign Deployment created since the snapshot."""
        manifest = request.manifest
        query = {**MANAGER, "fieldValidation": "Strict"}
        try:
            path = deployments_path(manifest["metadata"]["namespace"])
            return (await self._api.request("POST", path, query=query, body=manifest)).content()
        except ApiStatusError as error:
            if error.status != 409:
                raise
        return await self._label(manifest["metadata"], await self._uid_if_ours(manifest["metadata"]))

    async def _label(self, meta: RawObject, uid: str) -> RawObject:
        """Restores only the labels; its replicas were decided without knowing it."""
        path = deployments_path(meta["namespace"], meta["name"])
        body = {"metadata": {"uid": uid, "labels": meta["labels"]}}
        return (await self._api.request("PATCH", path, query=MANAGER, body=body, content_type=MERGE_PATCH)).content()

    async def _uid_if_ours(self, meta: RawObject) -> str:
        found = (await self._api.request("GET", deployments_path(meta["namespace"], meta["name"]))).content()
        ours = meta["ownerReferences"][0]["uid"]
        if not is_ours(found, ours):
            raise NameTakenError(
                f"Deployment {meta['name']} exists and does not belong to this service; rename or remove it"
            )
        return str(found["metadata"]["uid"])

    async def _apply(self, manifest: RawObject, uid: str) -> RawObject:
        # The UID is a precondition against another Deployment of this name.
        body = {**manifest, "metadata": {**manifest["metadata"], "uid": uid}}
        path = deployments_path(body["metadata"]["namespace"], body["metadata"]["name"])
        query = {**MANAGER, "force": "true"}
        return (await self._api.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)).content()

    async def _hand_over(self, request: HandOver) -> RawObject:
        patch = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": request.resource_version},
            {"op": "replace", "path": "/metadata/managedFields", "value": request.managed_fields},
        ]
        path = deployments_path(request.namespace, request.name)
        return (await self._api.request("PATCH", path, query=MANAGER, body=patch, content_type=JSON_PATCH)).content()

    async def _replace(self, request: Replace) -> RawObject:
        meta = request.manifest["metadata"]
        path = deployments_path(meta["namespace"], meta["name"])
        return (await self._api.request("PUT", path, query=MANAGER, body=request.manifest)).content()

    async def _delete(self, request: Delete) -> RawObject:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": request.uid},
        }
        path = deployments_path(request.namespace, request.name)
        return (await self._api.request("DELETE", path, body=body)).content()

    async def _write_status(self, request: WriteStatus) -> RawObject:
        # A merge patch: apply refuses objects whose stored spec violates the schema, and the status must say so.
        status = dict(request.status)
        gone = dict.fromkeys(request.previous.get("plan") or {})
        status["plan"] = None if status["plan"] is None else {**gone, **status["plan"]}
        body = {
            "metadata": {"uid": request.uid, "resourceVersion": request.resource_version},
            "status": status,
        }
        path = f"{service_path(request.namespace, request.name)}/status"
        return (await self._api.request("PATCH", path, query=MANAGER, body=body, content_type=MERGE_PATCH)).content()
