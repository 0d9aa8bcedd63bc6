"""The answer of `hetserve autoscale`; keys are part of the interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from hetserve.api.inference_service import InferenceService
from hetserve.base.units import format_money
from hetserve.cli.output.terminal import Block, text_of
from hetserve.planning import summary
from hetserve.planning.formatting import latency_text, qps_text
from hetserve.planning.offers import namespace_of
from hetserve.scaling.decision import Action
from hetserve.scaling.plans.counts import cost_of, in_order
from hetserve.scaling.replay.following import DecidedAt, Replay, Setting
from hetserve.scaling.replay.serving import Served

_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Followed:
    """How one service followed a trace. questions: that planners worked out."""

    service: InferenceService
    setting: Setting
    course: Replay
    served: Served
    seed: int
    questions: int

    @property
    def name(self) -> str:
        return self.service.metadata.name

    @property
    def holds(self) -> bool:
        """Whether few enough of the trace's queries were late."""
        return self.served.late_share <= 1 - self.setting.problem.slo.percentile / 100 + 1e-12

    @property
    def changes(self) -> int:
        """Changes of the plan, without the first."""
        return sum(one.decision.action is not Action.FIRST_PLAN for one in self.course.changes)

    def instance_hours(self) -> dict[str, float]:
        """Paid hours by type."""
        hours = {option.name: 0.0 for option in self.setting.problem.types}
        for span in self.course.fleet.spans:
            hours[span.type] += max(min(span.left, self.course.end) - span.launched, 0.0) / _HOUR
        return hours

    def hourly(self, one: DecidedAt) -> int:
        """Micro-dollars/h of the counts after a decision."""
        problem = self.setting.problem
        return cost_of(in_order(one.decision.counts or (), problem), problem)


def document(result: Followed) -> dict[str, Any]:
    slo, course, served = result.setting.problem.slo, result.course, result.served
    return {
        "service": result.name,
        "namespace": namespace_of(result.service),
        "model": result.service.spec.model.name,
        "sloSeconds": slo.latency,
        "percentile": slo.percentile,
        "seed": result.seed,
        "seconds": course.end - course.begin,
        "queries": served.queries,
        "lateShare": served.late_share,
        "holds": result.holds,
        "dollars": round(course.dollars, 6),
        "instanceHours": {name: round(hours, 4) for name, hours in result.instance_hours().items()},
        "changes": result.changes,
        "questions": result.questions,
        "decisions": [_decision(result, one) for one in course.decided],
    }


def _decision(result: Followed, one: DecidedAt) -> dict[str, Any]:
    made = one.decision
    return {
        "time": one.at,
        "action": str(made.action),
        "reason": str(made.reason),
        "from": summary(one.before),
        "to": summary(made.counts or ()),
        "load": made.load,
        "hourlyCost": format_money(result.hourly(one)),
        "message": made.words,
    }


def table(results: Sequence[Followed]) -> str:
    return text_of([_block(result) for result in results])


def _block(result: Followed) -> Block:
    slo, course, served = result.setting.problem.slo, result.course, result.served
    word = "holds" if result.holds else "does not hold"
    hours = (course.end - course.begin) / _HOUR
    lines = (
        ("asked", f"{slo.percentile:.10g} % within {latency_text(slo.latency)}"),
        ("answer", f"the SLO {word}: {served.late_share:.3%} of {served.queries} queries were late"),
        ("paid", f"${course.dollars:.4g} in {hours:.4g} h, {course.dollars / hours if hours else 0:.4g} $/h"),
        ("changed", f"{result.changes} times after the first plan"),
    )
    return Block(f"{result.name}: followed the load for {hours:.4g} h", lines, (_decisions(result),))


def _decisions(result: Followed) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    grid.add_column("TIME", justify="right")
    for column in ("ACTION", "REASON", "INSTANCES"):
        grid.add_column(column, overflow="fold")
    for column in ("$/H", "LOAD"):
        grid.add_column(column, justify="right")
    for one in result.course.decided:
        made = one.decision
        grid.add_row(
            _clock(one.at),
            str(made.action),
            str(made.reason),
            summary(made.counts or ()),
            format_money(result.hourly(one)),
            "-" if made.load is None else qps_text(made.load),
        )
    return grid


def _clock(seconds: float) -> str:
    """12345 -> ``3:25:45``."""
    sign, whole = "-" if seconds < 0 else "", abs(int(seconds))
    return f"{sign}{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"
