"""Queries over HTTP, against a server that answers as Prometheus does and against ones that misbehave."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from harness import limits
from hetserve.base.units import Seconds
from hetserve.demand.queries import InstantQuery, RangeQuery
from hetserve_operator.demand.prometheus import CONNECTIONS, LARGEST_ANSWER, MOST_SERIES, Prometheus, PrometheusError
from hetserve_operator.settings import PrometheusOptions

RANGE = RangeQuery('sum(rate(x{a="b"}[1m]))', Seconds(30.0), Seconds(15.0))
MATRIX = b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[45,"7"],[60,"8"]]}]}}'
SCALAR = b'{"status":"success","data":{"resultType":"scalar","result":[1763899230.123,"1763899230.123"]}}'
BAD_DATA = b'{"status":"error","errorType":"bad_data","error":"parse error: unclosed left parenthesis"}'
UNAVAILABLE = b'{"status":"error","errorType":"unavailable","error":"TSDB not ready"}'


def http(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n\r\n".encode() + body


class Answers:
    """What a server answers to each request, and what it was asked. None: nothing, and the connection stays open."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.fields: list[dict[str, str]] = []
        self.at_once = 0
        self.most_at_once = 0
        self.tasks: set[asyncio.Task[None] | None] = set()

    async def end(self) -> None:
        """Waits until every connection has ended."""
        if self.tasks:
            await asyncio.wait([task for task in self.tasks if task], timeout=limits.ANSWER)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
                body = (await reader.readexactly(size)).decode()
                self.heads.append(head)
                self.fields.append({name: values[0] for name, values in parse_qs(body).items()})
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                await asyncio.sleep(0)
                self.at_once -= 1
                if self.answer is None:
                    await reader.read()
                    break
                writer.write(self.answer)
                if not self.answer.endswith(b"}") or b"Content-Length: 1000\r\n" in self.answer:
                    break
        writer.transport.abort()


@asynccontextmanager
async def prometheus(
    answer: bytes | None, path: str = "", within: str = "5s", token: Path | None = None
) -> AsyncIterator[tuple[Prometheus, Answers]]:
    answers = Answers(answer)
    server = await asyncio.start_server(answers.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    # A token goes over https alone; the settings see to it, so that only here it goes over the loopback in clear.
    options = PrometheusOptions(url=f"http://127.0.0.1:{port}{path}", timeout=within).model_copy(
        update={"token_file": str(token or "")}
    )
    asked = Prometheus(options)
    try:
        yield asked, answers
    finally:
        asked.close()
        server.close()
        await answers.end()


async def test_a_range_query_is_sent_as_a_form_with_moments_by_prometheus_own_clock() -> None:
    async with prometheus(http(MATRIX), path="/prom") as (asked, answers):
        (series,) = await asked.ask(RANGE, 62.5)

    assert series.points == [(45, 7.0), (60, 8.0)]
    assert answers.heads[0].startswith("POST /prom/api/v1/query_range HTTP/1.1\r\n")
    assert answers.fields == [
        {"query": RANGE.promql, "start": "30.000", "end": "60.000", "step": "15.000", "timeout": "5s", "limit": "50000"}
    ]


async def test_an_instant_query_names_its_moment_and_the_clock_none() -> None:
    async with prometheus(http(SCALAR)) as (asked, answers):
        assert await asked.clock() == 1763899230.123
        with pytest.raises(PrometheusError, match="the result is a scalar, not series"):
            await asked.ask(InstantQuery("5"), 62.5)

    every = {"timeout": "5s", "limit": "50000"}
    assert answers.fields == [{"query": "time()", **every}, {"query": "5", "time": "62.500", **every}]


TROUBLES: dict[str, tuple[bytes | None, str]] = {
    "500": (http(b"out of memory", "500 Internal Server Error"), "Prometheus: HTTP 500: out of memory"),
    "503": (http(UNAVAILABLE, "503 Service Unavailable"), "Prometheus: HTTP 503: TSDB not ready"),
    "401": (http(b"Unauthorized\n", "401 Unauthorized"), "Prometheus: HTTP 401: Unauthorized\\n"),
    "404 in JSON": (http(b'{"message":"no route"}', "404 Not Found"), "HTTP 404: {'message': 'no route'}"),
    "redirect": (http(b"", "302 Found"), "Prometheus: HTTP 302: "),
    "half a body": (http(MATRIX[:40], length=1000), "Prometheus: the server closed the connection"),
    "half of JSON": (http(MATRIX[:40]), "Prometheus: the answer is not JSON: "),
    "nothing": (http(b""), "Prometheus: the answer is not JSON: "),
    "HTML": (http(b"<html>"), "Prometheus: the answer is not JSON: "),
    "null": (http(b"null"), "Prometheus: not the format of Prometheus's API: no JSON object"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "Prometheus: the answer is not HTTP/1.1: "),
    "silence": (None, "Prometheus: no answer within 0.05 s"),
}


@pytest.mark.parametrize(("answer", "words"), TROUBLES.values(), ids=list(TROUBLES))
async def test_what_is_no_whole_answer_is_an_error_in_words(answer: bytes | None, words: str) -> None:
    async with prometheus(answer, within="5s" if answer else "50ms") as (asked, _):
        with pytest.raises(PrometheusError) as error:
            await asked.ask(RANGE, 62.5)

    assert words in str(error.value)
    assert not error.value.refused


@pytest.mark.parametrize("status", ["400 Bad Request", "422 Unprocessable Entity"])
async def test_a_refused_query_says_so(status: str) -> None:
    async with prometheus(http(BAD_DATA, status)) as (asked, _):
        with pytest.raises(PrometheusError, match="Prometheus: parse error: unclosed left parenthesis") as error:
            await asked.ask(RANGE, 62.5)

    assert error.value.refused


async def test_nobody_there_is_an_error_and_the_next_query_may_succeed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    asked = Prometheus(PrometheusOptions(url=f"http://127.0.0.1:{port}"))
    with pytest.raises(PrometheusError, match="Prometheus: Cannot connect"):
        await asked.clock()
    answers = Answers(http(SCALAR))
    server = await asyncio.start_server(answers.serve, "127.0.0.1", port)
    assert await asked.clock() > 0
    asked.close()
    server.close()
    await answers.end()


async def test_the_words_of_a_stranger_are_short_and_show() -> None:
    async with prometheus(http(b"\x1b[31m" + b"x" * 5000, "500 No")) as (asked, _):
        with pytest.raises(PrometheusError) as error:
            await asked.clock()

    assert str(error.value).startswith("Prometheus: HTTP 500: \\x1b[31mxxx")
    assert len(str(error.value)) == 300


async def test_few_queries_are_under_way_at_once() -> None:
    async with prometheus(http(MATRIX)) as (asked, answers):
        found = await asyncio.gather(*(asked.ask(RANGE, 62.5) for _ in range(40)))

    assert len(found) == 40
    assert answers.most_at_once <= CONNECTIONS


async def test_the_token_is_read_anew_for_each_query_and_shown_to_nobody_else(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    async with prometheus(http(MATRIX), token=token) as (asked, answers):
        await asked.ask(RANGE, 62.5)
        token.write_text("second")
        await asked.ask(RANGE, 62.5)

    assert ["Authorization: Bearer first" in answers.heads[0], "Authorization: Bearer second" in answers.heads[1]] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "metrics.prometheus.tokenFile cannot be read: .*No such file"),
        (b"", "metrics.prometheus.tokenFile .* holds no token"),
        (b"two\nlines", "metrics.prometheus.tokenFile .* holds no token"),
        (b"\xff\xfe", "metrics.prometheus.tokenFile cannot be read"),
    ],
)
async def test_a_token_that_is_none_is_not_sent(tmp_path: Path, content: bytes | None, words: str) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    async with prometheus(http(MATRIX), token=token) as (asked, answers):
        with pytest.raises(PrometheusError, match=words) as error:
            await asked.ask(RANGE, 62.5)

    assert answers.heads == []
    assert "lines" not in str(error.value)


