"""The answer of `hetserve plan --frontier`: cost against load held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from hetserve.base.units import format_money
from hetserve.cli.output.progress import steps
from hetserve.planning import Plan, Problem, summary

if TYPE_CHECKING:
    from rich.table import Table

    from hetserve.planning.flow.frontier import FrontierPoint
    from hetserve.planning.plan import EvaluatedConfiguration

TITLES: Final = {"flow": "flow", "ilp": "HetSev's ILP", "kairos": "Kairos's pick", "homogeneous": "one type"}


def compute(problem: Problem, plan: Plan, seed: int | None) -> tuple[FrontierPoint, ...]:
    """Points beside a feasible plan; says on a terminal how far it is."""
    from hetserve.planning.flow.frontier import POINTS, frontier  # noqa: PLC0415

    with steps(f"{problem.service}: frontier", POINTS) as shown:
        return frontier(problem, plan, seed, done=shown.done)


def document(points: Sequence[FrontierPoint]) -> list[dict[str, Any]]:
    """`frontier` of `-o json`."""
    return [
        {
            "budget": format_money(point.budget),
            "ceilingQPS": round(point.ceiling, 6),
            "planners": {name: None if one is None else _entry(one) for name, one in point.planners},
        }
        for point in points
    ]


def _entry(one: EvaluatedConfiguration) -> dict[str, Any]:
    """simulatedQPS: null if it was not tried."""
    tried = one.held > 0 or one.below is not None
    return {
        "counts": dict(one.candidate.counts),
        "cost": format_money(one.candidate.cost),
        "boundQPS": round(one.candidate.qps, 6),
        "simulatedQPS": round(one.held, 6) if tried else None,
    }


def table(points: Sequence[FrontierPoint], plan: Plan) -> Table:
    """A row per budget; the plan's is bold."""
    from hetserve.cli.output.terminal import grid  # noqa: PLC0415

    others = [f">{TITLES[name].upper()} Q/S" for name, _ in points[0].planners[1:]] if points else []
    table = grid(">AT MOST $/H", ">CEILING Q/S", ">FLOW Q/S", "CONFIGURATION", *others)
    for point in points:
        flow = point.planners[0][1]
        cells = [
            format_money(point.budget),
            f"{point.ceiling:.1f}",
            _held(flow),
            summary(flow.candidate.counts) if flow else "-",
        ]
        beside = [_held(one) for _, one in point.planners[1:]]
        table.add_row(*cells, *beside, style="bold" if point.budget == plan.cost else None)
    return table


def _held(one: EvaluatedConfiguration | None) -> str:
    if one is None:
        return "-"
    return f"{one.held:.1f}" if one.held or one.below is not None else "not tried"
