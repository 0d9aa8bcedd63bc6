"""What `hetserve plan` answers, as a document and as a table; keys are part of the interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from hetserve.api.inference_service import InferenceService
from hetserve.cli.output.documents import dump
from hetserve.cli.output.terminal import drawn, line_of, styled
from hetserve.planning import Candidate, Counts, Plan, Problem, Unplannable, summary
from hetserve.planning.formatting import latency_text, money_text, qps_text
from hetserve.units import format_money


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one service. problem: None where the objects do not fit together. seed: of the simulation that
    evaluated, the first of several; None where nothing was simulated.
    """

    declared: InferenceService
    problem: Problem | None
    plan: Plan | Unplannable
    seed: int | None = None

    @classmethod
    def of_unplannable(cls, declared: InferenceService, why: Unplannable) -> Result:
        return cls(declared, None, why)

    @property
    def service(self) -> str:
        return self.declared.metadata.name

    @property
    def feasible(self) -> bool:
        return isinstance(self.plan, Plan) and self.plan.feasible

    @property
    def reason(self) -> str:
        return str(self.plan.reason)

    @property
    def message(self) -> str:
        return self.plan.message


def render(results: Sequence[Result], form: str) -> str:
    """Text for stdout in `form`; a table shows feasible plans only, the caller reports the others on stderr."""
    if form == "table":
        return table([result for result in results if result.feasible])
    return dump([document(result) for result in results], form)


def document(result: Result) -> dict[str, Any]:
    """The answer of `-o json` for one service; an infeasible plan has no cost and no rate to name: null."""
    head = {
        "service": result.service,
        "model": result.declared.spec.model.name,
        "objective": result.declared.spec.objective,
        "feasible": result.feasible,
        "reason": result.reason,
        "message": result.message,
    }
    plan = result.plan
    figure = "boundQPS" if result.declared.spec.objective == "MaxThroughput" else "capacityQPS"
    if isinstance(plan, Unplannable):
        nothing: dict[str, Any] = {"runnerUp": None, "ranking": [], "refusals": []}
        verdict = f"not planned: {result.message}"
        head |= {"planner": None, "counts": {}, "cost": None, figure: None}
        return {**head, **nothing, "verdict": verdict, "nextStep": None}
    return {
        **head,
        "planner": plan.planner,
        "counts": dict(plan.counts),
        "cost": format_money(plan.cost) if plan.feasible else None,
        **(_rate(plan, plan.qps) or {figure: None}),
        **({} if plan.scaled_qps is None else {"scaledQPS": round(plan.scaled_qps, 6)}),
        **_evaluated(plan),
        **({} if result.seed is None else {"seed": result.seed}),
        "runnerUp": _runner_up(plan),
        "ranking": [_candidate(plan, entry) for entry in plan.ranking],
        "refusals": [{"subject": refusal.subject, "reason": refusal.reason} for refusal in plan.refusals],
        "verdict": plan.verdict,
        "nextStep": _next_step(plan),
    }


def _runner_up(plan: Plan) -> dict[str, Any] | None:
    if plan.runner_up is None:
        return None
    return {**_candidate(plan, plan.runner_up), "why": plan.why_not_runner_up}


def _next_step(plan: Plan) -> dict[str, Any] | None:
    """proven: false where a search gave up, so that extra is the most and gainQPS the least that it may be."""
    step = plan.next_step
    if step is None:
        return None
    return {
        "extra": format_money(step.extra),
        "gainQPS": round(step.gain, 6),
        "counts": dict(step.counts),
        "cost": format_money(step.cost),
        "proven": step.proven,
    }


def _candidate(plan: Plan, entry: Candidate) -> dict[str, Any]:
    counts: Counts = entry.counts
    return {"counts": dict(counts), "cost": format_money(entry.cost), **_rate(plan, entry.qps)}