async def test_certificates_that_cannot_be_read_stop_no_operator(tmp_path: Path) -> None:
    options = PrometheusOptions(url="https://127.0.0.1:1", ca_file=str(tmp_path / "ca.crt"))

    with pytest.raises(PrometheusError, match=r"metrics.prometheus.caFile .*ca.crt cannot be read: .*No such file"):
        await Prometheus(options).clock()


async def test_an_answer_that_is_too_large_is_refused_while_it_is_read() -> None:
    async with prometheus(http(b" " * (LARGEST_ANSWER + 1) + MATRIX)) as (asked, _):
        with pytest.raises(PrometheusError, match="more than 16,777,216 bytes") as caught:
            await asked.ask(RANGE, 62.5)
    assert caught.value.refused


TRUNCATED = b"""{"status":"success","warnings":["results truncated due to limit"],
"data":{"resultType":"matrix","result":[]}}"""


async def test_an_answer_that_prometheus_cut_is_refused_and_no_figure() -> None:
    async with prometheus(http(TRUNCATED)) as (asked, answers):
        with pytest.raises(PrometheusError, match="truncated due to limit") as caught:
            await asked.ask(RANGE, 62.5)
    assert caught.value.refused
    assert answers.fields[0]["limit"] == str(MOST_SERIES)


async def test_an_answer_of_a_server_that_knows_no_limit_is_cut_by_ours() -> None:
    many = b",".join(b'{"metric":{},"value":[45,"7"]}' for _ in range(MOST_SERIES + 1))
    longer = b",".join(b'[%d,"7"]' % at for at in range(4))
    for found, words in ((many, "series"), (b'{"metric":{},"values":[%s]}' % longer, "4 points, and 3 were asked for")):
        body = b'{"status":"success","data":{"resultType":"matrix","result":[%s]}}' % found
        async with prometheus(http(body)) as (asked, _):
            with pytest.raises(PrometheusError, match=words) as caught:
                await asked.ask(RANGE, 62.5)
        assert caught.value.refused
