from __future__ import annotations

import json
from typing import Any

import pytest

from extender_bench import reply_of
from hetserve.api import names
from hetserve.base.units import Millionths, Seconds
from hetserve.objects.gpu_sharing import SharingTerms, terms_text
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import LedgerError
from hetserve.placement.log.journal import VERSION, VERSIONS, JournaledPlacer
from hetserve.placement.log.replay import ReplayError, replay
from hetserve.placement.log.what_if import what_if
from hetserve.placement.placer import Mode
from hetserve.placement.pods.requests import PolicyName
from hetserve.placement.pods.view import parse_pod
from hetserve_extender.observe.ledger_view import placement_routes
from hetserve_extender.observe.placement_log import PlacementLog
from testing.cluster import gpu_node, gpu_pod


def started(limit: int = 1 << 20, **settings: Any) -> tuple[PlacementLog, JournaledPlacer]:
    log = PlacementLog(limit, wall=lambda: 1.8e9)
    placer = log.placer(lambda: Seconds(5.0), Seconds(30.0), **settings)
    NodeEventHandler(placer).replace([gpu_node("n0"), gpu_node("n1")])
    PodEventHandler(placer).replace([])
    return log, placer


def place(placer: JournaledPlacer, number: int, *, stays: bool = True) -> None:
    """A pod's life: filtered, bound, seen, deleted."""
    pod = gpu_pod(f"p{number}", memory_mib=100, model=f"m{number}")
    (node,) = placer.filter(pod, ["n0", "n1"]).passed
    booking = placer.fix_gpus(parse_pod(pod).request, node)
    placer.ledger.confirm_bind(booking.request.uid, Seconds(80.0))
    bound = gpu_pod(f"p{number}", memory_mib=100, model=f"m{number}", node=node, gpu=booking.gpus[0])
    PodEventHandler(placer).apply("MODIFIED", bound)
    if not stays:
        PodEventHandler(placer).apply("DELETED", bound)


def records(log: PlacementLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(log.pieces()).splitlines()]


def test_a_log_tells_what_was_asked_and_decided() -> None:
    log, placer = started()
    place(placer, 0)
    calls = [record["call"] for record in records(log)]
    assert calls == [
        "header",
        "checkpoint",
        "relist_nodes",
        "observe_all",
        "filter",
        "fix_gpus",
        "confirm_bind",
        "observe",
    ]
    filtered = records(log)[4]
    assert filtered["args"]["offered"] == {"without": []}
    assert filtered["args"]["raw"]["metadata"]["name"] == "p0"
    chosen = filtered["result"]["chosen"]
    assert (chosen["node"], [(gpu["id"], gpu["idle"]) for gpu in chosen["gpus"]]) == ("n0", [("0", True)])
    assert filtered["result"]["passed"] == ["n0"]


def test_pods_of_others_leave_no_record() -> None:
    log, placer = started()
    before = len(records(log))
    stranger = {"metadata": {"name": "web", "uid": "u", "namespace": "x"}, "spec": {"containers": [{"name": "c"}]}}
    PodEventHandler(placer).apply("ADDED", stranger)
    PodEventHandler(placer).apply("DELETED", stranger)
    NodeEventHandler(placer).apply("MODIFIED", gpu_node("n0"))
    assert len(records(log)) == before


def test_a_full_log_drops_its_older_half_and_can_still_be_replayed() -> None:
    log, placer = started(limit=40_000)
    sizes = []
    for number in range(400):
        place(placer, number, stays=number % 40 == 0)
        sizes.append(len(b"".join(log.pieces())))
    assert max(sizes) < 40_000 + 2 * 8_000, "the limit and two checkpoints of at most ten pods"
    assert min(sizes[100:]) > 15_000, "half of the limit is always there"
    kept = records(log)
    assert replay(kept).difference is None
    assert replay(kept).decisions > 20
    assert kept[1]["args"]["bookings"], "begins with what was booked when the older part was dropped"


def test_settings_come_with_the_log() -> None:
    log, placer = started(mode=Mode.SCORE, policy=PolicyName("BestFit"))
    placer.filter(gpu_pod("a"), ["n0", "n1"])
    placer.prioritize(gpu_pod("a"), ["n0", "n1"])
    placer.fix_gpus(parse_pod(gpu_pod("a")).request, "n0")
    placer.fix_gpus(parse_pod(gpu_pod("b", model="other")).request, "n0")
    assert [record["result"]["gpus"] for record in records(log)[-2:]] == [["0"], ["0"]], "best fit packs"
    assert replay(records(log)).difference is None
    otherwise = replay(records(log), policy=PolicyName("WorstFit")).difference
    assert otherwise is not None
    assert otherwise.now["result"]["gpus"] == ["1"]


def test_a_log_whose_decision_was_another_is_caught_at_its_record() -> None:
    log, placer = started()
    place(placer, 0)
    place(placer, 2)
    wrong = records(log)
    at = next(number for number, record in enumerate(wrong) if record["call"] == "fix_gpus")
    wrong[at]["result"]["gpus"] = ["1"]
    difference = replay(wrong).difference
    assert difference is not None
    assert (difference.number, difference.now["result"]["gpus"]) == (at + 1, ["0"])


