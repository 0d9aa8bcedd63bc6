"""A play summed up: queries, dollars beside a static plan for the peak, decisions; for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table

from harness.load.held import Static
from harness.load.seen import Queries, Told, spent, total, unknown_seconds
from harness.load.view import Play, short
from hetserve.base.units import format_money

_HOUR: Final = 3600.0
_LAGS: Final = 1.0
"""Seconds behind the clock from which the twin did not keep up."""


@dataclass(frozen=True, slots=True)
class Summary:
    """complete: the trace was played to its end. statics: plans for the peak that never change."""

    play: Play
    complete: bool
    statics: Sequence[Static]

    @property
    def played(self) -> float:
        """Seconds."""
        return self.play.played - (self.play.moments[0].at if self.play.moments else 0.0)

    @property
    def hours(self) -> float:
        """Of the trace that were played."""
        return self.played * self.play.wanted.speed / _HOUR

    @property
    def queries(self) -> Queries:
        return total(self.play.moments)

    @property
    def spent(self) -> int:
        """Micro-dollars."""
        return spent(self.play.moments, self.play.wanted.speed)

    @property
    def most(self) -> int:
        """Micro-dollars per hour."""
        return max((moment.cost for moment in self.play.moments if moment.cost is not None), default=0)

    @property
    def lag(self) -> float | None:
        """The most seconds that the twin was behind; None: not known."""
        return max((moment.lag for moment in self.play.moments if moment.lag is not None), default=None)

    @property
    def holds(self) -> bool | None:
        """Whether no more queries were late than the SLO allows; None: no query ended."""
        share = self.queries.late_share
        return None if share is None else share <= self.play.allowed

    def static_spent(self, static: Static) -> int:
        """Micro-dollars of a static plan over the same time."""
        return round(static.hourly * self.hours)


def document(summary: Summary) -> dict[str, Any]:
    """As JSON. Money: dollars as decimal text; times: seconds of the play, `time` of the trace."""
    play, queries = summary.play, summary.queries
    return {
        "service": play.service,
        "trace": str(play.wanted.trace_file),
        "speed": play.wanted.speed,
        "complete": summary.complete,
        "playedSeconds": round(summary.played, 1),
        "traceHours": round(summary.hours, 3),
        "peakQps": play.wanted.peak,
        "queries": {
            "received": round(queries.received),
            "ended": round(queries.ended),
            "late": round(queries.late),
            "lateShare": queries.late_share,
            "allowedShare": play.allowed,
            "holds": summary.holds,
        },
        "dollars": {
            "spent": format_money(summary.spent),
            "mostHourly": format_money(summary.most),
            "budgetHourly": format_money(play.budget),
            "secondsOfUnknownPrice": round(unknown_seconds(play.moments), 1),
            "static": [
                {**asdict(one), "hourly": format_money(one.hourly), "spent": format_money(summary.static_spent(one))}
                for one in summary.statics
            ],
        },
        "twinLagSeconds": summary.lag,
        "decisions": [_decision(play, told) for told in play.told],
        "moments": [_moment(play, number) for number in range(len(play.moments))],
    }


def _decision(play: Play, told: Told) -> dict[str, Any]:
    return {
        "at": round(told.at, 1),
        "time": round(play.wanted.time(told.at)),
        "action": told.action,
        "reason": told.reason,
        "from": told.before,
        "to": told.after,
        "message": told.message,
    }


def _moment(play: Play, number: int) -> dict[str, Any]:
    moment = play.moments[number]
    return {
        "at": round(moment.at, 2),
        "time": round(play.wanted.time(moment.at)),
        "rate": moment.rate,
        "load": moment.load,
        "plannedFor": moment.planned_for,
        "readyHold": play.held[number],
        "hourlyCost": None if moment.cost is None else format_money(moment.cost),
        "queries": None if moment.queries is None else asdict(moment.queries),
        "instances": None if moment.instances is None else {k: asdict(v) for k, v in moment.instances.items()},
    }


def table(summary: Summary) -> RenderableType:
    """The end of a play in one table."""
    play, queries = summary.play, summary.queries
    rows = Table(box=None, show_header=False, padding=(0, 2), title=_title(summary), title_justify="left")
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column(justify="right", no_wrap=True)
    rows.add_column()
    share = queries.late_share
    word = {True: "the SLO holds", False: "the SLO does not hold", None: "no query ended"}[summary.holds]
    rows.add_row("queries", f"{queries.ended:,.0f}", f"ended, of {queries.received:,.0f} that arrived")
    late = "?" if share is None else f"{share:.2%}"
    rows.add_row("late", late, f"{queries.late:,.0f} queries; {play.allowed:.3%} allowed: {word}")
    rows.add_row("spent", f"{summary.spent / 1e6:.2f} $", f"over {summary.hours:.1f} h of the trace")
    for static in summary.statics:
        rows.add_row(*_beside(summary, static))
    most, budget = format_money(summary.most), format_money(play.budget)
    rows.add_row("dearest moment", f"{most} $/h", f"of a budget of {budget} $/h")
    changes = [told for told in play.told if told.is_change]
    counted = Counter(f"{told.action} {told.reason}" for told in changes)
    rows.add_row("changes of plan", str(len(changes)), ", ".join(f"{n} x {why}" for why, n in sorted(counted.items())))
    for warning in warnings(summary):
        rows.add_row("note", "", warning)
    return rows


def _beside(summary: Summary, static: Static) -> tuple[str, str, str]:
    dollars = summary.static_spent(static)
    beside = ""
    if dollars:
        share = 100 * (summary.spent / dollars - 1)
        beside = f": following is {abs(share):.0f} % {'more' if share > 0 else 'less'}"
    used = f"used to {100 * static.used:.0f} % by the peak of {static.load:.1f} q/s"
    words = f"{short(static.summary)}, {used}{beside}"
    return "static plan", f"{dollars / 1e6:.2f} $", words


def warnings(summary: Summary) -> list[str]:
    """What is missing from the figures."""
    found = []
    if not summary.statics:
        found.append(
            f"no static plan holds the peak of {summary.play.wanted.peak:g} q/s within the budget and the nodes"
        )
    if not summary.queries.received:
        found.append(
            "Prometheus has seen no query of the twin; `python -m harness.demo status` says where the logs are"
        )
    unknown = unknown_seconds(summary.play.moments)
    if unknown > 1:
        found.append(f"the price of {unknown:.0f} s is not known, and not in what was spent")
    if summary.lag is not None and summary.lag > _LAGS:
        found.append(f"the twin was {summary.lag:.1f} s behind at times: this machine was too busy for the play")
    return found


def _title(summary: Summary) -> str:
    wanted = summary.play.wanted
    how = "to its end" if summary.complete else f"until {wanted.clock(summary.play.played)}"
    return f"{wanted.trace_file.name} was played {how}, {summary.played:.0f} s"