def _evaluated(plan: Plan) -> dict[str, Any]:
    """What a planner that simulates found; nothing for the others."""
    if not plan.evaluated:
        return {}
    entries = [{**_candidate(plan, one.candidate), "simulatedQPS": round(one.held, 6)} for one in plan.evaluated]
    held = next(one.held for one in plan.evaluated if one.candidate.counts == plan.counts)
    return {"simulatedQPS": round(held, 6), "evaluated": entries}


def _rate(plan: Plan, qps: float | None) -> dict[str, float]:
    if qps is None:
        return {}
    return {"boundQPS" if plan.bound_qps is not None else "capacityQPS": round(qps, 6)}


def table(results: Sequence[Result]) -> str:
    """One block per feasible plan, every column with its unit; coloured only on a terminal."""

    def draw(console: Console) -> None:
        for number, result in enumerate(results):
            if number:
                console.print()
            if isinstance(result.plan, Plan) and result.problem is not None:
                _print_plan(console, result, result.problem, result.plan)

    return drawn(draw) if results else ""


def _print_plan(console: Console, result: Result, problem: Problem, plan: Plan) -> None:
    console.print(styled(f"{result.service}: {summary(plan.counts)}", "bold"))
    _line(console, "asked", _asked(result, problem))
    what = "upper bound" if plan.bound_qps is not None else "capacity"
    _line(console, "plan", f"{money_text(plan.cost)}, {what} {qps_text(plan.qps or 0.0)}, by planner {plan.planner}")
    _line(console, "verdict", plan.verdict)
    if plan.runner_up is not None:
        _line(console, "runner-up", f"{summary(plan.runner_up.counts)}: {plan.why_not_runner_up}")
    console.print(Padding(_types(problem, plan), (1, 0, 0, 2)))
    console.print(Padding(_ranking(plan), (1, 0, 0, 2)))


def _line(console: Console, label: str, text: str) -> None:
    console.print(line_of(label, text))


def _asked(result: Result, problem: Problem) -> str:
    budget = "" if problem.budget is None else f", at most {money_text(problem.budget)}"
    load = "" if problem.load is None else f", load {qps_text(problem.load)}"
    return (
        f"{problem.objective} for model {result.declared.spec.model.name}, {problem.slo.percentile:g} % within "
        f"{latency_text(problem.slo.latency)}{budget}{load}"
    )


def _types(problem: Problem, plan: Plan) -> Table:
    reasons = {refusal.subject: refusal.reason for refusal in plan.refusals}
    counts = dict(plan.counts)
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("TYPE")
    table.add_column("COUNT", justify="right")
    table.add_column("$/H EACH", justify="right")
    table.add_column("$/H", justify="right")
    table.add_column("WHY", overflow="fold")
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
    return "base: serves every batch within the SLO" if plan.bound_qps is not None else "keeps the SLO at every batch"


def _ranking(plan: Plan) -> Table:
    """The ranking; beside it, and below it in the order of what they held, what was simulated."""
    held = {one.candidate.counts: one.held for one in plan.evaluated}
    ranked = {entry.counts for entry in plan.ranking}
    others = [one.candidate for one in plan.evaluated if one.candidate.counts not in ranked]
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("RANK", justify="right")
    table.add_column("CONFIGURATION", overflow="fold")
    table.add_column("$/H", justify="right")
    table.add_column("BOUND Q/S" if plan.bound_qps is not None else "CAPACITY Q/S", justify="right")
    if held:
        table.add_column("SIMULATED Q/S", justify="right")
    for number, entry in enumerate((*plan.ranking, *others), start=1):
        chosen = entry.counts == plan.counts
        rank = str(number) if number <= len(plan.ranking) else "-"
        cells = [f"{'* ' if chosen else ''}{rank}", summary(entry.counts), format_money(entry.cost), f"{entry.qps:.2f}"]
        if held:
            cells.append(f"{held[entry.counts]:.2f}" if entry.counts in held else "")
        table.add_row(*cells, style="bold" if chosen else None)
    return table