def test_a_log_from_before_pods_had_terms_is_read_as_it_was() -> None:
    log, placer = started(limit=40_000)
    for number in range(60):
        place(placer, number, stays=number % 20 == 0)
    old = records(log)
    old[0]["version"] = 5
    for booking in old[1]["args"]["bookings"]:
        del booking["request"]["sharing"]
    assert len(old[1]["args"]["bookings"]) > 1
    assert replay(old).difference is None
    assert replay(old).decisions > 20


def test_terms_in_a_log_from_before_are_not_read() -> None:
    terms = SharingTerms(Millionths(500_000), Millionths(1_750_000))
    log, placer = started()
    for name, gpu in (("a", "0"), ("b", "1")):
        bound = gpu_pod(name, memory_mib=100, model=name, compute=100, node="n0", gpu=gpu)
        PodEventHandler(placer).apply("ADDED", bound)
    for name in ("c", "d"):
        pod = gpu_pod(name, memory_mib=100, model=name, compute=100)
        placer.fix_gpus(parse_pod(pod).request, placer.filter(pod, ["n0", "n1"]).passed[0])
    old = records(log)
    old[0]["version"] = 5
    for record in old:
        for raw in [record["args"]["raw"]] if "raw" in record.get("args", {}) else []:
            raw["metadata"].setdefault("annotations", {})[names.ANNOTATION_GPU_SHARING] = terms_text(terms)
    assert sum(names.ANNOTATION_GPU_SHARING in str(record) for record in old) == 4
    assert replay(old).difference is None, "each was given a GPU of its own"
    assert what_if(old, PolicyName("BestFit")).most_pods_on_a_gpu == 1
    assert replay([{**old[0], "version": VERSION}, *old[1:]]).difference is not None


def test_decisions_about_terms_are_replayed_from_a_checkpoint_on() -> None:
    terms = SharingTerms(
        Millionths(500_000), Millionths(1_750_000), Millionths(200_000), (("m1", Millionths(900_000)),)
    )
    log, placer = started(limit=30_000)
    for number in range(80):
        pod = gpu_pod(f"p{number}", memory_mib=100, model=f"m{number % 3}", sharing=terms)
        if passed := placer.filter(pod, ["n0", "n1"]).passed:
            booking = placer.fix_gpus(parse_pod(pod).request, passed[0])
            bound = gpu_pod(
                f"p{number}",
                memory_mib=100,
                model=f"m{number % 3}",
                sharing=terms,
                node=booking.node,
                gpu=booking.gpus[0],
            )
            PodEventHandler(placer).apply("MODIFIED", bound)
        if number % 3 == 2:
            PodEventHandler(placer).apply("DELETED", gpu_pod(f"p{number - 2}", sharing=terms))
    kept = records(log)
    assert kept[1]["args"]["bookings"][0]["request"]["sharing"]["named"] == [["m1", 900_000]]
    assert any("too-much-slowdown" in json.dumps(record.get("result")) for record in kept)
    assert replay(kept).difference is None


def test_a_text_that_was_reworded_since_is_no_other_decision() -> None:
    log, placer = started()
    with pytest.raises(LedgerError):
        placer.fix_gpus(parse_pod(gpu_pod("big", memory_mib=10**6)).request, "n0")
    reworded = records(log)
    assert (reworded[-1]["error"], reworded[-1]["refusal"]) == ("node-refused", "no-room")
    reworded[-1]["message"] = "said in other words"
    assert replay(reworded).difference is None
    reworded[-1]["refusal"] = "same-model"
    assert replay(reworded).difference is not None


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"call": "header", "version": VERSION + 1}, f"version {VERSION + 1}"),
        (
            {"call": "header", "version": 1},
            f"version 1; this hetserve reads {VERSIONS[0]} and {VERSION}: use the one that wrote it",
        ),
        ({"t": 1, "call": "filter"}, "begin with a header"),
        ({"call": "header", "version": VERSION, "hold": "x"}, "header cannot be read"),
    ],
)
def test_what_is_no_log_is_refused(record: dict[str, Any], words: str) -> None:
    with pytest.raises(ReplayError, match=words):
        replay([record])


@pytest.mark.parametrize(
    "broken", [{"t": 1.0, "call": "rm", "args": {}}, {"t": 1.0, "call": "release", "args": {"x": 1}}]
)
def test_a_record_that_is_no_call_is_named(broken: dict[str, Any]) -> None:
    log, _ = started()
    with pytest.raises(ReplayError, match="record 5 is no call of placement"):
        replay([*records(log), broken])


async def test_the_probe_port_serves_the_log_where_one_is_kept() -> None:
    log, placer = started()
    for kept, status, words in ((log, 200, b'"call":"header"'), (None, 404, b"placementLog")):
        reply = await reply_of(placement_routes(placer, kept), b"/log")
        assert reply.status == status
        assert words in b"".join(reply.blocks)
