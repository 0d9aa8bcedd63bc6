"""What `hetserve compare` does and answers; keys are part of the interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from rich.table import Table

from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests
from hetserve.base.units import format_money
from hetserve.cli.capacity import serving
from hetserve.cli.capacity.asked import asked_document, slo_text, tenancy_lines
from hetserve.cli.capacity.commands import DEFAULT_PLANNERS, DEFAULT_POLICIES
from hetserve.cli.capacity.effort import SimulationEffort, take
from hetserve.cli.capacity.services import NotPlanned, answered, each_problem, finish
from hetserve.cli.output import streams
from hetserve.cli.output.plots import COLOURS, new_figure, save, wrapped
from hetserve.cli.output.progress import steps
from hetserve.cli.output.terminal import Block, grid
from hetserve.planning import Counts, Plan, Problem, summary
from hetserve.planning import plan as decide
from hetserve.planning.formatting import latency_text, qps_text
from hetserve.planning.plan import summary_parts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

_SEEDS = 3
_GROUP = 0.82
_LABEL_WIDTH = 24


@dataclass(frozen=True, slots=True)
class PlanUnderPolicy:
    """One planner's configuration under one dispatch policy, and the load that it holds."""

    plan: Plan
    policy: str
    held: serving.Held

    @property
    def rate(self) -> float:
        return self.held.allowable.rate

    @property
    def violation_ratio(self) -> float | None:
        """Share of late queries at the allowable rate over all seeds; None without one."""
        return serving.late_share(self.held.reports)

    @property
    def worst_delay(self) -> float | None:
        return serving.worst_delay(self.held.reports)


@dataclass(frozen=True, slots=True)
class Compared:
    """entries: by planner, then policy, as asked. refused: infeasible plans."""

    service: str
    model: str
    problem: Problem
    policies: tuple[str, ...]
    effort: SimulationEffort
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


def run(files: tuple[str, ...], service: str | None, output: str, plot: str | None, **options: Any) -> NoReturn:
    """The command, with its options."""
    planners, policies = options.pop("planners"), options.pop("policies") or DEFAULT_POLICIES
    overrides, effort = take(options, _SEEDS)

    def compared(one: InferenceService, problem: Problem, _: Manifests) -> Compared:
        return _compare(one, problem, planners or DEFAULT_PLANNERS[problem.objective], policies, effort)

    found = each_problem(files, service, overrides, compared)
    results = answered(found)
    for result in results:
        for line in refusals(result):
            (streams.note if result.entries else streams.error)(line)
    shown = [one for one in found if output != "table" or isinstance(one, NotPlanned) or one.entries]
    drawn = plot if any(result.entries for result in results) else None
    finish(shown, output, drawn, document, _block, draw, holds=all(result.entries for result in results))


def _compare(
    service: InferenceService,
    problem: Problem,
    planners: tuple[str, ...],
    policies: tuple[str, ...],
    effort: SimulationEffort,
) -> Compared:
    plans = [decide(problem, name) for name in planners]
    feasible = [made for made in plans if made.feasible]
    found: dict[tuple[Counts, str], serving.Held] = {}
    highest = max((serving.longest_rate(problem, dict(made.counts)) for made in feasible), default=0.0)
    effort = serving.long_enough(problem, highest, effort, serving.MOST_TO_TRY_MANY)
    name = service.metadata.name
    with steps(name, len({made.counts for made in feasible}) * len(policies)) as shown:
        for made in feasible:
            for policy in policies:
                if (made.counts, policy) not in found:
                    counts = dict(made.counts)
                    chosen = serving.policy_for(policy, problem, counts)
                    found[made.counts, policy] = serving.find_allowable(problem, counts, chosen, effort, shown.tried)
                    shown.done(f"{made.planner} under {policy}")
    entries = [PlanUnderPolicy(made, policy, found[made.counts, policy]) for made in feasible for policy in policies]
    refused = tuple(made for made in plans if not made.feasible)
    return Compared(name, service.spec.model.name, problem, policies, effort, tuple(entries), refused)


