"""Who may read the probe port: what is asked of the API server, and what happens where it says nothing."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest

from hetserve_shell.http.limits import HttpError
from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.reviews import (
    ACCESS_REVIEWS,
    ADMITTED_FOR,
    REFUSED_FOR,
    TOKEN_REVIEWS,
    Reviews,
    Verdicts,
    bearer_token,
    check_of,
)
from testing.kit.reviews import ReviewingApi

PROMETHEUS = {"username": "system:serviceaccount:monitoring:prometheus", "uid": "u1", "groups": ["g"]}
STRANGER = {"username": "mallory"}
SECRET = "a-token-that-nobody-may-see"  # noqa: S105


@dataclass
class Scene:
    """Prometheus may get /metrics; the stranger is known and may nothing."""

    api: ReviewingApi = field(
        default_factory=lambda: ReviewingApi(
            users={SECRET: PROMETHEUS, "other": STRANGER}, rights={(str(PROMETHEUS["username"]), "/metrics")}
        )
    )
    now: float = 100.0

    def __post_init__(self) -> None:
        self.verdicts = Verdicts(lambda: self.now)
        self.reviews = Reviews(self.api, lambda: self.now, self.verdicts)

    async def ask(self, token: str = SECRET, path: str = "/metrics") -> HttpError | None:
        try:
            await self.reviews.check(path, [f"Bearer {token}".encode()])
        except HttpError as error:
            return error
        return None

    async def status(self, token: str = SECRET, path: str = "/metrics") -> int:
        error = await self.ask(token, path)
        return 200 if error is None else int(error.status)

    @property
    def asked(self) -> tuple[int, int]:
        return len(self.api.reviews(TOKEN_REVIEWS)), len(self.api.reviews(ACCESS_REVIEWS))


async def test_who_may_is_let_through_and_asked_about_with_everything_that_the_token_says() -> None:
    scene = Scene()
    assert await scene.ask() is None
    assert scene.api.reviews(TOKEN_REVIEWS) == [{"token": SECRET}]
    assert scene.api.reviews(ACCESS_REVIEWS) == [
        {
            "user": PROMETHEUS["username"],
            "uid": "u1",
            "groups": ["g"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }
    ]


async def test_a_right_to_one_path_is_none_to_another() -> None:
    scene = Scene()
    assert await scene.ask() is None
    refused = await scene.ask(path="/ledger")
    assert refused is not None
    assert refused.status == HTTPStatus.FORBIDDEN
    assert "{nonResourceURLs: [/ledger], verbs: [get]}" in str(refused)
    assert "monitoring:prometheus" in str(refused)


async def test_a_token_that_nobody_knows_is_401_and_no_access_is_asked_about() -> None:
    scene = Scene()
    assert await scene.status("wrong") == 401
    assert scene.asked == (1, 0)


@pytest.mark.parametrize(
    "credentials",
    [
        [],
        [b""],
        [b"Bearer"],
        [b"Bearer "],
        [b"Basic dXNlcjpwYXNz"],
        [b"Bearer a b"],
        [b"Bearer a\x00b"],
        [b"Bearer \xff\xfe"],
        [b"Bearer a", b"Bearer b"],
        [b"Bearer " + b"x" * 20_000],
    ],
)
async def test_what_is_no_bearer_token_is_401_without_a_request(credentials: Sequence[bytes]) -> None:
    scene = Scene()
    with pytest.raises(HttpError) as caught:
        await scene.reviews.check("/metrics", credentials)
    assert caught.value.status == HTTPStatus.UNAUTHORIZED
    assert "Authorization: Bearer TOKEN" in str(caught.value)
    assert scene.asked == (0, 0)


def test_the_scheme_is_read_in_any_case() -> None:
    assert bearer_token([b"bEARER  abc "]) == "abc"


async def test_a_verdict_stands_for_its_time_and_no_longer() -> None:
    scene = Scene()
    assert [await scene.status(), await scene.status()] == [200, 200]
    assert scene.asked == (1, 1)
    scene.now += ADMITTED_FOR - 0.001
    assert await scene.status() == 200
    assert scene.asked == (1, 1)
    scene.api.users.clear()  # the account is deleted
    scene.now += 0.001
    assert await scene.status() == 401


async def test_a_right_that_is_given_holds_as_soon_as_the_refusal_has_had_its_time() -> None:
    scene = Scene()
    assert await scene.status(path="/ledger") == 403
    scene.api.rights.add((str(PROMETHEUS["username"]), "/ledger"))
    scene.now += REFUSED_FOR - 0.001
    assert await scene.status(path="/ledger") == 403
    scene.now += 0.001
    assert await scene.status(path="/ledger") == 200


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("lost before", "did not answer the TokenReview"),
        (500, "refused the TokenReview with 500"),
        (403, "may not create tokenreviews; helm upgrade writes its role"),
    ],
)
async def test_without_an_answer_it_is_closed_and_nothing_is_remembered(fault: Any, words: str) -> None:
    scene = Scene()
    scene.api.faults["POST"] = deque([fault])
    error = await scene.ask()
    assert error is not None
    assert error.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert words in str(error)
    assert len(scene.verdicts) == 0
    assert await scene.status() == 200, "the next request asks anew"


class Odd(ReviewingApi):
    """Answers one kind of review with a body of the test's."""

    where = ACCESS_REVIEWS
    body = b""

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        return Answer(201, self.body) if path == self.where else await super().request(method, path, **rest)


