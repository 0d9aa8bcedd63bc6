"""A play for people and programs: the live view, its plain lines where stdout is no terminal, the end, and JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from harness.load.course import Decision, Instances, Play
from hetserve.planning.formatting import money_text, qps_text, share_text
from hetserve.planning.plan import Counts, read_counts, summary

LATELY: Final = 10.0
"""Seconds of the play that the late share of now is taken over."""
LAGS: Final = 1.0
"""Seconds behind the clock from which the twin did not keep up."""

Row = tuple[str, str, str]
"""A name, its figure, and what it is beside."""


def view(play: Play) -> RenderableType:
    """Everything, of the newest moment."""
    return Group(_table(figures(play)), Text("Ctrl-C ends the play; the picture is drawn all the same.", style="dim"))


def figures(play: Play) -> list[Row]:
    """Of the newest moment, and of the play so far."""
    now, wanted, budget = play.moments[-1], play.wanted, _money(play.problem.budget or 0)
    return [
        (wanted.clock(now.at), f"{now.at:.0f} s", f"of {wanted.seconds:.0f} s, {wanted.speed:,.4g} times as fast"),
        ("load", known(now.load, qps_text), f"measured; the trace says {known(now.rate, qps_text)}"),
        ("planned for", known(now.planned, qps_text), "decided by the operator"),
        ("ready instances hold", known(play.held(now), qps_text), "in simulation, within the SLO"),
        ("price", known(now.cost, _money), f"of all pods; the budget is {budget}"),
        (f"late in {LATELY:g} s", known(play.late(now.at - LATELY, now.at)[0], share_text), ""),
        *_so_far(play.sums()),
        *_instances(play),
    ]


def _so_far(sums: dict[str, float]) -> list[Row]:
    late, allowed = sums["lateShare"], sums["allowedShare"]
    word = "no query ended" if math.isnan(late) else f"the SLO {'holds' if late <= allowed else 'does not hold'}"
    return [
        ("late", known(late, share_text), f"of {sums['ended']:,.0f} queries; {share_text(allowed)} allowed: {word}"),
        ("spent", f"{sums['spent'] / 1e6:.2f} $", f"over {sums['traceHours']:.1f} h of the trace"),
    ]


def _instances(play: Play) -> list[Row]:
    seen = play.moments[-1].instances
    if seen is None:
        return [("instances", "?", "the API server does not answer")]
    rows = []
    for kind in (option.name for option in play.problem.types):
        one = seen.get(kind, Instances())
        bar = "█ " * one.ready + "▒ " * one.launching + "░ " * one.leaving
        rows.append((kind, f"{one.ready} ready", f"{one.launching} launching, {one.leaving} leaving  {bar}"))
    return rows


def decided(play: Play, one: Decision) -> str:
    """A decision in a line."""
    before, after = (_short(read_counts(one.get(side))) for side in ("from", "to"))
    return f"{play.wanted.clock(one['at'])}  {one['action']} {one['reason']}: {before} -> {after}: {one['message']}"


def end(play: Play) -> RenderableType:
    """The end of a play in one table, below what was played."""
    wanted, sums = play.wanted, play.sums()
    changes = Counter(f"{one['action']} {one['reason']}" for one in play.decisions)
    rows = [
        ("queries", f"{sums['ended']:,.0f}", f"ended, of {sums['received']:,.0f} that arrived"),
        *_so_far(sums),
        *_static(play, sums),
        ("dearest moment", known(sums["mostHourly"], _money), f"of a budget of {_money(sums['budgetHourly'])}"),
        ("changes of plan", str(len(play.decisions)), ", ".join(f"{n} x {why}" for why, n in sorted(changes.items()))),
        *(("note", "", note) for note in _notes(sums)),
    ]
    how = "to its end" if play.played >= wanted.seconds else f"until {wanted.clock(play.played)}"
    return Group(Text(f"{wanted.trace_file.name} was played {how}, {play.played:.0f} s"), _table(rows))


def _static(play: Play, sums: dict[str, float]) -> Iterator[Row]:
    """The same time with plans for the peak that never change."""
    peak = qps_text(play.wanted.peak)
    for used, plan in play.statics.items():
        dollars = plan.cost * sums["traceHours"]
        words = f"{_short(plan.counts)}, used to {share_text(used)} by the peak of {peak}"
        beside = f": following costs {sums['spent'] / dollars - 1:+.0%}" if dollars else ""
        yield "static plan", f"{dollars / 1e6:.2f} $", words + beside
    if not play.statics:
        yield "static plan", "none", f"holds the peak of {peak} within the budget and the nodes"


def _notes(sums: dict[str, float]) -> Iterator[str]:
    """What is missing from the figures."""
    if not sums["received"]:
        yield "Prometheus has seen no query of the twin; `python -m harness.demo status` says where the logs are"
    if sums["unpricedSeconds"] > 1:
        yield f"the price of {sums['unpricedSeconds']:.0f} s is not known, and not in what was spent"
    if sums["twinLagSeconds"] > LAGS:
        yield f"the twin was {sums['twinLagSeconds']:.1f} s behind at times: this machine was too busy for the play"


def document(play: Play) -> str:
    """All figures as JSON, unknown ones as null. Money: micro-dollars; moments: as `Moment`."""
    found = {
        "service": play.problem.service,
        "trace": str(play.wanted.trace_file),
        "speed": play.wanted.speed,
        "complete": play.played >= play.wanted.seconds,
        "peakQps": play.wanted.peak,
        **play.sums(),
        "static": [{"used": used, "plan": summary(p.counts), "hourly": p.cost} for used, p in play.statics.items()],
        "decisions": play.decisions,
        "moments": [{**asdict(one), "readyHold": play.held(one)} for one in play.moments],
    }
    return json.dumps(json.loads(json.dumps(found), parse_constant=lambda _: None), indent=1) + "\n"


def _table(rows: list[Row]) -> Table:
    table = Table.grid(Column(style="bold", no_wrap=True), Column(justify="right", no_wrap=True), "", padding=(0, 2))
    for row in rows:
        table.add_row(*row)
    return table


def known(value: float, text: Callable[[float], str]) -> str:
    """A figure as text; ``?`` for nan."""
    return "?" if math.isnan(value) else text(value)


def _money(micro: float) -> str:
    return money_text(round(micro))


def _short(counts: Counts) -> str:
    """Counts without the beginning that the names of all types share."""
    return summary(counts).replace("day-", "").replace("+", " + ")
