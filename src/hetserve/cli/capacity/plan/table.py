"""`hetserve plan`'s table; apart, so that `-o json` does not import rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Table

from hetserve.base.units import format_money
from hetserve.cli.capacity.asked import slo_text, tenancy_lines
from hetserve.cli.capacity.plan.flow import flow_lines, served_batches
from hetserve.cli.capacity.plan.result import ServicePlan
from hetserve.cli.output.terminal import Block, grid
from hetserve.planning import Plan, Problem, summary
from hetserve.planning.formatting import money_text, qps_text
from hetserve.planning.plan import EvaluatedConfiguration

if TYPE_CHECKING:
    from hetserve.planning.flow.frontier import FrontierPoint

_MOST_FAILED: Final = 5
TITLES: Final = {"flow": "flow", "ilp": "HetSev's ILP", "kairos": "Kairos's pick", "homogeneous": "one type"}


def block(result: ServicePlan) -> Block:
    problem, plan = result.problem, result.plan
    what = "upper bound" if plan.bound_qps is not None else "capacity"
    held = "" if plan.held_qps is None else f", holds {qps_text(plan.held_qps)}"
    rate = f"{what} {qps_text(plan.qps or 0.0)}"
    lines = [
        ("asked", _asked(result, problem)),
        *tenancy_lines(problem),
        ("plan", f"{money_text(plan.cost)}{held}, {rate}, by planner {plan.planner}"),
        ("verdict", plan.verdict),
        *flow_lines(plan),
    ]
    if plan.runner_up is not None:
        lines.append(("runner-up", f"{summary(plan.runner_up.counts)}: {plan.why_not_runner_up}"))
    beside = (_frontier(result.frontier, plan),) if result.frontier else ()
    tables = (_types(problem, plan), _ranking(plan), *beside)
    return Block(f"{result.service}: {summary(plan.counts)}", tuple(lines), tables)


def _asked(result: ServicePlan, problem: Problem) -> str:
    load = "" if problem.load is None else f", load {qps_text(problem.load)}"
    model = result.declared.spec.model.name
    return f"{problem.objective} for model {model}, {slo_text(problem, budget=True)}{load}"


def _types(problem: Problem, plan: Plan) -> Table:
    reasons = {refusal.subject: refusal.reason for refusal in plan.refusals}
    counts = dict(plan.counts)
    table = grid("TYPE", ">COUNT", ">$/H EACH", ">$/H", "WHY")
    for option in problem.types:
        count = counts[option.name]
        total = format_money(count * option.price)
        reason = reasons.pop(option.name, _served_by(plan, option.name))
        table.add_row(option.name, str(count), format_money(option.price), total, reason)
    for subject, reason in reasons.items():
        table.add_row(subject, "-", "-", "-", reason)
    return table


def _served_by(plan: Plan, name: str) -> str:
    if not dict(plan.counts)[name]:
        return ""
    if plan.tried is not None:
        return served_batches(plan, name)
    return "base: serves every batch within the SLO" if plan.bound_qps is not None else "keeps the SLO at every batch"


def _ranking(plan: Plan) -> Table:
    """The ranking, then other evaluated configurations, best first: of cheaper ones that fail, the dearest."""
    held = {one.candidate.counts: one for one in plan.evaluated}
    ranked = {entry.counts for entry in plan.ranking}
    others = [one.candidate for one in plan.evaluated if one.candidate.counts not in ranked]
    if plan.tried:
        others = sorted(others, key=lambda entry: -entry.cost)[:_MOST_FAILED]
    figure = ">BOUND Q/S" if plan.bound_qps is not None else ">CAPACITY Q/S"
    table = grid(">RANK", "CONFIGURATION", ">$/H", figure, *([">SIMULATED Q/S"] if held else []))
    for number, entry in enumerate((*plan.ranking, *others), start=1):
        chosen = entry.counts == plan.counts
        rank = str(number) if number <= len(plan.ranking) else "-"
        cells = [f"{'* ' if chosen else ''}{rank}", summary(entry.counts), format_money(entry.cost), f"{entry.qps:.2f}"]
        if held:
            cells.append(_simulated(held.get(entry.counts)))
        table.add_row(*cells, style="bold" if chosen else None)
    return table


def _simulated(one: EvaluatedConfiguration | None) -> str:
    if one is None:
        return ""
    return f"{one.held:.2f}" if one.held or one.below is None else f"< {one.below:.2f}"


def _frontier(points: Sequence[FrontierPoint], plan: Plan) -> Table:
    """A row per budget; the plan's is bold."""
    others = [f">{TITLES[name].upper()} Q/S" for name, _ in points[0].planners[1:]] if points else []
    table = grid(">AT MOST $/H", ">CEILING Q/S", ">FLOW Q/S", "CONFIGURATION", *others)
    for point in points:
        flow = point.planners[0][1]
        cells = [
            format_money(point.budget),
            f"{point.ceiling:.1f}",
            _rate_held(flow),
            summary(flow.candidate.counts) if flow else "-",
        ]
        beside = [_rate_held(one) for _, one in point.planners[1:]]
        table.add_row(*cells, *beside, style="bold" if point.budget == plan.cost else None)
    return table


def _rate_held(one: EvaluatedConfiguration | None) -> str:
    if one is None:
        return "-"
    return f"{one.held:.1f}" if one.held or one.below is not None else "not tried"
