"""The only writer: performs one request, as our field manager and with its preconditions.

A change names UID and resourceVersion. The API server answers 409 if either differs or the object is gone.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from hetserve.api import names
from hetserve.reconcile.cluster.api_messages import is_of_the_content
from hetserve.reconcile.deployments.address import correction
from hetserve.reconcile.deployments.ownership import is_ours
from hetserve.reconcile.snapshot import (
    Apply,
    Create,
    Delete,
    HandOver,
    Render,
    Replace,
    Request,
    WriteAddress,
    WriteDecisions,
    WriteFence,
    WriteStatus,
)
from hetserve.scaling.record.ring import appended, ring_manifest, ring_name, ring_of
from hetserve_operator.leadership import NotLeadingError, Permit
from hetserve_operator.paths import address_path, config_map_path, deployments_path, service_path
from hetserve_shell.kube.client import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    NOT_SENT,
    ApiServer,
    ApiStatusError,
)
from hetserve_shell.kube.connection import JSON, RawObject

NEVER_STORED: Final = "1"
"""The resourceVersion of an empty storage: every object has a later one."""
MANAGER: Final = {"fieldManager": names.FIELD_MANAGER}
_READABLE: Final = 50


class NameTakenError(Exception):
    """A Deployment with the name that we need exists and is not ours."""


def unused_name(render: Render) -> str:
    """Unused name for a dry-run apply; under a used name the answer would contain merged fields."""
    meta = render.manifest["metadata"]
    owner = meta["ownerReferences"][0]["uid"]
    digest = hashlib.sha256(f"{owner}/{meta['name']}/{render.digest}".encode()).hexdigest()
    return f"{meta['name'][:_READABLE].rstrip('-')}-{digest[:12]}"


class Writer:
    """Performs requests; all are idempotent. permit: asked right before each request leaves."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def drained(self) -> None:
        """Waits until every request that was sent has its answer."""
        await self._idle.wait()

    async def perform(self, request: Request, permit: Permit) -> RawObject:
        """Performs one request and returns the resulting object.

        Raises ApiStatusError, ApiUnreachableError, NameTakenError, or NotLeadingError if the permit has ended.
        """
        match request:
            case Render():
                answer = await self._render(request, permit)
            case Create():
                answer = await self._create(request, permit)
            case Apply():
                answer = await self._apply(request, permit)
            case Replace():
                answer = await self._replace(request, permit)
            case HandOver():
                answer = await self._hand_over(request, permit)
            case Delete():
                answer = await self._delete(request, permit)
            case WriteFence():
                answer = await self._fence(request, permit)
            case WriteStatus():
                answer = await self._write_status(request, permit)
            case WriteDecisions():
                answer = await self._write_decisions(request, permit)
            case WriteAddress():
                answer = await self._write_address(request, permit)
        return answer

    async def _send(
        self,
        permit: Permit,
        method: str,
        path: str,
        body: object,
        content_type: str = JSON,
        **query: str,
    ) -> RawObject:
        """Sends a write. Raises NotLeadingError if the permit has ended before it left."""
        self._under_way += 1
        self._idle.clear()
        try:
            answer = await self._api.request(
                method, path, query=MANAGER | query, body=body, content_type=content_type, unless=permit
            )
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
        if answer.status == NOT_SENT:
            raise NotLeadingError(answer.message)
        return answer.content()

    async def _render(self, request: Render, permit: Permit) -> RawObject:
        """Dry run by apply, which refuses manifests that a POST accepts."""
        try:
            return await self._dry_apply(request.manifest, unused_name(request), permit)
        except ApiStatusError as error:
            if error.status != 403:
                raise
            return await self._render_in_place(request, error, permit)

    async def _dry_apply(self, manifest: RawObject, name: str, permit: Permit) -> RawObject:
        body = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
        path = deployments_path(body["metadata"]["namespace"], name)
        return await self._send(permit, "PATCH", path, body, APPLY_PATCH, force="true", dryRun="All")

    async def _render_in_place(self, request: Render, denied: ApiStatusError, permit: Permit) -> RawObject:
        """Dry run on the existing Deployment, since an exhausted quota refuses a dry run of a creation.

        Apply merges foreign fields, so it only checks the manifest; the rendered spec comes from a replacement.
        """
        meta = request.manifest["metadata"]
        path = deployments_path(meta["namespace"], meta["name"])
        try:
            await self._dry_apply(request.manifest, meta["name"], permit)
            return await self._send(permit, "PUT", path, request.manifest, dryRun="All")
        except ApiStatusError as error:
            if is_of_the_content(error.status, error.message):
                raise
            raise denied from None

    async def _create(self, request: Create, permit: Permit) -> RawObject:
        """Creates by apply, which then holds every field, at a resourceVersion that no Deployment has.

        So a Deployment created since the snapshot is a conflict; without it, apply would take it over.
        """
        meta = {**request.manifest["metadata"], "resourceVersion": NEVER_STORED}
        path = deployments_path(meta["namespace"], meta["name"])
        try:
            return await self._send(permit, "PATCH", path, {**request.manifest, "metadata": meta}, APPLY_PATCH)
        except ApiStatusError as error:
            if error.status == 409:
                await self._label(request.manifest["metadata"], await self._found_if_ours(meta), permit)
            raise

    async def _label(self, meta: RawObject, found: RawObject, permit: Permit) -> None:
        """Restores only the labels, so that the next pass sees it; its replicas were decided without knowing it."""
        path = deployments_path(meta["namespace"], meta["name"])
        known = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
        await self._send(permit, "PATCH", path, {"metadata": {**known, "labels": meta["labels"]}}, MERGE_PATCH)

    async def _found_if_ours(self, meta: RawObject) -> RawObject:
        found = (await self._api.request("GET", deployments_path(meta["namespace"], meta["name"]))).content()
        ours = meta["ownerReferences"][0]["uid"]
        if not is_ours(found, ours):
            raise NameTakenError(
                f"Deployment {meta['name']} exists and does not belong to this service; rename or remove it"
            )
        return found

    async def _apply(self, request: Apply, permit: Permit) -> RawObject:
        # With a resourceVersion alone, apply would create a Deployment that is gone; the UID prevents that.
        meta = {**request.manifest["metadata"], "uid": request.uid, "resourceVersion": request.resource_version}
        path = deployments_path(meta["namespace"], meta["name"])
        body = {**request.manifest, "metadata": meta}
        return await self._send(permit, "PATCH", path, body, APPLY_PATCH, force="true")

    async def _hand_over(self, request: HandOver, permit: Permit) -> RawObject:
        patch = [
            {"op": "replace", "path": "/metadata/uid", "value": request.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": request.resource_version},
            {"op": "replace", "path": "/metadata/managedFields", "value": request.managed_fields},
        ]
        path = deployments_path(request.namespace, request.name)
        return await self._send(permit, "PATCH", path, patch, JSON_PATCH)

    async def _replace(self, request: Replace, permit: Permit) -> RawObject:
        meta = request.manifest["metadata"]
        path = deployments_path(meta["namespace"], meta["name"])
        return await self._send(permit, "PUT", path, request.manifest)

    async def _delete(self, request: Delete, permit: Permit) -> RawObject:
        body = _deletion(request.uid, request.resource_version)
        return await self._send(permit, "DELETE", deployments_path(request.namespace, request.name), body)

    async def _write_address(self, request: WriteAddress, permit: Permit) -> RawObject:
        """Creates the Service if its name is free; changes and deletes it at exactly the resourceVersion found."""
        path, found, wanted = address_path(request.namespace, request.name), request.found, request.wanted
        if wanted is None:
            assert found is not None  # noqa: S101  nothing else is deleted
            meta = found["metadata"]
            return await self._send(permit, "DELETE", path, _deletion(meta["uid"], meta["resourceVersion"]))
        if found is not None:
            return await self._send(permit, "PATCH", path, correction(found, wanted), MERGE_PATCH)
        body = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": NEVER_STORED}}
        return await self._send(permit, "PATCH", path, body, APPLY_PATCH)

    async def _fence(self, request: WriteFence, permit: Permit) -> RawObject:
        body = {"metadata": {"uid": request.uid, "labels": {names.LABEL_FENCE: request.stamp}}}
        path = deployments_path(request.namespace, request.name)
        return await self._send(permit, "PATCH", path, body, MERGE_PATCH, fieldManager=names.FENCE_MANAGER)

    async def _write_status(self, request: WriteStatus, permit: Permit) -> RawObject:
        # A merge patch: apply refuses objects whose stored spec violates the schema, and the status must say so.
        status = dict(request.status)
        gone = dict.fromkeys(request.previous.get("plan") or {})
        status["plan"] = None if status["plan"] is None else {**gone, **status["plan"]}
        body = {
            "metadata": {"uid": request.uid, "resourceVersion": request.resource_version},
            "status": status,
        }
        path = f"{service_path(request.namespace, request.name)}/status"
        return await self._send(permit, "PATCH", path, body, MERGE_PATCH)

    async def _write_decisions(self, request: WriteDecisions, permit: Permit) -> RawObject:
        """Adds a record to the ring as it is now. Raises NameTakenError for a ConfigMap of somebody else.

        Where there should be no ring, it is not asked for: a crowd of new services spares a request each.
        """
        if request.first:
            try:
                return await self._write_ring(request, None, permit)
            except ApiStatusError as error:
                if error.status != 409:
                    raise
        answer = await self._api.request("GET", _ring_path(request))
        found = None if answer.status == 404 else answer.content()
        if found is not None and not is_ours(found, str(request.owner["uid"])):
            name = ring_name(request.record.service)
            raise NameTakenError(f"ConfigMap {name} exists and does not belong to this service")
        return await self._write_ring(request, found, permit)

    async def _write_ring(self, request: WriteDecisions, found: RawObject | None, permit: Permit) -> RawObject:
        """Adds a record to the ring that was found, or creates one."""
        record = request.record
        ring = appended(ring_of(found), record)
        manifest = ring_manifest(ring, record.service, record.namespace, request.owner)
        known = {"resourceVersion": NEVER_STORED}
        if found is not None:
            known = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
        body = {**manifest, "metadata": {**manifest["metadata"], **known}}
        return await self._send(permit, "PATCH", _ring_path(request), body, APPLY_PATCH, force="true")


def _deletion(uid: str, resource_version: str) -> RawObject:
    """Options of a deletion at exactly this resourceVersion, of what belongs to the object in the background."""
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    kind = {"apiVersion": "v1", "kind": "DeleteOptions"}
    return {**kind, "propagationPolicy": "Background", "preconditions": preconditions}


def _ring_path(request: WriteDecisions) -> str:
    return config_map_path(request.record.namespace, ring_name(request.record.service))
