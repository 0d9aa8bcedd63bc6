"""The only writer: performs one request of the reconciler, as our field manager and with its preconditions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from hetserve.api import names
from hetserve.reconcile import Announcement, Apply, Delete, Render, Replace, Request, WriteStatus
from hetserve_operator.api import (
    APPLY,
    MERGE,
    Api,
    ApiRefusalError,
    deployments_path,
    events_path,
    service_path,
)
from hetserve_shell.connection import RawObject

MANAGER: Final = {"fieldManager": names.FIELD_MANAGER}
DRY_RUN_NAME: Final = 50
CONTROLLER: Final = "hetserve.io/operator"


class StrangerError(Exception):
    """A Deployment of the name we need is there and not ours."""


class Writer:
    """Performs requests; every method can be repeated without harm."""

    def __init__(self, api: Api, instance: str, now: Callable[[], datetime]) -> None:
        self._api = api
        self._instance = instance
        self._now = now

    async def perform(self, request: Request) -> RawObject:
        """Perform one request and return the object as it is afterwards.

        Raises ApiRefusalError, ApiUnreachableError, or StrangerError.
        """
        match request:
            case Render():
                return await self._render(request)
            case Apply():
                return await self._apply(request)
            case Replace():
                return await self._replace(request)
            case Delete():
                return await self._delete(request)
            case WriteStatus():
                return await self._write_status(request)

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
        manifest = {**request.manifest, "metadata": {**request.manifest["metadata"]}}
        meta: dict[str, Any] = manifest["metadata"]
        # Another name: under its own the apiserver would only say that it exists.
        meta["generateName"] = f"{meta.pop('name')[:DRY_RUN_NAME]}-"
        query = {**MANAGER, "dryRun": "All"}
        try:
            return await self._api.request("POST", deployments_path(meta["namespace"]), query=query, body=manifest)
        except ApiRefusalError as error:
            if error.status != 403:
                raise
            return await self._render_in_place(request, error)

    async def _render_in_place(self, request: Render, denied: ApiRefusalError) -> RawObject:
        """A used-up quota denies even a dry run of a creation; a replacement of what is there counts nothing."""
        meta = request.manifest["metadata"]
        path = deployments_path(meta["namespace"], meta["name"])
        query = {**MANAGER, "dryRun": "All"}
        try:
            return await self._api.request("PUT", path, query=query, body=request.manifest)
        except ApiRefusalError:
            raise denied from None

    async def _apply(self, request: Apply) -> RawObject:
        manifest = {**request.manifest, "metadata": {**request.manifest["metadata"]}}
        meta: dict[str, Any] = manifest["metadata"]
        path = deployments_path(meta["namespace"], meta["name"])
        if request.uid is not None:
            meta["uid"] = request.uid  # a precondition: of that name there may be another by now
        else:
            await self._make_sure_it_is_not_anothers(path, meta)
        query = {**MANAGER, "force": "true"}
        return await self._api.request("PATCH", path, query=query, body=manifest, content_type=APPLY)

    async def _make_sure_it_is_not_anothers(self, path: str, meta: dict[str, Any]) -> None:
        """Apply would take over a Deployment that the label selector did not show us."""
        try:
            found = await self._api.request("GET", path)
        except ApiRefusalError as error:
            if error.status == 404:
                return
            raise
        ours = meta["ownerReferences"][0]["uid"]
        owners = [o for o in found["metadata"].get("ownerReferences") or () if o.get("controller")]
        if [o.get("uid") for o in owners] != [ours]:
            raise StrangerError(
                f"Deployment {meta['name']} exists and does not belong to this service; rename or remove it"
            )

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
