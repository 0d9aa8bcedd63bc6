"""The live view of a play, and its plain lines where stdout is no terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.load.options import Wanted
from harness.load.seen import Instances, Moment, Told, lately, spent, total
from hetserve.base.units import MicroDollarsPerHour, format_money

SHOWN_DECISIONS: Final = 5
LATELY: Final = 10.0
"""Seconds of the play that the late share of now is taken over."""
PLAIN_EVERY: Final = 10.0
_UNKNOWN: Final = "?"


@dataclass(slots=True)
class Play:
    """What a play is and what was seen of it. types: of the service. allowed: share of queries that may be late."""

    wanted: Wanted
    service: str
    types: Sequence[str]
    budget: MicroDollarsPerHour
    allowed: float
    window: float
    moments: list[Moment] = field(default_factory=list)
    held: list[float | None] = field(default_factory=list)
    """[moment] queries/s that its ready instances hold; None: not known."""
    told: list[Told] = field(default_factory=list)

    @property
    def played(self) -> float:
        """Seconds."""
        return self.moments[-1].at if self.moments else 0.0


def view(play: Play) -> RenderableType:
    """Everything, of the newest moment."""
    now = play.moments[-1] if play.moments else Moment(0.0)
    return Group(
        _head(play, now),
        Text(),
        _figures(play, now),
        Text(),
        _instances(play.types, now.instances),
        Text(),
        _decisions(play),
        Text("Ctrl-C ends the play; the picture is drawn all the same.", style="dim"),
    )


def _head(play: Play, now: Moment) -> RenderableType:
    wanted = play.wanted
    line = Table.grid(padding=(0, 2))
    line.add_row(
        Text(f"{play.service}  {wanted.clock(now.at)}", style="bold"),
        ProgressBar(total=wanted.seconds, completed=min(now.at, wanted.seconds), width=40),
        f"{now.at:.0f} of {wanted.seconds:.0f} s, {wanted.speed:,.4g} times as fast",
    )
    return line


def figures(play: Play, now: Moment) -> dict[str, tuple[str, str]]:
    """What is shown by its name: the figure, and what it is beside."""
    held = play.held[-1] if play.held else None
    recent, whole = lately(play.moments, LATELY), total(play.moments)
    dollars = spent(play.moments, play.wanted.speed)
    return {
        "load": (_qps(now.load), f"over {play.window:g} s; the trace says {_qps(now.rate)}"),
        "planned for": (_qps(now.planned_for), "decided by the operator"),
        "ready instances hold": (_qps(held), "in simulation, within the SLO"),
        "price": (f"{_money(now.cost)} $/h", f"of all pods; the budget is {format_money(play.budget)} $/h"),
        f"late in {LATELY:g} s": (_share(None if recent is None else recent.late_share), ""),
        "late so far": (
            _share(whole.late_share),
            f"{whole.late:,.0f} of {whole.ended:,.0f} queries; {_share(play.allowed)} allowed",
        ),
        "spent so far": (f"{dollars / 1e6:.2f} $", "over the time of the trace"),
    }


def _figures(play: Play, now: Moment) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(justify="right", min_width=11)
    table.add_column(style="dim")
    for name, (figure, beside) in figures(play, now).items():
        table.add_row(name, figure, beside)
    return table


def _instances(types: Sequence[str], seen: Mapping[str, Instances] | None) -> RenderableType:
    if seen is None:
        return Text("the API server does not answer: the instances are not known", style="red")
    table = Table("TYPE", box=None, padding=(0, 2))
    for title in ("READY", "LAUNCHING", "LEAVING"):
        table.add_column(title, justify="right")
    table.add_column("")
    for kind in sorted({*types, *seen}):
        one = seen.get(kind, Instances())
        bar = Text("█ " * one.ready, "green") + Text("▒ " * one.launching, "yellow") + Text("░ " * one.leaving, "red")
        table.add_row(kind, str(one.ready), str(one.launching), str(one.leaving), bar)
    return table


def _decisions(play: Play) -> RenderableType:
    table = Table("", "DECISION", "FROM", "TO", "WHY", box=None, padding=(0, 1), title="Last decisions", expand=True)
    table.columns[-1].no_wrap, table.columns[-1].overflow = True, "ellipsis"
    table.columns[-1].ratio = 1
    for told in reversed(play.told[-SHOWN_DECISIONS:]):
        what = f"{told.action} {told.reason}"
        table.add_row(play.wanted.clock(told.at), what, short(told.before), short(told.after), told.message)
    return table


def short(counts: str) -> str:
    """Counts without the beginning that the names of all types share."""
    return counts.replace("day-", "").replace("+", " + ") or "-"


class PlainLines:
    """A line for each decision, and one of all figures now and then."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._told = 0

    def newer(self, play: Play) -> Iterator[str]:
        """The lines that are due with the newest moment."""
        now, clock = play.moments[-1], play.wanted.clock
        for told in play.told[self._told :]:
            yield f"{clock(told.at)}  {told.action} {told.reason}: {short(told.before)} -> {short(told.after)}"
        self._told = len(play.told)
        if self._last is not None and now.at - self._last < PLAIN_EVERY:
            return
        self._last = now.at
        shown = figures(play, now)
        ready = _UNKNOWN if now.instances is None else sum(one.ready for one in now.instances.values())
        yield (
            f"{clock(now.at)}  load {shown['load'][0]}, planned for {shown['planned for'][0]}, {ready} ready"
            f" hold {shown['ready instances hold'][0]}, {shown['price'][0]}, late so far {shown['late so far'][0]}"
        )


def _qps(rate: float | None) -> str:
    return _UNKNOWN if rate is None else f"{rate:.1f} q/s"


def _money(micro: int | None) -> str:
    return _UNKNOWN if micro is None else format_money(micro)


def _share(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{share:.2%}".replace("%", " %")
