"""Client for the cluster of the user's kubeconfig: get, paged list, patch, watch, as raw JSON.

The client library does configuration and TLS. Every failure is a ClusterError: one line, exit code 2.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote, urlencode

import click
import yaml

from hetserve.base.files import UnreadableError, check_file
from hetserve.base.lines import LineCutter, LineTooLongError
from hetserve.base.nesting import shallow
from hetserve.base.pages import FIRST_PAGE, next_page
from hetserve.base.units import Seconds

RawObject = dict[str, Any]
Keep = Callable[[RawObject], RawObject | None]
"""Reduces an object; None drops it."""
Kept = list[RawObject]
_Answer = tuple[bytes, Mapping[str, str]]
PAGE_BYTES: Final = 4 << 20
"""Aimed size of a page; parsed, it takes ten times as much memory."""
JSON_PATCH: Final = "application/json-patch+json"
UNFINISHED_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MOST_BYTES: Final = 4 << 20
LARGEST_ANSWER: Final = 64 << 20  # bytes
_LARGEST_LINE: Final = 16 << 20
"""Bytes of a line of a watch: one object."""
_CHUNK: Final = 1 << 16
_TIMEOUT: Final = (5.0, 60.0)
_WATCH_SECONDS: Final = 300
_WATCH_GRACE: Final = 10.0
"""Seconds after which a server that does not end its watch in time is given up."""


class ClusterError(click.ClickException):
    """`status`: of the HTTP answer; 0: none."""

    exit_code = 2

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class OversizedAnswerError(ClusterError):
    """The answer has more bytes than are read."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Kept objects of a collection, and the revision from which to watch."""

    items: tuple[RawObject, ...]
    revision: str


