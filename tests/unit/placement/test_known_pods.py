"""A pod that the scheduler brings and the watch has told of: whose word counts, by the pod's version."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.log.journal import JournaledPlacer, Record
from hetserve.placement.log.replay import Player
from hetserve.placement.placer import Placer
from hetserve_extender.leader.fence import listed_pod
from testing.cluster import gpu_node, gpu_pod

HOLD = Seconds(30.0)


def pod(version: Any, memory_mib: int | str) -> dict[str, Any]:
    raw = gpu_pod(memory_mib=memory_mib)
    raw["metadata"]["resourceVersion"] = version
    return raw


def watching(*events: tuple[str, dict[str, Any]], placer: Placer | None = None) -> Placer:
    placer = placer or Placer(lambda: Seconds(0.0), HOLD)
    NodeEventHandler(placer).replace([gpu_node("n0")])
    for event, raw in events:
        PodEventHandler(placer).apply(event, raw)
    return placer


def held(placer: Placer) -> int:
    return sum(mib for booking in placer.ledger.bookings().values() for mib in booking.mib)


@pytest.mark.parametrize(
    ("brought", "booked"),
    [
        pytest.param(pod("7", 1), 4096, id="of the version known, the watch's word"),
        pytest.param(pod("8", 1), 1, id="of another version, the scheduler's"),
        pytest.param(pod(None, 1), 1, id="without a version, the scheduler's"),
        pytest.param(pod(["7"], 1), 1, id="with a version that is no text, the scheduler's"),
    ],
)
def test_a_pod_counts_as_who_knows_it_best_says(brought: dict[str, Any], booked: int) -> None:
    placer = watching(("ADDED", pod("7", 4096)))
    assert placer.filter(brought, ["n0"]).passed == ("n0",)
    assert held(placer) == booked


def test_two_pods_without_a_version_are_not_of_one_version() -> None:
    placer = watching(("ADDED", pod(None, 4096)))
    placer.filter(pod(None, 1), ["n0"])
    assert held(placer) == 1


def test_a_pod_that_is_gone_or_was_edited_is_no_longer_known() -> None:
    placer = watching(("ADDED", pod("7", 4096)), ("DELETED", pod("8", 4096)))
    placer.filter(pod("7", 1), ["n0"])
    assert held(placer) == 1
    placer = watching(("ADDED", pod("7", 4096)), ("MODIFIED", pod("8", 2048)))
    placer.filter(pod("8", 1), ["n0"])
    assert held(placer) == 2048


def test_a_version_that_cannot_be_read_is_refused_though_the_one_before_could() -> None:
    placer = watching(("ADDED", pod("7", 4096)), ("MODIFIED", pod("8", "much")))
    with pytest.raises(ValueError, match="much"):
        placer.filter(pod("8", "much"), ["n0"])


@pytest.mark.parametrize("metadata", [None, [], "p0", {"uid": ["uid-p0"], "resourceVersion": "7"}])
def test_what_is_no_pod_is_refused_as_before(metadata: object) -> None:
    placer = watching(("ADDED", pod("7", 4096)))
    with pytest.raises(ValueError, match="metadata"):
        placer.filter(pod("7", 4096) | {"metadata": metadata}, ["n0"])


def test_a_log_that_begins_after_the_watch_showed_the_pod_replays() -> None:
    written: list[Record] = []
    placer = JournaledPlacer(lambda: Seconds(0.0), HOLD, written.append)
    watching(("ADDED", pod("7", 4096)), placer=placer)
    header, checkpoint = placer.header(0.0), placer.journaled.checkpoint()
    written.clear()
    placer.filter(pod("7", 40000), ["n0"])  # the caller says otherwise than the watch
    player = Player.of_header(header, {})
    player.placer.journaled.restore(checkpoint["args"]["nodes"], checkpoint["args"]["bookings"], {})
    assert player.feed(1, written[0]) == written[0]


def test_a_listed_pod_is_known_by_its_version_too() -> None:
    placer = watching()
    PodEventHandler(placer).replace([listed_pod(pod("7", 4096))])
    placer.filter(pod("7", 1), ["n0"])
    assert held(placer) == 4096
