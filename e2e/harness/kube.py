"""A small synchronous API client: objects are dicts, kinds any name.

Discovers with two requests, and raises the API server's message.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from harness import limits

Manifest = dict[str, Any]
Manifests = list[Manifest]

DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
DISCOVERY_TRIES: Final = 25


class ApiError(RuntimeError):
    """HTTP status, reason (``NotFound``), message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class ApiResource:
    """``apps/v1``, ``deployments``."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Path below the server."""
        root = "/api/" if "/" not in self.group_version else "/apis/"
        if self.namespaced and name is not None and namespace is None:
            raise ValueError(f"{self.plural} are namespaced: name the namespace of {name!r}")
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{self.group_version}{scope}/{self.plural}" + (f"/{name}" if name else "")


class Kube:
    """Client of one kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        server, context, headers = identity(kubeconfig)
        self._http = httpx.Client(
            base_url=server, verify=context, headers=headers, timeout=limits.REACTION, trust_env=False
        )
        self._resources: dict[str, ApiResource] = {}
        self._watched: socket.socket | None = None

    def close(self) -> None:
        """Closes the connections. No thread may be reading from one: the next connection may get its file descriptor,
        and what was sent to that would be read by the thread."""
        self._http.close()

    def end_watch(self) -> None:
        """Ends the connection of a watch that another thread reads; that thread gets httpx.ReadError or the end."""
        watched = self._watched
        if watched is not None:
            with suppress(OSError):  # it has ended by itself
                # Not that of an SSLSocket, which would take the state of TLS from under the reader.
                socket.socket.shutdown(watched, socket.SHUT_RDWR)

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: str | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Raises ApiError for 400 or more."""
        response = self._http.request(
            method,
            path,
            json=json,
            content=content,
            params=dict(params or {}),
            headers=dict(headers or {}),
        )
        if response.status_code >= 400:
            raise _error(response)
        return response

    def resource(self, kind: str) -> ApiResource:
        """The resource of any of its names; ``plural.group`` if ambiguous. Raises ValueError."""
        # Discovery shows a new CRD late.
        for _ in range(DISCOVERY_TRIES):
            if (found := self._resources.get(kind.lower())) is not None:
                return found
            self._discover()
            if kind.lower() not in self._resources:
                time.sleep(0.2)
        raise ValueError(f"the apiserver serves no resource {kind!r}")

    def serves(self, kind: str) -> bool:
        if kind.lower() not in self._resources:
            self._discover()
        return kind.lower() in self._resources

    def get(self, kind: str, name: str, namespace: str | None = None) -> Manifest:
        return self._object(self.request("GET", self.resource(kind).path(namespace, name)))

    def find(self, kind: str, name: str, namespace: str | None = None) -> Manifest | None:
        """None if absent."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: str, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Manifests:
        """Objects of a namespace (None: all), by name."""
        resource = self.resource(kind)
        params = {"labelSelector": labels, "fieldSelector": fields}
        answer = self.request("GET", resource.path(namespace), params=params)
        items: Manifests = answer.json()["items"]
        identity = {"apiVersion": resource.group_version, "kind": resource.kind}
        return sorted(
            (identity | item for item in items),
            key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"]),
        )

    def watch(self, kind: str, namespace: str | None, revision: str, seconds: int) -> Iterator[tuple[str, Manifest]]:
        """Events (type, object) after a revision for `seconds`. Raises httpx.HTTPError."""
        params = {"watch": "1", "resourceVersion": revision, "timeoutSeconds": str(seconds)}
        path = self.resource(kind).path(namespace)
        with self._http.stream("GET", path, params=params, timeout=2.0 * seconds) as response:
            self._watched = response.extensions["network_stream"].get_extra_info("socket")
            try:
                for line in response.iter_lines():
                    event = json.loads(line)
                    yield event["type"], event["object"]
            finally:
                self._watched = None

    def create(self, manifest: Manifest, namespace: str | None = None, *, dry_run: bool = False) -> Manifest:
        resource = self._resource_of(manifest)
        params = {"dryRun": "All"} if dry_run else {}
        path = resource.path(_namespace(manifest, namespace))
        return self._object(self.request("POST", path, json=manifest, params=params))

    def apply(
        self,
        manifest: Manifest,
        namespace: str | None = None,
        *,
        manager: str = "harness",
        force: bool = True,
    ) -> Manifest:
        resource = self._resource_of(manifest)
        path = resource.path(_namespace(manifest, namespace), manifest["metadata"]["name"])
        params = {"fieldManager": manager, "force": str(force).lower()}
        headers = {"Content-Type": APPLY}
        return self._object(self.request("PATCH", path, content=json.dumps(manifest), params=params, headers=headers))

    def apply_all(self, manifests: Iterable[Manifest], namespace: str | None = None) -> Manifests:
        return [self.apply(manifest, namespace) for manifest in manifests]

    def patch(
        self,
        kind: str,
        name: str,
        patch: Manifest | Manifests,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Manifest:
        """Merge patch (a dict) or JSON patch (a list)."""
        path = self.resource(kind).path(namespace, name) + (f"/{subresource}" if subresource else "")
        media = JSON_PATCH if isinstance(patch, list) else MERGE
        return self._object(self.request("PATCH", path, json=patch, headers={"Content-Type": media}))

    def replace(self, manifest: Manifest) -> Manifest:
        resource = self._resource_of(manifest)
        metadata = manifest["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"])
        return self._object(self.request("PUT", path, json=manifest))

    def delete(self, kind: str, name: str, namespace: str | None = None, *, grace: int | None = None) -> None:
        """Deletes an object, if it exists, in the background."""
        try:
            self.request("DELETE", self.resource(kind).path(namespace, name), json=_in_background(grace))
        except ApiError as error:
            if error.status != 404:
                raise

    def delete_all(self, kind: str, namespace: str, *, grace: int | None = None) -> None:
        self.request("DELETE", self.resource(kind).path(namespace), json=_in_background(grace))

    def _resource_of(self, manifest: Manifest) -> ApiResource:
        return self.resource(f"{manifest['apiVersion']}/{manifest['kind']}")

    @staticmethod
    def _object(response: httpx.Response) -> Manifest:
        answer: Manifest = response.json()
        return answer

    def _discover(self) -> None:
        found: dict[str, ApiResource] = {}
        for root in ("/api", "/apis"):
            groups = self.request("GET", root, headers={"Accept": DISCOVERY}).json()["items"]
            for group in groups:
                for names, resource in _served(group):
                    for name in names:
                        found.setdefault(name, resource)
        self._resources = found


def _served(group: Manifest) -> Iterator[tuple[set[str], ApiResource]]:
    """Resources of a group, preferred version first, with their names."""
    group_name = group["metadata"].get("name", "")
    for version in group["versions"]:
        group_version = f"{group_name}/{version['version']}" if group_name else version["version"]
        for item in version.get("resources", []):
            plural, kind = item["resource"], item["responseKind"]["kind"]
            resource = ApiResource(group_version, plural, kind, item["scope"] == "Namespaced")
            names = {plural, item.get("singularResource") or kind, kind, *item.get("shortNames", [])}
            names |= {f"{plural}.{group_name}", f"{group_version}/{kind}"}
            yield {name.lower() for name in names}, resource


def read_manifests(*paths: Path) -> Manifests:
    return [document for path in paths for document in documents_of(path.read_text())]


def documents_of(text: str) -> Manifests:
    """Those that are not empty; libyaml reads them in a fifth of the time."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(text, Loader=loader) if document]


