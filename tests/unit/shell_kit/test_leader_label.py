"""The label of the leader's pod: on ours, and on no other."""

from __future__ import annotations

import asyncio

import pytest

from hetserve_shell.leader.label import LeaderLabel
from testing.kit.apiserver import FakeApiServer

LABEL = "example.com/leader"


async def test_a_label_that_came_late_is_taken_off_the_others() -> None:
    api = FakeApiServer()
    for name in ("me", "late"):
        labels = {LABEL: "true"} if name == "late" else {}
        api.add({"metadata": {"name": name, "namespace": "system", "uid": name, "labels": labels}, "spec": {}})
    looks = iter(range(1))

    async def once(_seconds: float) -> None:
        if next(looks, None) is None:
            raise asyncio.CancelledError

    label = LeaderLabel(api, LABEL, "system", "me", once)
    with pytest.raises(asyncio.CancelledError):
        await label.keep()
    assert api.pod("me", "system")["metadata"]["labels"] == {LABEL: "true"}
    assert api.pod("late", "system")["metadata"]["labels"] == {}
