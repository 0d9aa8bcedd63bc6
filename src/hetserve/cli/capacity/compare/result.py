"""The answer of `hetserve compare`; keys are part of the interface."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from hetserve.base.units import format_money
from hetserve.cli.capacity import tenancy
from hetserve.cli.capacity.effort import Effort, asked
from hetserve.cli.capacity.serving import Held
from hetserve.cli.output.terminal import Block, text_of
from hetserve.planning import Counts, Plan, Problem, summary
from hetserve.planning.formatting import latency_text, money_text, qps_text


@dataclass(frozen=True, slots=True)
class PlanUnderPolicy:
    """One planner's configuration under one dispatch policy, and the load that it holds."""

    plan: Plan
    policy: str
    held: Held

    @property
    def rate(self) -> float:
        return self.held.allowable.rate

    @property
    def violation_ratio(self) -> float | None:
        """Share of late queries at the allowable rate over all seeds; None without one."""
        queries = sum(report.queries for report in self.held.reports)
        return sum(report.violations for report in self.held.reports) / queries if queries else None

    @property
    def worst_delay(self) -> float | None:
        worst = [r.worst_delay for r in self.held.reports if math.isfinite(r.worst_delay)]
        return max(worst) if worst else None


@dataclass(frozen=True, slots=True)
class Compared:
    """entries: by planner, then policy, as asked. refused: infeasible plans."""

    service: str
    model: str
    problem: Problem
    policies: tuple[str, ...]
    effort: Effort
    entries: tuple[PlanUnderPolicy, ...]
    refused: tuple[Plan, ...]

    @property
    def plans(self) -> list[Plan]:
        return [entry.plan for entry in self.entries if entry.policy == self.policies[0]]

    @property
    def best(self) -> PlanUnderPolicy | None:
        """The highest rate, then the cheapest, then the first."""
        return min(self.entries, key=lambda e: (-e.rate, e.plan.cost), default=None)

    def at(self, plan: Plan, policy: str) -> PlanUnderPolicy:
        return next(entry for entry in self.entries if entry.plan is plan and entry.policy == policy)


def refusals(result: Compared) -> list[str]:
    said: dict[str, list[str]] = {}
    for plan in result.refused:
        said.setdefault(f"{plan.reason}: {plan.message}", []).append(plan.planner)
    return [f"{result.service}: {', '.join(planners)}: {why}" for why, planners in said.items()]


def document(result: Compared) -> dict[str, Any]:
    best = result.best
    return {
        "service": result.service,
        "model": result.model,
        **asked(result.problem, result.effort),
        "best": None if best is None else {"planner": best.plan.planner, "policy": best.policy},
        "results": [_entry(entry) for entry in result.entries],
        "infeasible": [
            {"planner": plan.planner, "reason": str(plan.reason), "message": plan.message} for plan in result.refused
        ],
    }


def _entry(entry: PlanUnderPolicy) -> dict[str, Any]:
    plan = entry.plan
    return {
        "planner": plan.planner,
        "policy": entry.policy,
        "counts": dict(plan.counts),
        "cost": format_money(plan.cost),
        "boundQPS" if plan.bound_qps is not None else "capacityQPS": round(plan.qps or 0.0, 6),
        **({} if plan.scaled_qps is None else {"scaledQPS": round(plan.scaled_qps, 6)}),
        "fluidBoundQPS": round(entry.held.fluid, 6),
        "ceilingQPS": round(entry.held.ceiling, 6),
        "allowableQPS": round(entry.rate, 6),
        "criterion": entry.held.allowable.criterion,
        "violationRatio": entry.violation_ratio,
        "worstDelaySeconds": entry.worst_delay,
        "parameters": list(entry.held.allowable.parameters),
    }


def table(results: Sequence[Compared]) -> str:
    return text_of([_block(result) for result in results])


def _block(result: Compared) -> Block:
    slo, best = result.problem.slo, result.best
    budget = "" if result.problem.budget is None else f", at most {money_text(result.problem.budget)}"
    lines = [
        ("asked", f"{slo.percentile:.10g} % within {latency_text(slo.latency)}{budget}"),
        *tenancy.lines(result.problem),
        ("best", "nothing: no plan is feasible" if best is None else _best(best)),
        ("simulated", result.effort.text),
    ]
    scaled = [plan for plan in result.plans if plan.scaled_qps is not None]
    lines += [
        ("scaled", f"{p.planner}: {qps_text(p.scaled_qps or 0)} if all the budget were spent on it") for p in scaled
    ]
    lines += [("infeasible", f"{plan.planner}: {plan.message}") for plan in result.refused]
    return Block(f"{result.service}: planners x dispatch policies", tuple(lines), (_plans(result), _rates(result)))


def _best(best: PlanUnderPolicy) -> str:
    each = best.rate / (best.plan.cost / 1e6)
    return f"{best.plan.planner} under {best.policy}: {qps_text(best.rate)}, {each:.4g} q/s per $/h"


def _plans(result: Compared) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    grid.add_column("PLANNER")
    grid.add_column("CONFIGURATION", overflow="fold")
    for column in ("$/H", "PLANNER'S Q/S", "FLUID BOUND Q/S", "CEILING Q/S"):
        grid.add_column(column, justify="right")
    for plan, names in _alike(result):
        held = result.at(plan, result.policies[0]).held
        rates = [_number(rate) for rate in (plan.qps, held.fluid, held.ceiling)]
        grid.add_row(names, summary(plan.counts), format_money(plan.cost), *rates)
    return grid


def _alike(result: Compared) -> list[tuple[Plan, str]]:
    """The first plan of each configuration, with all planners that chose it."""
    names: dict[Counts, list[str]] = {}
    firsts: list[Plan] = []
    for plan in result.plans:
        if plan.counts not in names:
            firsts.append(plan)
        names.setdefault(plan.counts, []).append(plan.planner)
    return [(plan, ", ".join(names[plan.counts])) for plan in firsts]


def _rates(result: Compared) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    grid.add_column("PLANNER")
    grid.add_column("POLICY")
    for column in ("ALLOWABLE Q/S", "OF THE BEST %", "Q/S PER $/H", "LATE %", "WORST DELAY"):
        grid.add_column(column, justify="right")
    shown = {(id(plan), policy): names for plan, names in _alike(result) for policy in result.policies}
    for entry in result.entries:
        if (id(entry.plan), entry.policy) not in shown:
            continue
        ratio, worst = entry.violation_ratio, entry.worst_delay
        top = 0.0 if result.best is None else result.best.rate
        grid.add_row(
            shown[id(entry.plan), entry.policy],
            entry.policy,
            _number(entry.rate),
            f"{100 * entry.rate / top:.1f}" if top else "-",
            f"{entry.rate / (entry.plan.cost / 1e6):.4g}",
            "-" if ratio is None else f"{100 * ratio:.2f}",
            "-" if worst is None else latency_text(worst),
            style="bold" if entry is result.best else None,
        )
    return grid


def _number(qps: float | None) -> str:
    return "-" if qps is None else f"{qps:.1f}" if abs(qps) >= 10 else f"{qps:.3g}"
