"""Who may read what on the probe port: asked of the API server by TokenReview and SubjectAccessReview (decision 0055).

https://kubernetes.io/docs/reference/access-authn-authz/webhook/ and .../authorization/ say what the reviews mean.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import orjson

from hetserve_shell.http.handlers import Check
from hetserve_shell.http.limits import HttpError
from hetserve_shell.kube.client import ApiServer, ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError, RawObject
from hetserve_shell.settings import ProbeAuthorization

log = logging.getLogger(__name__)

ADMITTED_FOR: Final = 60.0
"""Seconds: so long at most does somebody read on whose token was revoked."""
REFUSED_FOR: Final = 10.0
"""Seconds: so long at most does somebody wait to whom a right was given."""
MOST: Final = 512
"""Verdicts of each kind that are kept."""

Key = tuple[bytes, str]
"""SHA-256 of a token, and a path."""


def key_of(token: str, path: str) -> Key:
    """What a verdict is kept by: not the token, which would then stand in memory for as long as the verdict."""
    return hashlib.sha256(token.encode()).digest(), path


Verdict = tuple[HTTPStatus, str] | None
"""Why a caller may not: 401 or 403, and a message without the token; None: the caller may."""


class Verdicts:
    """Verdicts by token and path, the oldest of which make room.

    clock: seconds, that never go back. admitted_for, refused_for: seconds. most: of each kind; who sends many wrong
    tokens takes no room of those who are let through.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        admitted_for: float = ADMITTED_FOR,
        refused_for: float = REFUSED_FOR,
        most: int = MOST,
    ) -> None:
        self._clock = clock
        self._most = most
        self._stands = {True: admitted_for, False: refused_for}
        """Seconds, by whether the caller may."""
        self._kept: dict[bool, OrderedDict[Key, tuple[float, Verdict]]] = {True: OrderedDict(), False: OrderedDict()}
        """In the order in which they were asked for."""

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def find(self, key: Key) -> tuple[bool, Verdict]:
        """Whether a verdict stands, and which."""
        for may, kept in self._kept.items():
            asked_at, verdict = kept.get(key, (-math.inf, None))
            if self._clock() < asked_at + self._stands[may]:
                return True, verdict
        return False, None

    def keep(self, key: Key, verdict: Verdict, asked_at: float) -> None:
        """Keeps a verdict. asked_at: when its reviews began, by our clock [s]: what they say may be as old as that."""
        for kept in self._kept.values():
            kept.pop(key, None)
        kept = self._kept[verdict is None]
        kept[key] = asked_at, verdict
        while len(kept) > self._most:
            kept.popitem(last=False)


TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  (a path)
ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REVIEW_WITHIN: Final = 5.0
"""Seconds for one review."""
LONGEST_TOKEN: Final = 16 * 1024
"""Characters; longer ones are not asked about."""
UNNAMED: Final = "send `Authorization: Bearer TOKEN`: this path is not for everybody (docs/security.md); /healthz is"
NOT_VALID: Final = "the API server does not know this bearer token: it may have expired, or be of another cluster"
_VERB: Final = "get"


class ReviewFailedError(Exception):
    """The API server gave no verdict."""


def check_of(authorization: ProbeAuthorization, api: ApiServer) -> Check | None:
    """The check of a probe port; None: everything is for everybody."""
    return None if authorization == "none" else Reviews(api, time.monotonic).check


