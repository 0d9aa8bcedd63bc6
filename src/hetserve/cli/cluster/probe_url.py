"""GET of what a probe port shows: first without a token, then with one where the port asks for it."""

from __future__ import annotations

import http.client
import ipaddress
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

TIMEOUT: Final = 30.0
_MOST_WORDS: Final = 1000
Get = Callable[[Mapping[str, str]], tuple[int, bytes]]
"""A GET with more headers: (status, body)."""


class ProbeRefusalError(Exception):
    """An answer other than 200; has the port's words."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


def get_shown(get: Get, token: Callable[[], str]) -> bytes:
    """The body of a 200. A port that shows it to everybody is not shown the token. Raises ProbeRefusalError."""
    status, body = get({})
    if status == HTTPStatus.UNAUTHORIZED:
        status, body = get({"Authorization": f"Bearer {token()}"})
    if status != HTTPStatus.OK:
        raise ProbeRefusalError(_words(body) or f"the answer is {status}", status)
    return body


def get_url(url: str, token: Callable[[], str], *, most: int) -> bytes:
    """The body of an http or https URL. Raises ProbeRefusalError, OSError.

    A token goes to this machine alone (a process, or what `kubectl port-forward` has opened) and after no redirection:
    whoever gets it can use it at the API server. most: bytes.
    """

    def get(headers: Mapping[str, str]) -> tuple[int, bytes]:
        status, body = _got(url, headers, most)
        if len(body) > most:
            raise ProbeRefusalError(f"the answer is larger than {most >> 20} MiB", status)
        return status, body

    def own() -> str:
        if not _is_this_machine(url):
            words = (
                "it asks for a bearer token, and yours is shown to this machine alone: "
                "forward the port (kubectl port-forward) and name 127.0.0.1"
            )
            raise ProbeRefusalError(words, HTTPStatus.UNAUTHORIZED)
        return token()

    return get_shown(get, own)


class _Here(HTTPRedirectHandler):
    """Follows no redirection."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _got(url: str, headers: Mapping[str, str], most: int) -> tuple[int, bytes]:
    """(status, body); with headers neither a proxy nor another machine sees them."""
    opener = build_opener(ProxyHandler({}), _Here) if headers else build_opener()
    try:
        with opener.open(Request(url, headers=dict(headers)), timeout=TIMEOUT) as answer:  # noqa: S310
            return answer.status, answer.read(most + 1)
    except HTTPError as error:
        return error.code, error.read(_MOST_WORDS) or str(error).encode()
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP answer: {error}") from None


def _is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _words(body: bytes) -> str:
    """The port's own words: `Error` of its JSON, else the text on one line."""
    text = " ".join(body[:_MOST_WORDS].decode(errors="replace").split())
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return str(found["Error"]) if isinstance(found, dict) and found.get("Error") else text
