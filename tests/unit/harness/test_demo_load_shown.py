"""How a play is shown: live, as decisions, in the table at its end, as JSON, and drawn."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from harness.components import ROOT
from harness.load.course import Instances, Moment, Play
from harness.load.drawing import draw
from harness.load.options import Wanted
from harness.load.shown import decided, document, end, view
from harness.nodes import DAY, DEMO
from hetserve.api.manifests import read_manifests
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand.trace import LoadTrace
from hetserve.planning import Problem, build_problem
from hetserve.planning.plan import Counts, Plan
from hetserve.planning.reach import Capacity

TRACE = LoadTrace((Seconds(0), Seconds(43_200), Seconds(86_400)), (QPS(8), QPS(90), QPS(8)))
KIND = "day-r5n.large"
STATIC = Plan("", "", "flow", ((KIND, 2),), MicroDollarsPerHour(2_000_000))
UP = {
    "at": 100.0,
    "action": "ScaleUp",
    "reason": "LoadAboveCapacity",
    "from": [{"instanceType": KIND, "count": 1}],
    "to": [{"instanceType": KIND, "count": 2}],
    "message": "at least 20 q/s throughout 1 s",
}


def moment(at: float, ready: int, late: float = 0) -> Moment:
    ended = 10 * at
    return Moment(at, 21.0, 20.5, 22.0, 1e6 * ready, ended, ended, ended - late, 0.1, {KIND: Instances(ready, 1, 2)})


def twenty_each(ready: Counts) -> Future[Capacity]:
    found: Future[Capacity] = Future()
    found.set_result(Capacity(QPS(20.0 * sum(count for _, count in ready)), True))
    return found


def a_play(moments: Sequence[Moment] = (moment(0, 1), moment(120, 1), moment(300, 2, 30))) -> Play:
    day = read_manifests([str(ROOT / "manifests" / "load" / "rm2-day.yaml")])
    problem = build_problem(day.services[0], day.types, day.profiles)
    assert isinstance(problem, Problem)
    wanted = Wanted(TRACE, Path("day.csv"), 90, 288, Path("day.svg"))
    return Play(wanted, problem, {1.0: STATIC}, twenty_each, list(moments), [UP])


def shown(what: RenderableType) -> str:
    out = io.StringIO()
    Console(width=170, color_system=None, file=out).print(what)
    return out.getvalue()


def row(what: RenderableType, name: str) -> str:
    (line,) = [line for line in shown(what).splitlines() if line.startswith(name)]
    return line


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("day 2 00:00", "300 s  of 300 s, 288 times as fast"),
        ("load", "20.5 q/s  measured; the trace says 21.0 q/s"),
        ("planned for", "22.0 q/s"),
        ("ready instances hold", "40.0 q/s"),
        ("price", "2 $/h  of all pods; the budget is 5 $/h"),
        ("late  ", "1 %  of 3,000 queries; 1 % allowed: the SLO holds"),
        ("spent", "24.00 $  over 24.0 h of the trace"),
        ("day-r5n.large", "2 ready  1 launching, 2 leaving  █ █ ▒ ░ ░"),
        ("day-c5n.2xlarge", "0 ready"),
    ],
)
def test_the_view_shows_load_capacity_price_lateness_and_instances(name: str, figure: str) -> None:
    assert figure in row(view(a_play()), name)


def test_a_decision_is_told_with_its_time_of_day_and_reason() -> None:
    words = "08:00  ScaleUp LoadAboveCapacity: 1xr5n.large -> 2xr5n.large: at least 20 q/s throughout 1 s"
    assert decided(a_play(), UP) == words


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("day.csv", "was played to its end, 300 s"),
        ("queries", "3,000  ended, of 3,000 that arrived"),
        ("static plan", "48.00 $  2xr5n.large, used to 100 % by the peak of 90.0 q/s: following costs -50%"),
        ("dearest moment", "2 $/h"),
        ("changes of plan", "1  1 x ScaleUp LoadAboveCapacity"),
    ],
)
def test_the_end_sums_up_queries_and_dollars_beside_a_static_plan(name: str, figure: str) -> None:
    assert figure in row(end(a_play()), name)


def test_what_is_not_known_is_neither_paid_nor_late_nor_in_the_json(tmp_path: Path) -> None:
    play = a_play([moment(0, 1), Moment(100), replace(moment(300, 2, 30), lag=1.5)])
    said = json.loads(document(play))
    # 300 s are 24 h: 1 $/h for a third of them, and 2 $/h only in the last moment.
    assert (said["spent"], said["unpricedSeconds"], said["lateShare"]) == (8_000_000, 200, 0.01)
    assert said["moments"][1] == {name: 100 if name == "at" else None for name in said["moments"][0]}
    assert said["moments"][2]["readyHold"] == 40
    assert said["decisions"] == [UP]
    assert "the price of 200 s is not known" in shown(end(play))
    assert "the twin was 1.5 s behind" in shown(end(play))
    draw(a_play([Moment(0), Moment(9)]), tmp_path / "nothing.png")
    draw(play, tmp_path / "play.png")
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