class Reviews:
    """Decides who may read a path. clock: seconds, that never go back.

    Closed where the API server says nothing: only verdicts that still stand let anybody through.
    """

    def __init__(self, api: ApiServer, clock: Callable[[], float], verdicts: Verdicts | None = None) -> None:
        self._api = api
        self._clock = clock
        self._verdicts = Verdicts(clock) if verdicts is None else verdicts
        self._asked: dict[Key, asyncio.Task[Verdict]] = {}

    async def check(self, path: str, credentials: Sequence[bytes]) -> None:
        """Raises HttpError: 401 for a token that is missing or wrong, 403 for a missing right, 503 without a verdict.

        credentials: Authorization headers of the request.
        """
        token = bearer_token(credentials)
        key = key_of(token, path)
        stands, verdict = self._verdicts.find(key)
        if not stands:
            verdict = await self._verdict(key, token, path)
        if verdict is not None:
            raise HttpError(*verdict)

    async def _verdict(self, key: Key, token: str, path: str) -> Verdict:
        """The verdict of one pair of reviews for all who ask at once. Raises HttpError without one."""
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(self._ask(key, token, path))
            task.add_done_callback(partial(self._answered, key))
        try:
            return await asyncio.shield(task)  # a cancelled caller leaves the others theirs
        except ReviewFailedError as error:
            message = f"{path} is closed: whether you may read it cannot be asked: {error}"
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, message) from None

    def _answered(self, key: Key, task: asyncio.Task[Verdict]) -> None:
        self._asked.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen, though every caller has gone

    async def _ask(self, key: Key, token: str, path: str) -> Verdict:
        asked_at = self._clock()
        user = await self._user(token)
        verdict = (HTTPStatus.UNAUTHORIZED, NOT_VALID) if user is None else await self._access(user, path)
        self._verdicts.keep(key, verdict, asked_at)
        return verdict

    async def _user(self, token: str) -> RawObject | None:
        """Whose token it is; None: nobody's."""
        status = await self._review(TOKEN_REVIEWS, "TokenReview", {"token": token})
        user = status.get("user")
        if status.get("authenticated") is not True or not isinstance(user, dict) or not user.get("username"):
            return None
        return user

    async def _access(self, user: RawObject, path: str) -> Verdict:
        name = user["username"]
        spec = {
            "user": name,
            **{field: user[field] for field in ("uid", "groups", "extra") if user.get(field)},
            "nonResourceAttributes": {"path": path, "verb": _VERB},
        }
        status = await self._review(ACCESS_REVIEWS, "SubjectAccessReview", spec)
        if status.get("allowed") is True and not status.get("denied"):
            return None
        rule = f"{{nonResourceURLs: [{path}], verbs: [{_VERB}]}}"
        return (
            HTTPStatus.FORBIDDEN,
            f"{name!r} may not {_VERB} {path}: no ClusterRole bound to it has the rule {rule}; "
            "those of the chart end in -reader and -metrics-reader",
        )

    async def _review(self, path: str, kind: str, spec: RawObject) -> RawObject:
        """The status of a review. Raises ReviewFailedError; its words and its log hold nothing of the spec."""
        body = {"apiVersion": path.removeprefix("/apis/").rpartition("/")[0], "kind": kind, "spec": spec}
        try:
            answer = await self._api.request("POST", path, body=body, timeout=REVIEW_WITHIN)
            status: Any = answer.content().get("status")
        except ApiStatusError as error:
            raise ReviewFailedError(_refused(kind, path, error.status)) from None
        except (ApiUnreachableError, orjson.JSONDecodeError, AttributeError) as error:
            log.warning("%s: %s", kind, type(error).__name__)
            raise ReviewFailedError(f"the API server did not answer the {kind}") from None
        if not isinstance(status, dict):
            raise ReviewFailedError(f"the API server answered the {kind} without a status")
        return status


def _refused(kind: str, path: str, status: int) -> str:
    message = f"the API server refused the {kind} with {status}"
    if status != HTTPStatus.FORBIDDEN:
        return message
    return f"{message}: this component's account may not create {path.rpartition('/')[2]}; helm upgrade writes its role"


def bearer_token(credentials: Sequence[bytes]) -> str:
    """The token of the one Authorization header (RFC 6750). Raises HttpError: 401."""
    scheme, _, token = credentials[0].decode("latin-1").strip().partition(" ") if credentials else ("", "", "")
    token = token.strip()
    good = len(credentials) == 1 and scheme.lower() == "bearer" and token.isascii() and token.isprintable()
    if not good or not token or " " in token or len(token) > LONGEST_TOKEN:
        raise HttpError(HTTPStatus.UNAUTHORIZED, UNNAMED)
    return token
