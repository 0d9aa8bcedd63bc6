"""An open-loop player: queries at a steady rate, whoever answers how, and what became of them."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import httpx

from harness import limits
from harness.serving import Serving, query_of
from harness.waiting import Unmet, wait_until

ANSWERED = "200"


@dataclass
class Player:
    """Plays queries of one service until it is ended. url: of its model's infer. host: of the service.

    rate: queries/s; sizes: items of a query, drawn evenly. Both may be set while it plays. burst: queries that come at
    one time, so that as many instances get one each.
    """

    url: str
    host: str
    rate: float
    sizes: Sequence[int] = (1,)
    burst: int = 1
    outcomes: Counter[str] = field(default_factory=Counter)
    """By status; by the error where there was no answer."""
    instances: Counter[str] = field(default_factory=Counter)
    """Answers by the instance that gave them."""
    wrong: list[str] = field(default_factory=list)
    """The first answers that were not ANSWERED."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Returns once it is ended and all queries are answered or given up."""
        asyncio.run(self._play())

    def end(self) -> None:
        self._ended.set()

    def more(self, answers: int) -> None:
        """Waits for so many answers of queries that come from now on."""
        before = self.outcomes.total()
        wait_until(
            lambda: self.outcomes.total() >= before + answers or Unmet(dict(self.outcomes)),
            limits.REACTION,
            f"{answers} more queries to end",
        )

    def assert_all_answered(self) -> None:
        assert set(self.outcomes) == {ANSWERED}, (dict(self.outcomes), self.wrong)

    async def _play(self) -> None:
        drawn, loop = random.Random(0), asyncio.get_running_loop()  # noqa: S311
        at = loop.time()
        unlimited = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        async with (
            httpx.AsyncClient(timeout=limits.REACTION, trust_env=False, limits=unlimited) as client,
            asyncio.TaskGroup() as group,
        ):
            for number in count(step=self.burst):
                if self._ended.is_set():
                    return
                for one in range(number, number + self.burst):
                    group.create_task(self._ask(client, one, drawn.choice(self.sizes)))
                at += self.burst / self.rate
                await asyncio.sleep(max(at - loop.time(), 0.0))

    async def _ask(self, client: httpx.AsyncClient, number: int, items: int) -> None:
        headers = {"host": self.host, "x-request-id": str(number)}
        try:
            answer = await client.post(self.url, headers=headers, content=query_of(items))
        except httpx.HTTPError as error:
            outcome, text = type(error).__name__, str(error)
        else:
            outcome, text = str(answer.status_code), answer.text
            self.instances[answer.headers.get("hetserve-instance", "")] += 1
        self.outcomes[outcome] += 1
        if outcome != ANSWERED and len(self.wrong) < 10:
            self.wrong.append(f"{outcome}: {text}")


@contextmanager
def playing(
    wire: Serving, namespace: str, service: str, model: str, rate: float, sizes: Sequence[int] = (1,), burst: int = 1
) -> Iterator[Player]:
    """Plays queries during the block; every one of them has ended after it."""
    player = Player(f"{wire.url}/v2/models/{model}/infer", f"{service}.{namespace}", rate, sizes, burst)
    thread = threading.Thread(target=player.run, name="queries", daemon=True)
    thread.start()
    try:
        yield player
    finally:
        player.end()
        thread.join(timeout=2 * limits.REACTION)
