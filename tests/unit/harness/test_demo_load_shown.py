"""How a play is shown: live, in plain lines, in the table at its end, as JSON, and drawn."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from harness.components import ROOT
from harness.load.drawing import draw
from harness.load.held import Static
from harness.load.options import Wanted
from harness.load.seen import Instances, Moment, Queries, Told
from harness.load.summary import Summary, document, table
from harness.load.view import Play, view
from harness.nodes import DAY, DEMO
from hetserve.api.manifests import read_manifests
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand.trace import LoadTrace

TRACE = LoadTrace((Seconds(0), Seconds(43_200), Seconds(86_400)), (QPS(8), QPS(90), QPS(8)))
STATICS = [Static(90, 1.0, "2xday-a", MicroDollarsPerHour(2_000_000))]
UP = Told(100, "ScaleUp", "LoadAboveCapacity", "1xday-a", "2xday-a", "at least 20 q/s throughout 1 s")
HELD = Told(200, "Hold", "LoadAboveCapacity", "2xday-a", "2xday-a", "maxInstances is 2")


def moment(at: float, ready: int, late: float = 0) -> Moment:
    queries = Queries(10 * at, 10 * at, 10 * at - late)
    instances = {"day-a": Instances(ready, 1, 2)}
    return Moment(at, 21.0, 20.5, 22.0, 1_000_000 * ready, queries, instances, 0.1)


def a_play(**changed: object) -> Play:
    play = Play(
        Wanted(TRACE, Path("day.csv"), 288, Path("day.svg")),
        "svc",
        ("day-a", "day-b"),
        MicroDollarsPerHour(5_000_000),
        0.01,
        4.0,
        [moment(0, 1), moment(120, 1), moment(300, 2, 30)],
        [10.0, None, 40.0],
        [UP, HELD],
    )
    return replace(play, **changed)  # type: ignore[arg-type]


def drawn(what: RenderableType) -> str:
    out = io.StringIO()
    Console(width=170, color_system=None, file=out).print(what)
    return out.getvalue()


def row(text: str, name: str) -> str:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
    return line


def test_the_view_shows_load_capacity_price_lateness_and_instances() -> None:
    shown = drawn(view(a_play()))
    assert "svc  day 2 00:00" in shown
    assert "300 of 300 s, 288 times as fast" in shown
    assert "20.5 q/s" in row(shown, "load")
    assert "21.0 q/s" in row(shown, "load")
    assert "22.0 q/s" in row(shown, "planned for")
    assert "40.0 q/s" in row(shown, "ready instances hold")
    assert "2.000 $/h" in row(shown, "price")
    assert "5.000 $/h" in row(shown, "price")
    assert "1.00 %" in row(shown, "late so far")
    assert "30 of 3,000 queries" in row(shown, "late so far")
    assert "24.00 $" in row(shown, "spent so far")
    assert row(shown, "day-a").split()[:4] == ["day-a", "2", "1", "2"]
    assert row(shown, "day-b").split() == ["day-b", "0", "0", "0"]


def test_the_end_sums_up_queries_and_dollars_beside_a_static_plan() -> None:
    summary = Summary(a_play(), True, STATICS)
    assert summary.holds is True
    said = document(summary)
    assert said["queries"] == {
        "received": 3000,
        "ended": 3000,
        "late": 30,
        "lateShare": 0.01,
        "allowedShare": 0.01,
        "holds": True,
    }
    # 300 s are 24 h: 1 $/h, and 2 $/h only in the last moment.
    assert said["dollars"]["spent"] == "24.000"
    assert said["dollars"]["static"][0]["spent"] == "48.000"
    assert [one["action"] for one in said["decisions"]] == ["ScaleUp", "Hold"]
    assert said["decisions"][0]["time"] == 28_800
    assert said["moments"][1]["readyHold"] is None
    text = drawn(table(summary))
    assert "day.csv was played to its end, 300 s" in text
    assert "50 % less" in row(text, "static plan")
    assert row(text, "changes of plan").split()[3] == "1"
    assert json.dumps(said)


@pytest.mark.parametrize(
    "changed",
    [
        {"moments": [Moment(0), Moment(5), moment(9, 2, 3)], "held": [None, None, 4.0]},
    ],
)
def test_a_play_with_gaps_is_drawn(tmp_path: Path, changed: dict[str, object]) -> None:
    draw(Summary(a_play(**changed), True, STATICS), tmp_path / "play.png")
    assert (tmp_path / "play.png").read_bytes().startswith(b"\x89PNG")


def test_the_service_of_the_day_does_not_meet_the_samples_and_has_nodes_for_its_budget() -> None:
    samples = read_manifests([str(path) for path in sorted((ROOT / "manifests" / "samples").glob("*.yaml"))])
    day = read_manifests([str(ROOT / "manifests" / "load" / "rm2-day.yaml")])
    assert not {t.metadata.name for t in day.types} & {t.metadata.name for t in samples.types}
    assert not {p.spec.model for p in day.profiles} & {p.spec.model for p in samples.profiles}
    assert not set(DAY.node_names()) & {name for cluster in DEMO for name in cluster.node_names()}
    for type_ in day.types:
        (group,) = [g for g in DAY.groups if g.instance_type == type_.metadata.name]
        assert group.count >= (type_.spec.max_instances or 0)