@pytest.mark.parametrize(
    ("where", "body", "status"),
    [
        (TOKEN_REVIEWS, b"", 503),
        (TOKEN_REVIEWS, b"[]", 503),
        (TOKEN_REVIEWS, b"{}", 503),
        (TOKEN_REVIEWS, b'{"status": {}}', 401),
        (TOKEN_REVIEWS, b'{"status": {"authenticated": "true", "user": {"username": "u"}}}', 401),
        (TOKEN_REVIEWS, b'{"status": {"authenticated": true}}', 401),
        (TOKEN_REVIEWS, b'{"status": {"authenticated": true, "user": {"username": ""}}}', 401),
        (TOKEN_REVIEWS, b'{"status": {"authenticated": false, "user": {"username": "u"}}}', 401),
        (ACCESS_REVIEWS, b'{"status": null}', 503),
        (ACCESS_REVIEWS, b'{"status": {}}', 403),
        (ACCESS_REVIEWS, b'{"status": {"allowed": false, "evaluationError": "x"}}', 403),
        (ACCESS_REVIEWS, b'{"status": {"allowed": 1}}', 403),
        (ACCESS_REVIEWS, b'{"status": {"allowed": true, "denied": true}}', 403),
        (ACCESS_REVIEWS, b"not JSON", 503),
    ],
)
async def test_an_odd_answer_lets_nobody_through(where: str, body: bytes, status: int) -> None:
    odd = Odd(users={SECRET: PROMETHEUS}, rights={(str(PROMETHEUS["username"]), "/metrics")})
    odd.where, odd.body = where, body
    scene = Scene(api=odd)
    assert await scene.status() == status


async def test_all_who_ask_at_once_share_one_pair_of_reviews() -> None:
    scene = Scene()
    scene.api.hold = asyncio.Event()
    asking = [asyncio.create_task(scene.status()) for _ in range(20)]
    while not scene.api.calls:  # noqa: ASYNC110
        await asyncio.sleep(0)
    asking[0].cancel()
    scene.api.hold.set()
    assert await asyncio.gather(*asking[1:]) == [200] * 19
    assert scene.asked == (1, 1)


async def test_a_slow_review_is_as_old_as_its_question() -> None:
    scene = Scene()
    scene.api.hold = asyncio.Event()
    asking = asyncio.create_task(scene.status())
    while not scene.api.calls:  # noqa: ASYNC110
        await asyncio.sleep(0)
    scene.now += ADMITTED_FOR
    scene.api.hold.set()
    assert await asking == 200
    assert await scene.status() == 200
    assert scene.asked == (2, 2)


async def test_no_token_is_logged_or_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    scene = Scene()
    shown: list[str] = []

    async def note(change: Callable[[], object]) -> None:
        change()
        shown.append(str(await scene.ask(path="/ledger")))
        scene.now += 100

    await note(lambda: None)
    faults: list[Any] = ["lost before", 500, 403]
    for fault in faults:
        await note(partial(scene.api.faults.update, POST=deque([fault])))
    await note(scene.api.users.clear)
    assert len(shown) == 5
    assert SECRET not in caplog.text + "".join(shown)
    assert SECRET not in repr(vars(scene.verdicts))


def test_where_everything_is_for_everybody_nothing_is_checked() -> None:
    assert check_of("none", ReviewingApi()) is None
    assert check_of("kubernetes", ReviewingApi()) is not None
