"""The benchmark of a poll: it reads the load of every service, and says so where it does not."""

from __future__ import annotations

import asyncio
import re

import pytest
from benchmarks.scaling.demand import Poll, describe


def test_a_poll_reads_the_load_of_every_service() -> None:
    poll = Poll(services=3, samples=23)
    found = asyncio.run(poll.measure())
    assert found["total"] > 0
    assert found["bytes"] > 3 * 23 * len("[1763900000,1.0]")
    loads = [poll.book.demand(key, one) for key, one in poll.wanted.items()]
    assert len({demand.latest.qps for demand in loads if demand and demand.latest}) == 3


def test_services_whose_load_is_not_answered_fail_the_benchmark() -> None:
    poll = Poll(services=3, samples=23)
    poll.canned.places.pop()
    with pytest.raises(RuntimeError, match=r"service-00002.* was not read"):
        asyncio.run(poll.measure())


def test_the_page_has_a_row_for_each_number_of_samples() -> None:
    rows = [{"samples": n, "bytes": 1e6 * n, "total": 0.01 * n, "turn": 0.001 * n} for n in (23, 60)]
    page = describe({"services": 1000, "rows": rows})
    assert re.findall(r"\| (\d+) \| ([\d.]+) MB \| (\d+) ms \| (\d+) ms \|", page) == [
        ("23", "23.0", "230", "23"),
        ("60", "60.0", "600", "60"),
    ]