class ClusterClient:
    """`namespace`: of the kubeconfig's context. configuration: the client library's, with TLS and credentials."""

    def __init__(self, configuration: Any, namespace: str) -> None:
        from kubernetes.client.rest import RESTClientObject  # noqa: PLC0415

        configuration.retries = False
        self.configuration = configuration
        self.host = str(configuration.host).rstrip("/")
        self.namespace = namespace
        self._rest: Any = RESTClientObject(configuration)

    @classmethod
    def connect(cls, kubeconfig: str | None = None, context: str | None = None) -> ClusterClient:
        """Client for a kubeconfig (None: $KUBECONFIG or ~/.kube/config) and a context (None: current).

        A pod without kubeconfig uses its service account. Sends nothing. Raises ClusterError.
        """
        from kubernetes import client, config  # noqa: PLC0415

        configuration = client.Configuration()
        if kubeconfig is None and context is None and _in_pod():
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            return cls(configuration, (_ACCOUNT / "namespace").read_text().strip())
        try:
            for name in _kubeconfigs(kubeconfig):
                check_file(name, _MOST_BYTES)
            config.load_kube_config(kubeconfig, context, configuration, persist_config=False)  # type: ignore[no-untyped-call]
            contexts, current = config.list_kube_config_contexts(kubeconfig)  # type: ignore[no-untyped-call]
        except UnreadableError as error:
            raise ClusterError(f"kubeconfig {error}") from None
        except (config.ConfigException, yaml.YAMLError, OSError, ValueError) as error:
            raise ClusterError(_unusable(kubeconfig, line_of(error))) from None
        return cls(configuration, _namespace(contexts, current, context))

    def get(self, path: str) -> RawObject:
        """Raises ClusterError, with status 404 if absent."""
        return self._object("GET", path)

    def find(self, path: str) -> RawObject | None:
        try:
            return self.get(path)
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    def token(self) -> str | None:
        """The user's bearer token, of the kubeconfig or of its plugin; None: a certificate or a password is used."""
        scheme, _, token = self._authentication().get("authorization", "").partition(" ")
        return token.strip() or None if scheme.lower() == "bearer" else None

    def list(
        self,
        path: str,
        selector: str | None = None,
        labels: str | None = None,
        *,
        keep: Keep = lambda raw: raw,
    ) -> Listing:
        """A collection, read in pages; `selector`: field selector, `labels`: label selector.

        Applies `keep` page by page: whole pods take gigabytes.
        """
        query = {"fieldSelector": selector} if selector else {}
        query |= {"labelSelector": labels} if labels else {}
        items: list[RawObject] = []
        limit = FIRST_PAGE
        while True:
            try:
                kept, metadata, limit = self._page(path, query, limit, keep)
            except OversizedAnswerError:
                if limit == 1:
                    raise
                limit //= 2
                continue
            items += kept
            if not metadata.get("continue"):
                return Listing(tuple(items), str(metadata.get("resourceVersion") or ""))
            query["continue"] = metadata["continue"]

    def patch(self, path: str, body: object) -> RawObject:
        """Patches an object by a JSON patch, which begins with `test` operations, and returns it."""
        return self._object("PATCH", path, body=body)

    def create(self, path: str, body: object) -> RawObject:
        """Creates an object in a collection and returns it, for example an access review. Raises ClusterError."""
        return self._object("POST", path, body=body)

    def time(self) -> Seconds:
        """The API server's clock [s since 1970], in whole seconds: ours may differ. Raises ClusterError."""
        stamp = self._request("GET", "/version")[1].get("Date")
        if stamp is None:
            raise ClusterError(f"the API server at {self.host} does not say what time it is")
        return Seconds(parsedate_to_datetime(stamp).timestamp())

    def watch(
        self, path: str, revision: str, selector: str | None = None, *, seconds: int = _WATCH_SECONDS
    ) -> Generator[RawObject]:
        """Events after a revision until the server ends the watch, after `seconds` [s], or it breaks.

        Raises ClusterError.
        """
        from urllib3.exceptions import HTTPError  # noqa: PLC0415

        query = {"watch": "1", "resourceVersion": revision, "timeoutSeconds": str(seconds)}
        query |= {"allowWatchBookmarks": "true"} | ({"fieldSelector": selector} if selector else {})
        response = self._open("GET", path, query, timeout=(_TIMEOUT[0], seconds + _WATCH_GRACE))
        with closing(response), suppress(HTTPError):
            if not _is_good(response):
                _refused("GET", path, response.status, response.read(_MOST_BYTES))
            for line in _lines(response):
                event: RawObject = _decoded(line)
                if event.get("type") == "ERROR":
                    status = event["object"]
                    raise ClusterError(str(status.get("message")), int(status.get("code") or 500))
                if event["type"] != "BOOKMARK":
                    yield event

    def _authentication(self) -> dict[str, str]:
        # Per request: plugins renew tokens.
        settings = self.configuration.auth_settings().values()
        return {str(one["key"]): str(one["value"]) for one in settings if one["value"]}

    def _page(self, path: str, query: Mapping[str, str], limit: int, keep: Keep) -> tuple[Kept, RawObject, int]:
        """(kept objects, metadata of the list, limit of the next page)."""
        data, _ = self._request("GET", path, {**query, "limit": str(limit)})
        page: RawObject = _decoded(data)
        found = page.get("items") or []
        kept = [one for one in map(keep, found) if one is not None]
        return kept, page.get("metadata") or {}, next_page(limit, len(found), len(data), PAGE_BYTES)

    def _object(self, method: str, path: str, **more: Any) -> RawObject:
        content: RawObject = _decoded(self._request(method, path, **more)[0])
        return content

    def _request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, **more: Any
    ) -> tuple[bytes, Any]:
        """(the whole answer to a request, its headers). Raises ClusterError, OversizedAnswerError."""
        from urllib3.exceptions import HTTPError  # noqa: PLC0415

        response = self._open(method, path, query, **more)
        try:
            data = response.read(LARGEST_ANSWER + 1)
        except (HTTPError, OSError) as error:
            raise self._unreachable(error) from None
        if len(data) > LARGEST_ANSWER:
            response.close()
            raise OversizedAnswerError(f"{method} {path}: the answer has more than {LARGEST_ANSWER:,} bytes")
        if not _is_good(response):
            _refused(method, path, response.status, data)
        return data, response.headers

    def _unreachable(self, error: Exception) -> ClusterError:
        return ClusterError(f"the API server at {self.host} cannot be reached: {line_of(error)}")

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: object = None,
        timeout: tuple[float, float] = _TIMEOUT,
    ) -> Any:
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415
        from urllib3.exceptions import HTTPError  # noqa: PLC0415

        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "User-Agent": "hetserve"}
        headers |= self._authentication()
        kind = JSON_PATCH if method == "PATCH" else "application/json"
        headers |= {"Content-Type": kind} if body is not None else {}
        try:
            wrapped = self._rest.request(method, url, headers=headers, body=body, _request_timeout=timeout)
        except (HTTPError, OSError, ApiException) as error:
            raise self._unreachable(error) from None
        return wrapped.response


