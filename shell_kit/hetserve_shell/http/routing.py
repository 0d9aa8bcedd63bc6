"""Which handler answers a request, whichever version of HTTP brought it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus

from hetserve_shell.http.limits import Guarded, Handler, HttpError, Limits, Routes

log = logging.getLogger(__name__)


def find_route(routes: Routes, served: bytes, method: bytes, path: bytes) -> tuple[Handler | Guarded, bool]:
    """The route of a path, and whether it is asked for its head only. Raises HttpError.

    served: the method of all routes; where that is GET, HEAD is served too.
    """
    route = routes.get(path)
    if route is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"no such path; there are: {_paths(routes)}")
    head_only = method == b"HEAD"
    if method != served and not (head_only and served == b"GET"):
        allow = "GET, HEAD" if served == b"GET" else served.decode()
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"the only methods served are: {allow}", allow)
    return route, head_only


def handler_of(route: Handler | Guarded, path: bytes, credentials: Sequence[bytes]) -> Handler:
    """What answers one request. credentials: its Authorization headers."""
    return route.asked(path, credentials) if isinstance(route, Guarded) else route


def expects_continue(expected: Sequence[bytes]) -> bool:
    """Whether a client waits to be told that it may send the body. expected: its Expect headers. Raises HttpError."""
    if any(value.lower() != b"100-continue" for value in expected):
        raise HttpError(HTTPStatus.EXPECTATION_FAILED, "the only expectation served is 100-continue")
    return bool(expected)


def too_large(limits: Limits) -> HttpError:
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the request is larger than {limits.body} bytes")


def too_many() -> HttpError:
    return HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests at once")


def too_slow(limits: Limits) -> HttpError:
    return HttpError(HTTPStatus.REQUEST_TIMEOUT, f"the request was not complete within {limits.waiting:g} s")


def as_http_error(error: Exception) -> HttpError:
    """What a client is told about a handler that raised."""
    if isinstance(error, HttpError):
        return error
    log.error("a handler failed", exc_info=error)
    return HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")


def _paths(routes: Routes) -> str:
    return ", ".join(path.decode() for path in routes)
