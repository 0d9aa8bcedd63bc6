"""Queries to Prometheus over HTTP (decision 0045): each is limited in time, and answers series or a message."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlencode

import orjson

from hetserve.demand.answers import AnswerError, Series, each_series, read_scalar
from hetserve.demand.queries import CLOCK, InstantQuery, Query, RangeQuery
from hetserve.sanitize import sanitize
from hetserve_operator.settings import PrometheusOptions
from hetserve_shell.http.client import AnswerTooLargeError, HttpClient
from hetserve_shell.tasks import garbage
from hetserve_shell.tasks.slices import Slices

CONNECTIONS: Final = 4
LARGEST_ANSWER: Final = 16 << 20
"""Bytes of an answer about many services; parsed, it takes four times as much memory."""
MOST_SERIES: Final = 50_000
LARGEST_OWN: Final = 1 << 20
"""Bytes of an answer to a service's own query: one series is wanted, or one per bucket."""
MOST_OWN: Final = 500
_LONGEST: Final = 300
"""Characters of an answer that is not understood, or of an error."""


class PrometheusError(Exception):
    """No whole answer, and why. refused: the query itself is to blame."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(_short(message))
        self.refused = refused


class Requests(Protocol):
    """HTTP requests to one server; an `HttpClient`."""

    async def request(
        self,
        method: str,
        target: str,
        *,
        headers: dict[str, str],
        body: bytes = b"",
        timeout: float,  # noqa: ASYNC109  (as of HttpClient)
    ) -> tuple[int, bytes]:
        """Status and body. Raises OSError without a whole answer in time."""
        ...

    def close(self) -> None: ...


class Prometheus:
    """A Prometheus server, with at most `CONNECTIONS` queries at once. largest: bytes of an answer; series: in it."""

    def __init__(
        self,
        options: PrometheusOptions,
        *,
        largest: int = LARGEST_ANSWER,
        series: int = MOST_SERIES,
        connect: Callable[[PrometheusOptions], Requests] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._options = options
        self._connect = connect or partial(_client, largest=largest)
        self._series = series
        self._sleep = sleep
        self._timeout = options.timeout
        self._token = Path(options.token_file) if options.token_file else None
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._client: Requests | None = None

    async def clock(self) -> float:
        """Its own time [Unix seconds]. Raises PrometheusError."""
        try:
            return read_scalar(await self._answer("query", {"query": CLOCK}))
        except AnswerError as error:
            raise PrometheusError(f"Prometheus: {error}") from None

    async def ask(self, query: Query, now: float) -> list[Series]:
        """Series of a query at `now` [Unix seconds, by its clock]. Raises PrometheusError."""
        answer = await self._ask(query, now)
        slices = Slices(self._sleep)
        found: list[Series] = []
        try:
            for series in each_series(answer):
                self._check(query, series, len(found))
                found.append(series)
                await slices.turn()
        except AnswerError as error:
            raise PrometheusError(f"Prometheus: {error}", refused=error.refused) from None
        return found

    def _check(self, query: Query, series: Series, before: int) -> None:
        """Raises AnswerError for more than was asked for: a figure that is read of a part would be wrong."""
        if before >= self._series:
            raise AnswerError(f"the answer has more than {self._series:,} series", refused=True)
        points = query.points if isinstance(query, RangeQuery) else 1
        if len(series.points) > points:
            raise AnswerError(f"a series has {len(series.points)} points, and {points} were asked for", refused=True)

    def close(self) -> None:
        """Ends its connections; certificates are read anew with the next query."""
        if self._client is not None:
            self._client.close()
        self._client = None

    async def _ask(self, query: Query, now: float) -> object:
        if isinstance(query, InstantQuery):
            return await self._answer("query", {"query": query.promql, "time": f"{now:.3f}"})
        start, end = query.moments(now)
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{query.step:.3f}"}
        return await self._answer("query_range", {"query": query.promql, **times})

    async def _answer(self, endpoint: str, fields: dict[str, str]) -> object:
        """Content of an answer. The time for it begins when it is sent, not while it waits for its turn."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", **self._bearer()}
        # What is cut at the limit has a warning, and is refused.
        body = urlencode({**fields, "timeout": f"{self._timeout:g}s", "limit": str(self._series)}).encode()
        async with self._turns:
            self._client = self._client or self._connect(self._options)
            try:
                status, content = await self._client.request(
                    "POST", f"/api/v1/{endpoint}", headers=headers, body=body, timeout=self._timeout
                )
            except OSError as error:  # a timeout is one
                if isinstance(error, ssl.SSLError | ConnectionError):
                    self.close()
                raise PrometheusError(f"Prometheus: {error}", refused=isinstance(error, AnswerTooLargeError)) from None
        return _content(status, content)

    def _bearer(self) -> dict[str, str]:
        """The token's header; the file is read anew, since tokens rotate."""
        if self._token is None:
            return {}
        try:
            token = self._token.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise PrometheusError(f"metrics.prometheus.tokenFile cannot be read: {error}") from None
        if not token or not token.isprintable():
            raise PrometheusError(f"metrics.prometheus.tokenFile {self._token} holds no token")
        return {"Authorization": f"Bearer {token}"}


def _content(status: int, content: bytes) -> object:
    """JSON of an answer; Prometheus says in JSON too why it refuses a query (400, 422)."""
    try:
        with garbage.paused():
            answer: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        message = content[:_LONGEST].decode(errors="replace")
        raise PrometheusError(
            f"Prometheus: HTTP {status}: {message}" if status != 200 else f"Prometheus: the answer is not JSON: {error}"
        ) from None
    known = isinstance(answer, dict) and "status" in answer
    if status != 200 and not (known and status in {400, 422}):
        message = str(answer.get("error") or answer) if isinstance(answer, dict) else str(answer)
        raise PrometheusError(f"Prometheus: HTTP {status}: {message}")
    return answer


def _client(options: PrometheusOptions, largest: int) -> HttpClient:
    return HttpClient(options.url, _tls(options), CONNECTIONS, largest=largest)


def _tls(options: PrometheusOptions) -> ssl.SSLContext | None:
    if not options.url.startswith("https://"):
        return None
    try:
        return ssl.create_default_context(cafile=options.ca_file or None)
    except OSError as error:
        raise PrometheusError(f"metrics.prometheus.caFile {options.ca_file} cannot be read: {error}") from None


def _short(message: str) -> str:
    clean = sanitize(message)
    return clean if len(clean) <= _LONGEST else clean[: _LONGEST - 3] + "..."