def _lines(response: Any) -> Iterator[bytes]:
    """Lines without their ends. Raises OversizedAnswerError."""
    cutter = LineCutter(_LARGEST_LINE)
    try:
        for chunk in response.stream(_CHUNK):
            yield from cutter.cut(chunk)
    except LineTooLongError as error:
        raise OversizedAnswerError(f"watch: {error}") from None


def _is_good(response: Any) -> bool:
    return bool(200 <= response.status < 300)


def _decoded(text: bytes) -> Any:
    """Content of a text; of one that is too deep to be decoded, without what lies below. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(shallow(text))


def _kubeconfigs(given: str | None) -> list[str]:
    # Path.home raises for a user without a home.
    default = os.path.expanduser("~/.kube/config")  # noqa: PTH111
    return [given] if given is not None else os.environ.get("KUBECONFIG", default).split(os.pathsep)


def _in_pod() -> bool:
    """Whether this is a pod with a service account and no kubeconfig."""
    own = "KUBECONFIG" in os.environ or Path(os.path.expanduser("~/.kube/config")).exists()  # noqa: PTH111
    return not own and "KUBERNETES_SERVICE_HOST" in os.environ and (_ACCOUNT / "token").exists()


def namespaced(version: str, namespace: str, plural: str, *names: str) -> str:
    """Path of a collection in a namespace (`version`: `v1`, or with its group), or of an object in it; quoted."""
    group = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    return "/".join((f"{group}/namespaces", *(quote(part, safe="") for part in (namespace, plural, *names))))


def absent(kind: str, namespace: str, name: str) -> ClusterError:
    """To be raised where the object that a user named is not there."""
    return ClusterError(f"there is no {kind} {name} in namespace {namespace}; -n NS names another")


def _refused(method: str, path: str, status: int, body: bytes) -> NoReturn:
    try:
        message = _decoded(body).get("message")
    except (ValueError, AttributeError):
        message = None
    words = str(message or f"the API server answered {status}")
    if status == 401:
        words = "the API server does not know who you are (401): are the kubeconfig's credentials still valid?"
    raise ClusterError(words if message or status == 401 else f"{method} {path}: {words}", status)


def _namespace(contexts: Any, current: Any, name: str | None) -> str:
    chosen = next((one for one in contexts if one["name"] == name), current)
    return str(chosen["context"].get("namespace") or "default")


def _unusable(path: str | None, words: str) -> str:
    if "No configuration found" in words:
        named = "no kubeconfig: none at $KUBECONFIG nor at ~/.kube/config" if path is None else f"no kubeconfig {path}"
        return f"{named}; name one by --kubeconfig FILE, or read a dump by --from FILE"
    return f"kubeconfig{'' if path is None else ' ' + path}: {words}"


def line_of(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split()) or type(error).__name__