def is_true(item: Manifest, condition: str) -> bool:
    """Whether an object's status says that a condition holds."""
    conditions = item.get("status", {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def _in_background(grace: int | None) -> Manifest:
    body: Manifest = {"propagationPolicy": "Background"}
    return body if grace is None else body | {"gracePeriodSeconds": grace}


def _namespace(manifest: Manifest, namespace: str | None) -> str:
    return str(manifest["metadata"].get("namespace") or namespace or "default")


def _error(response: httpx.Response) -> ApiError:
    try:
        status = response.json()
    except ValueError:
        return ApiError(response.status_code, response.reason_phrase, response.text)
    return ApiError(response.status_code, status.get("reason", ""), status.get("message", response.text))


def identity(kubeconfig: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Server, TLS context and headers of a kubeconfig."""
    config = yaml.safe_load(kubeconfig.read_text())
    named = {
        section: {entry["name"]: entry for entry in config[section]} for section in ("contexts", "clusters", "users")
    }
    context = named["contexts"][config["current-context"]]["context"]
    cluster = named["clusters"][context["cluster"]]["cluster"]
    user = named["users"][context["user"]]["user"]
    authority = _text(cluster, "certificate-authority")
    tls = ssl.create_default_context(cadata=authority)
    if certificate := _text(user, "client-certificate"):
        with tempfile.TemporaryDirectory() as folder:
            pair = Path(folder) / "pair.pem"
            pair.touch(mode=0o600)
            pair.write_text(f"{certificate}\n{_text(user, 'client-key')}")
            tls.load_cert_chain(pair)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return cluster["server"], tls, headers


def _text(entry: Mapping[str, str], name: str) -> str | None:
    """PEM text of a kubeconfig's field, inline or as a path."""
    if inline := entry.get(f"{name}-data"):
        return base64.b64decode(inline).decode()
    return Path(entry[name]).read_text() if name in entry else None