def document(result: Compared) -> dict[str, Any]:
    best = result.best
    return {
        "service": result.service,
        "model": result.model,
        **asked_document(result.problem, result.effort),
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


def _block(result: Compared) -> Block:
    best = result.best
    lines = [
        ("asked", slo_text(result.problem, budget=True)),
        *tenancy_lines(result.problem),
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
    table = grid("PLANNER", "CONFIGURATION", ">$/H", ">PLANNER'S Q/S", ">FLUID BOUND Q/S", ">CEILING Q/S")
    for plan, names in _alike(result):
        held = result.at(plan, result.policies[0]).held
        rates = [_number(rate) for rate in (plan.qps, held.fluid, held.ceiling)]
        table.add_row(names, summary(plan.counts), format_money(plan.cost), *rates)
    return table


def _alike(result: Compared) -> list[tuple[Plan, str]]:
    """The first plan of each configuration, with all planners that chose it."""
    found: dict[Counts, list[Plan]] = {}
    for plan in result.plans:
        found.setdefault(plan.counts, []).append(plan)
    return [(plans[0], ", ".join(plan.planner for plan in plans)) for plans in found.values()]


def _rates(result: Compared) -> Table:
    rates = (">ALLOWABLE Q/S", ">OF THE BEST %", ">Q/S PER $/H", ">LATE %", ">WORST DELAY")
    table = grid("PLANNER", "POLICY", *rates)
    names = {id(plan): planners for plan, planners in _alike(result)}
    for entry in (entry for entry in result.entries if id(entry.plan) in names):
        ratio, worst = entry.violation_ratio, entry.worst_delay
        top = 0.0 if result.best is None else result.best.rate
        table.add_row(
            names[id(entry.plan)],
            entry.policy,
            _number(entry.rate),
            f"{100 * entry.rate / top:.1f}" if top else "-",
            f"{entry.rate / (entry.plan.cost / 1e6):.4g}",
            "-" if ratio is None else f"{100 * ratio:.2f}",
            "-" if worst is None else latency_text(worst),
            style="bold" if entry is result.best else None,
        )
    return table


def _number(qps: float | None) -> str:
    return "-" if qps is None else f"{qps:.1f}" if abs(qps) >= 10 else f"{qps:.3g}"


def draw(results: Sequence[Compared], path: str) -> None:
    """One panel per service. Raises OSError."""
    shown = [result for result in results if result.entries] or list(results)
    widest = max(len(result.plans) * len(result.policies) for result in shown)
    figure = new_figure(max(7.5, 2.5 + 0.62 * widest), 4.8 * len(shown))
    for result, axes in zip(shown, figure.subplots(len(shown), 1, squeeze=False)[:, 0], strict=True):
        _panel(result, axes)
    save(figure, path)


def _panel(result: Compared, axes: Axes) -> None:
    plans, width = result.plans, _GROUP / len(result.policies)
    for number, policy in enumerate(result.policies):
        places = [i - _GROUP / 2 + (number + 0.5) * width for i in range(len(plans))]
        rates = [result.at(plan, policy).rate for plan in plans]
        bars = axes.bar(places, rates, 0.9 * width, color=COLOURS[number % len(COLOURS)], label=policy)
        _figures(axes, bars, rates, result)
    for i, plan in enumerate(plans):
        fluid = result.at(plan, result.policies[0]).held.fluid
        label = "fluid bound" if i == 0 else "_one of it in the legend is enough"
        axes.hlines(fluid, i - _GROUP / 2, i + _GROUP / 2, color="black", linestyle="--", linewidth=1, label=label)
    axes.set_xticks(range(len(plans)), [_name(plan) for plan in plans], fontsize=9)
    seeds = ", ".join(str(seed) for seed in result.effort.seeds)
    axes.set_title(
        f"{result.service}: highest load with {slo_text(result.problem)}\n"
        f"{result.effort.queries} queries per run, seeds {seeds}"
    )
    axes.set_ylabel("allowable load (queries/s)")
    axes.set_ylim(0, 1.28 * max([e.rate for e in result.entries] + [e.held.fluid for e in result.entries] + [1e-9]))
    axes.legend(ncols=min(len(result.policies) + 1, 3), loc="upper right")


def _name(plan: Plan) -> str:
    return f"{plan.planner}\n{wrapped(summary_parts(plan.counts), _LABEL_WIDTH)}\n{format_money(plan.cost)} $/h"


def _figures(axes: Axes, bars: BarContainer, rates: Sequence[float], result: Compared) -> None:
    """Writes figures inside the bars, or above those that are too short."""
    tall = 0.12 * max(entry.rate for entry in result.entries)
    inside = [f"{rate:.4g}" if rate >= tall else "" for rate in rates]
    above = [f"{rate:.4g}" if rate < tall else "" for rate in rates]
    axes.bar_label(bars, labels=inside, fontsize=8, padding=-11, color="white")
    axes.bar_label(bars, labels=above, fontsize=8, padding=2)
