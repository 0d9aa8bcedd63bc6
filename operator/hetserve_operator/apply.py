"""The only writer: performs one request of the reconciler, as our field manager and with its preconditions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
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
from hetserve.reconcile.ownership import is_ours
from hetserve_operator.api import (
    APPLY,
    JSON_PATCH,
    MERGE,
    Api,
    ApiRefusalError,
    deployments_path,
    events_path,
    service_path,
)
from hetserve_shell.kube.connection import RawObject

MANAGER: Final = {"fieldManager": names.FIELD_MANAGER}
_READABLE: Final = 50
CONTROLLER: Final = "hetserve.io/operator"


class ForeignDeploymentError(Exception):
    """A Deployment of the name we need is there and not ours."""


def unused_name(render: Render) -> str:
    """Name for a dry run of apply, which under a name that is in use would answer with what it merged."""
    meta = render.manifest["metadata"]
    owner = meta["ownerReferences"][0]["uid"]
    digest = hashlib.sha256(f"{owner}/{meta['name']}/{render.digest}".encode()).hexdigest()
    return f"{meta['name'][:_READABLE].rstrip('-')}-{digest[:12]}"


class Writer:
    """Performs requests; every method can be repeated without harm."""

    def __init__(self, api: Api, instance: str, now: Callable[[], datetime]) -> None:
        self._api = api
        self._instance = instance
        self._now = now

    async def perform(self, request: Request) -> RawObject:
        """Perform one request and return the object as it is afterwards.

        Raises ApiRefusalError, ApiUnreachableError, or ForeignDeploymentError.
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
        """Post an event about a service; one that was posted already is left as it is."""
        meta, when = service["metadata"], self._now().astimezone(UTC)
        name = news.name(str(meta["name"]), str(meta["uid"]), int(meta.get("generation") or 0))
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": meta["namespace"]},
            "eventTime": when.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "action": news.action,
            "reason": news.reason,
            "note": news.note,
            "type": "Warning" if news.warning else "Normal",
            "regarding": {
                "apiVersion": names.API_VERSION,
                "kind": "InferenceService",
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
                "resourceVersion": meta.get("resourceVersion"),
            },
        }
        try:
            await self._api.request("POST", events_path(meta["namespace"]), query=MANAGER, body=body)
        except ApiRefusalError as error:
            if error.status != 409:
                raise

    async def _render(self, request: Render) -> RawObject:
        """Dry run of the verb that will write: a creation by POST takes what apply then refuses."""
        try:
            return await self._dry_apply(request.manifest, unused_name(request))
        except ApiRefusalError as error:
            if error.status != 403:
                raise
            return await self._render_in_place(request, error)

    async def _dry_apply(self, manifest: RawObject, name: str) -> RawObject:
        body = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
        path = deployments_path(body["metadata"]["namespace"], name)
        query = {**MANAGER, "force": "true", "dryRun": "All"}
        return await self._api.request("PATCH", path, query=query, body=body, content_type=APPLY)

    async def _render_in_place(self, request: Render, denied: ApiRefusalError) -> RawObject:
        """A used-up quota denies even a dry run of a creation; a change of what is there counts nothing.

        Apply merges what others added, so it only says whether it takes the manifest; the replacement is the answer.
        """
        meta = request.manifest["metadata"]
        path = deployments_path(meta["namespace"], meta["name"])
        try:
            await self._dry_apply(request.manifest, meta["name"])
            query = {**MANAGER, "dryRun": "All"}
            return await self._api.request("PUT", path, query=query, body=request.manifest)
        except ApiRefusalError as error:
            if error.of_the_content:
                raise
            raise denied from None

    async def _create(self, request: Create) -> RawObject:
        """By POST: apply would take over a Deployment that was made since we looked, or that lost our labels."""
        manifest = request.manifest
        query = {**MANAGER, "fieldValidation": "Strict"}
        try:
            path = deployments_path(manifest["metadata"]["namespace"])
            return await self._api.request("POST", path, query=query, body=manifest)
        except ApiRefusalError as error:
            if error.status != 409:
                raise
        return await self._label(manifest["metadata"], await self._uid_if_ours(manifest["metadata"]))

    async def _label(self, meta: RawObject, uid: str) -> RawObject:
        """Only what makes a Deployment of ours visible again: how many replicas it may have was decided without it."""
        path = deployments_path(meta["namespace"], meta["name"])
        body = {"metadata": {"uid": uid, "labels": meta["labels"]}}
        return await self._api.request("PATCH", path, query=MANAGER, body=body, content_type=MERGE)

    async def _uid_if_ours(self, meta: RawObject) -> str:
        found = await self._api.request("GET", deployments_path(meta["namespace"], meta["name"]))
        ours = meta["ownerReferences"][0]["uid"]
        if not is_ours(found, ours):
            raise ForeignDeploymentError(
                f"Deployment {meta['name']} exists and does not belong to this service; rename or remove it"
            )
        return str(found["metadata"]["uid"])

    async def _apply(self, manifest: RawObject, uid: str) -> RawObject:
        # The UID is a precondition: of that name there may be another by now.
        body = {**manifest, "metadata": {**manifest["metadata"], "uid": uid}}
        path = deployments_path(body["metadata"]["namespace"], body["metadata"]["name"])
        query = {**MANAGER, "force": "true"}
        return await self._api.request("PATCH", path, query=query, body=body, content_type=APPLY)

    async def _hand_over(self, request: HandOver) -> RawObject:
        patch = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": request.resource_version},
            {"op": "replace", "path": "/metadata/managedFields", "value": request.managed_fields},
        ]
        path = deployments_path(request.namespace, request.name)
        return await self._api.request("PATCH", path, query=MANAGER, body=patch, content_type=JSON_PATCH)

    async def _replace(self, request: Replace) -> RawObject:
        meta = request.manifest["metadata"]
        path = deployments_path(meta["namespace"], meta["name"])
        return await self._api.request("PUT", path, query=MANAGER, body=request.manifest)

    async def _delete(self, request: Delete) -> RawObject:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": request.uid},
        }
        path = deployments_path(request.namespace, request.name)
        return await self._api.request("DELETE", path, body=body)

    async def _write_status(self, request: WriteStatus) -> RawObject:
        # A merge patch with resourceVersion: apply would refuse a stored spec that does not fit its schema,
        # and just that must be said in the status.
        status = dict(request.status)
        gone = dict.fromkeys(request.previous.get("plan") or {})
        status["plan"] = None if status["plan"] is None else {**gone, **status["plan"]}
        body = {
            "metadata": {"uid": request.uid, "resourceVersion": request.resource_version},
            "status": status,
        }
        path = f"{service_path(request.namespace, request.name)}/status"
        return await self._api.request("PATCH", path, query=MANAGER, body=body, content_type=MERGE)
