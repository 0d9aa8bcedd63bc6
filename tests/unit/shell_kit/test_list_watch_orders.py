"""In every order of list pages, events and requests to list again, what the handler knows is a state that there was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve_shell.kube import informer
from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.connection import ApiUnreachableError, RawObject
from hetserve_shell.kube.informer import Reflector

State = dict[str, str]
"""Objects by name, each with the revision of its last change."""
PER_PAGE: Final = 2
NAMES: Final = ("a", "b", "c", "d")


@dataclass
class Server:
    """An API server that answers a page, or tells of an event, when the test says so; it keeps all its past."""

    past: list[State] = field(default_factory=lambda: [{}])
    pending: list[tuple[Mapping[str, str], asyncio.Future[Answer]]] = field(default_factory=list)
    told: int = 0
    watching: asyncio.Queue[bytes | Exception | None] | None = None

    def write(self, name: str) -> None:
        self.past.append(self.past[-1] | {name: str(len(self.past))})

    def delete(self, name: str) -> None:
        if name in self.past[-1]:
            self.past.append({key: value for key, value in self.past[-1].items() if key != name})

    def answer(self, fault: int = 0) -> None:
        """A page, of the state at the time of the first; or an error."""
        if not self.pending:
            return
        query, answer = self.pending.pop()
        if answer.done():
            return  # nobody waits for it any more
        if fault:
            answer.set_result(Answer(fault, b"{}"))
            return
        revision, _, start = query.get("continue", f"{len(self.past) - 1}/0").partition("/")
        there = sorted(self.past[int(revision)].items())
        end = int(start) + PER_PAGE
        more = {"continue": f"{revision}/{end}"} if end < len(there) else {}
        items = [_raw(name, changed) for name, changed in there[int(start) : end]]
        content = {"metadata": {"resourceVersion": revision, **more}, "items": items}
        answer.set_result(Answer(200, orjson.dumps(content)))

    def tell(self) -> None:
        """The next event of the watch, if it has not told all."""
        if self.watching is None or self.told + 1 >= len(self.past):
            return
        self.told += 1
        before, now = self.past[self.told - 1], self.past[self.told]
        gone = set(before) - set(now)
        name = gone.pop() if gone else next(name for name in now if now[name] == str(self.told))
        kind = "DELETED" if name not in now else "MODIFIED" if name in before else "ADDED"
        self.say(kind, _raw(name, str(self.told)))

    def say(self, kind: str, raw: RawObject) -> None:
        if self.watching is not None:
            self.watching.put_nowait(orjson.dumps({"type": kind, "object": raw}))

    def end_watch(self, how: Exception | None) -> None:
        if self.watching is not None:
            self.watching.put_nowait(how)

    async def request(self, _method: str, _path: str, *, query: Mapping[str, str], **_rest: Any) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.pending.append((dict(query), answer))
        return await answer

    async def watch(self, _path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        assert self.watching is None, "two watches at once"
        self.told, self.watching = int(query["resourceVersion"]), asyncio.Queue()
        try:
            while (line := await self.watching.get()) is not None:
                if isinstance(line, Exception):
                    raise line
                yield line
        finally:
            self.watching = None


@dataclass
class EventHandler:
    known: State = field(default_factory=dict)

    def replace(self, objects: Sequence[RawObject]) -> None:
        self.known = {raw["metadata"]["name"]: raw["metadata"]["resourceVersion"] for raw in objects}

    def apply(self, event: str, raw: RawObject) -> None:
        name = raw["metadata"]["name"]
        if event == "DELETED":
            del self.known[name]
        else:
            self.known[name] = raw["metadata"]["resourceVersion"]


class Bench:
    """A Reflector before that server; `step` lets it run until it waits, then looks at what the handler knows."""

    def __init__(self) -> None:
        self.server, self.handler = Server(), EventHandler()
        self.reflector = Reflector(self.server, "/api/v1/pods", self.handler, sleep=_at_once)  # type: ignore[arg-type]
        self.task = asyncio.create_task(self.reflector.run())
        self.relists: list[tuple[int, asyncio.Task[None]]] = []
        self.marks: list[tuple[int, int]] = []
        self.at = 0

    async def step(self, what: Callable[[], object]) -> None:
        what()
        for _ in range(15):
            await asyncio.sleep(0)
        assert not self.task.done(), self.task.exception()
        if self.reflector.synced.is_set():
            self.look()

    def look(self) -> None:
        at = int(self.reflector.revision or self.at)
        assert at >= self.at, "what is older than the list has overwritten it"
        assert self.handler.known == self.server.past[at], "an event was lost"
        self.at = at
        for asked_at, task in self.relists:
            assert not task.done() or task.exception() or asked_at <= at, "an older list was taken for it"

    def relist(self) -> None:
        self.relists.append((len(self.server.past) - 1, asyncio.create_task(self.reflector.relist())))
        self.marks.append((len(self.server.past) - 1, self.reflector.lists))

    def relist_since(self) -> None:
        """Somebody was cancelled while a list was made for him, and asks for it once more."""
        if self.marks:
            at, lists = self.marks[len(self.relists) % len(self.marks)]
            self.relists.append((at, asyncio.create_task(self.reflector.relist(lists))))

    async def rest(self) -> None:
        """Everything is answered and told: nothing may be missing then, and nobody waits."""
        for _ in range(3):
            while self.server.pending:
                await self.step(self.server.answer)
            while self.server.watching is not None and self.server.told + 1 < len(self.server.past):
                await self.step(self.server.tell)
        assert self.handler.known == self.server.past[-1]
        for asked_at, task in self.relists:
            assert task.done(), "who asked for a list waits for ever"
            assert task.exception() is not None or asked_at <= self.at
        self.task.cancel()
        await asyncio.wait([self.task])


STEPS: dict[str, Callable[[Bench], object]] = {
    **{f"write {name}": lambda bench, name=name: bench.server.write(name) for name in NAMES},  # type: ignore[misc]
    **{f"delete {name}": lambda bench, name=name: bench.server.delete(name) for name in NAMES},  # type: ignore[misc]
    "page": lambda bench: bench.server.answer(),
    "page refused": lambda bench: bench.server.answer(500),
    "page too old": lambda bench: bench.server.answer(410),
    "event": lambda bench: bench.server.tell(),
    "bookmark": lambda bench: bench.server.say("BOOKMARK", _raw("", str(bench.server.told))),
    "watch ends": lambda bench: bench.server.end_watch(None),
    "watch breaks": lambda bench: bench.server.end_watch(ApiUnreachableError("reset")),
    "revision gone": lambda bench: bench.server.say("ERROR", {"code": 410, "message": "too old"}),
    "relist": lambda bench: bench.relist(),
    "relist since": lambda bench: bench.relist_since(),
}


async def _run(steps: Sequence[str]) -> None:
    bench = Bench()
    for name in steps:
        await bench.step(lambda name=name: STEPS[name](bench))  # type: ignore[misc]
    await bench.rest()


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.sampled_from([*STEPS, *["page", "event", "relist"] * 3]), max_size=40))
@example(["write a", "write b", "write c", "page", "page", "relist", "page", "write d", "event", "page"])
@example(["write a", "write b", "write c", "page", "write d", "relist", "page", "page", "page"])
def test_in_every_order_the_sink_knows_a_state_that_there_was_and_at_rest_the_last(steps: list[str]) -> None:
    asyncio.run(_run(steps))


async def test_what_happens_while_pages_come_is_known_with_the_next_word_of_the_server() -> None:
    """And not after the next bookmark, a minute later: a new leader saw a pod only then."""
    bench = Bench()
    for name in ("a", "b", "c"):
        bench.server.write(name)
    for step in ("page", "page", "relist", "page", "write d", "event", "page"):
        await bench.step(lambda step=step: STEPS[step](bench))  # type: ignore[misc]
    assert bench.relists[0][1].done()
    await bench.step(bench.server.tell)
    assert bench.handler.known == bench.server.past[-1], (
        "the watch of before the list was asked, not one from its revision"
    )
    await bench.rest()


async def test_who_was_cancelled_while_a_list_was_made_for_him_is_served_by_that_list() -> None:
    """A machine so slow that a term of leadership ends before the list does would list for ever."""
    bench = Bench()
    for step in ("write a", "write b", "write c", "page", "page", "relist", "page"):
        await bench.step(lambda step=step: STEPS[step](bench))  # type: ignore[misc]
    began = bench.reflector.lists
    _, first = bench.relists.pop()
    first.cancel()
    bench.relist_since()
    await bench.step(bench.server.answer)
    assert bench.relists[0][1].done()
    assert bench.reflector.lists == began, "the list under way was thrown away"
    bench.relist_since()
    await bench.step(lambda: None)
    assert bench.relists[1][1].done()
    assert bench.reflector.lists == began, "the list that had been made for him was made again"
    await bench.rest()


@pytest.mark.parametrize("turns", range(8))
async def test_who_asks_for_a_list_while_the_last_is_being_dropped_makes_no_event_come_twice(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next list fails: the watch must go on from the one that was taken, not from that before it."""
    monkeypatch.setattr(informer, "FREED_TURN", 1)
    bench = Bench()
    for step in ("write a", "page", "write b", "write c", "delete a", "write d", "relist", "page"):
        await bench.step(lambda step=step: STEPS[step](bench))  # type: ignore[misc]
    bench.server.answer()
    for _ in range(turns):
        await asyncio.sleep(0)
    bench.relist()
    for _ in range(15):
        await asyncio.sleep(0)
    for _, answer in bench.server.pending:
        if not answer.done():
            answer.set_exception(ApiUnreachableError("reset"))
    bench.server.pending.clear()
    for _ in range(15):
        await asyncio.sleep(0)
    bench.look()
    assert bench.reflector.revision == ("5" if "d" in bench.handler.known else "1")
    await bench.rest()


def _raw(name: str, revision: str) -> RawObject:
    return {"metadata": {"name": name, "resourceVersion": revision}}


async def _at_once(_seconds: float) -> None:
    await asyncio.sleep(0)
