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
from harness.load.held import Held, Static
from harness.load.options import Wanted
from harness.load.play import DayService
from harness.load.seen import Instances, Moment, Queries, Told
from harness.load.summary import document, json_text, summed_up, table, warnings
from harness.load.view import PlainLines, Play, view
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


def test_the_newest_decision_is_first_with_its_time_of_day_and_words() -> None:
    lines = [line.split() for line in drawn(view(a_play())).splitlines() if "LoadAboveCapacity" in line]
    assert [line[:6] for line in lines] == [
        ["16:00", "Hold", "LoadAboveCapacity", "2xa", "2xa", "maxInstances"],
        ["08:00", "ScaleUp", "LoadAboveCapacity", "1xa", "2xa", "at"],
    ]


def test_what_is_not_known_is_shown_as_unknown_and_not_as_zero() -> None:
    shown = drawn(view(a_play(moments=[Moment(3.0)], held=[None], told=[])))
    for name in ("load", "planned for", "ready instances hold", "price", "late so far"):
        assert "?" in row(shown, name)
    assert "the API server does not answer" in shown
    drawn(view(a_play(moments=[], held=[], told=[])))


def test_without_a_terminal_there_is_a_line_now_and_then_and_one_for_each_decision() -> None:
    plain, play = PlainLines(), a_play()
    first = list(plain.newer(replace(play, moments=[moment(1, 1)], held=[10.0], told=[])))
    assert first == [
        "00:04  load 20.5 q/s, planned for 22.0 q/s, 1 ready hold 10.0 q/s, 1.000 $/h, late so far 0.00 %",
    ]
    assert list(plain.newer(replace(play, moments=[moment(2, 1)], told=[]))) == []
    new = list(plain.newer(replace(play, moments=[moment(3, 1)], told=[UP])))
    assert new == ["08:00  ScaleUp LoadAboveCapacity: 1xa -> 2xa"]
    assert list(plain.newer(replace(play, moments=[moment(4, 1)], told=[UP]))) == []
    assert len(list(plain.newer(replace(play, moments=[moment(12, 1)], told=[UP])))) == 1


def test_the_end_sums_up_queries_and_dollars_beside_a_static_plan() -> None:
    summary = summed_up(a_play(), True, STATICS)
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
    assert json.loads(json_text(summary)) == json.loads(json.dumps(said))


def test_what_costs_more_than_the_static_plan_is_said_so() -> None:
    dear = [Static(90, 1.0, "1xday-a", MicroDollarsPerHour(800_000))]
    assert "25 % more" in row(drawn(table(summed_up(a_play(), True, dear))), "static plan")


def test_an_slo_that_broke_is_said_so() -> None:
    late = a_play(moments=[moment(0, 1), moment(300, 1, 31)], held=[None, None])
    summary = summed_up(late, True, STATICS)
    assert summary.holds is False
    assert "the SLO does not hold" in drawn(table(summary))


def test_an_interrupted_play_is_compared_over_the_time_that_was_played() -> None:
    summary = summed_up(a_play(moments=[moment(0, 1), moment(75, 1)], held=[10.0, 10.0]), False, STATICS)
    said = document(summary)
    assert (said["complete"], said["traceHours"], said["playedSeconds"]) == (False, 6.0, 75)
    assert (said["dollars"]["spent"], said["dollars"]["static"][0]["spent"]) == ("6.000", "12.000")
    assert "until 06:00" in drawn(table(summary))


def test_what_the_figures_lack_is_noted() -> None:
    lame = a_play(moments=[replace(moment(0, 1), cost=None, lag=3.0), moment(40, 1)], held=[None, None])
    noted = warnings(summed_up(lame, True, []))
    assert len(noted) == 3
    assert "no static plan holds the peak of 90 q/s" in noted[0]
    assert "40 s" in noted[1]
    assert "3.0 s behind" in noted[2]
    assert warnings(summed_up(a_play(), True, STATICS)) == []
    nothing = a_play(moments=[moment(0, 1)], held=[None])
    assert ["no query of the twin" in one for one in warnings(summed_up(nothing, True, STATICS))] == [True]


@pytest.mark.parametrize(
    "changed",
    [
        {"moments": [moment(0, 1)], "held": [None], "told": []},
        {"moments": [Moment(0), Moment(5), moment(9, 2, 3)], "held": [None, None, 4.0]},
        {"moments": [Moment(0), Moment(5)], "held": [None, None]},
    ],
)
def test_a_play_with_gaps_is_drawn(tmp_path: Path, changed: dict[str, object]) -> None:
    draw(summed_up(a_play(**changed), True, STATICS), tmp_path / "play.png")
    assert (tmp_path / "play.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_is_a_whole_svg(tmp_path: Path) -> None:
    draw(summed_up(a_play(), True, STATICS), tmp_path / "play.svg")
    text = (tmp_path / "play.svg").read_text()
    assert text.startswith("<?xml")
    assert text.rstrip().endswith("</svg>")
    assert text.count('id="axes_') == 4


def test_the_service_of_the_day_does_not_meet_the_samples_and_has_nodes_for_its_budget() -> None:
    samples = read_manifests([str(path) for path in sorted((ROOT / "manifests" / "samples").glob("*.yaml"))])
    day = read_manifests([str(ROOT / "manifests" / "load" / "rm2-day.yaml")])
    assert not {t.metadata.name for t in day.types} & {t.metadata.name for t in samples.types}
    assert not {p.spec.model for p in day.profiles} & {p.spec.model for p in samples.profiles}
    assert not set(DAY.node_names()) & {name for cluster in DEMO for name in cluster.node_names()}
    for type_ in day.types:
        (group,) = [g for g in DAY.groups if g.instance_type == type_.metadata.name]
        assert group.count >= (type_.spec.max_instances or 0)


def test_the_day_begins_with_the_first_rate_of_its_trace() -> None:
    service = DayService(Wanted(TRACE, Path("day.csv"), 288, Path("day.svg")))
    (applied,) = [one for one in service.rest if one["kind"] == "InferenceService"]
    assert applied["spec"]["load"]["expectedQPS"] == 8
    play = service.play(Wanted(TRACE, Path("day.csv"), 288, Path("day.svg")))
    assert (play.budget, play.window, round(play.allowed, 6)) == (5_000_000, 4.0, 0.01)


def test_what_instances_hold_and_what_a_static_plan_costs_is_planned_and_not_guessed() -> None:
    service = DayService(Wanted(TRACE, Path("day.csv"), 288, Path("day.svg")))
    in_full, in_part = service.statics(20.0)
    assert (in_full.used, in_part.used) == (1.0, 0.7)
    assert 0 < in_full.hourly < in_part.hourly
    assert service.statics(1e5) == []
    held, ready = Held(service.problem), (("day-g4dn.xlarge", 1), ("day-r5n.large", 3))
    assert held.of(None) is None
    held.of(ready)
    held.finish(60)
    known = held.of(ready)
    assert known is not None
    assert 20 < known < 60
