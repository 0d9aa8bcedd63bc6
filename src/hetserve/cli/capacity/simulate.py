"""What `hetserve simulate` does and answers; keys are part of the interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rich.table import Table

from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests
from hetserve.base.units import format_money
from hetserve.cli.capacity import serving
from hetserve.cli.capacity.asked import slo_text, tenancy_document, tenancy_lines
from hetserve.cli.capacity.effort import SimulationEffort, policy_of, take
from hetserve.cli.capacity.services import NotPlanned, NotPlannedError, Overrides, answered, each_problem, finish
from hetserve.cli.output.plots import COLOURS, draw_rows
from hetserve.cli.output.progress import steps
from hetserve.cli.output.streams import refuse
from hetserve.cli.output.terminal import Block, grid
from hetserve.dispatch import Policy
from hetserve.planning import Problem, plan, summary
from hetserve.planning.formatting import latency_text, money_text, qps_text
from hetserve.planning.tolerances import with_tolerances
from hetserve.registry.joining_policies import JOINING_POLICIES
from hetserve.simulation.report import Decile, RunReport
from hetserve.simulation.stability import Backlog, grows, growth_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hetserve.cli.capacity.together.play import PlannedService, PlayedService

_SEEDS_TO_FIND = 3
_OF_JOINING: Final = ("margin", "variant", "deadline", "drop", "noise", "weights")
"""Options that only policies that join queries take."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """Simulation of one service.

    reports: by seed; empty without an allowable rate. ceiling: most queries/s, however late. found: None if a rate was
    given.
    """

    service: str
    model: str
    problem: Problem
    counts: Mapping[str, int]
    policy: Policy
    effort: SimulationEffort
    reports: tuple[RunReport, ...]
    ceiling: float
    offered: float = 0.0
    found: serving.Held | None = None

    @property
    def rate(self) -> float:
        """Queries/s that were offered; the allowable rate; 0: there is none."""
        return self.offered if self.found is None else self.found.allowable.rate

    @property
    def violation_ratio(self) -> float | None:
        """Share of late queries over all seeds; None: nothing ran."""
        return serving.late_share(self.reports)

    @property
    def holds(self) -> bool:
        if self.found is not None:
            return self.found.allowable.rate > 0
        ratio = self.violation_ratio
        if self.unstable:
            return False
        return ratio is not None and ratio <= 1 - self.problem.slo.percentile / 100 + 1e-12

    @property
    def backlogs(self) -> list[Backlog]:
        return [report.backlog for report in self.reports if report.backlog is not None]

    @property
    def unstable(self) -> bool:
        """Whether the backlog grows without end at the given load."""
        return self.found is None and (self.rate >= self.ceiling or grows(self.backlogs))

    @property
    def cost(self) -> int:
        return sum(option.price * self.counts[option.name] for option in self.problem.types)

    @property
    def worst_delay(self) -> float | None:
        return serving.worst_delay(self.reports)

    def utilisation(self) -> dict[str, float]:
        names = [option.name for option in self.problem.types]
        by_type = {
            name: [use.utilisation for r in self.reports for use in r.types if use.name == name] for name in names
        }
        return {name: sum(shares) / len(shares) for name, shares in by_type.items() if shares}

    def deciles(self) -> list[Decile]:
        """Over all seeds; of different limits the widest."""
        tenths = zip_longest(*(report.deciles for report in self.reports))
        return [_widest([one for one in tenth if one is not None]) for tenth in tenths]


def _widest(tenth: Sequence[Decile]) -> Decile:
    low, high = min(one.smallest for one in tenth), max(one.largest for one in tenth)
    return Decile(low, high, sum(one.queries for one in tenth), sum(one.violations for one in tenth))


def run(files: tuple[str, ...], service: str | None, output: str, plot: str | None, **options: Any) -> NoReturn:
    """The command, with its options."""
    find = options["find_allowable"]
    overrides, effort = take(options, _SEEDS_TO_FIND if find else 1)
    if options["together"] or options["nodes"] is not None:
        from hetserve.cli.capacity.together import result  # noqa: PLC0415

        _refuse_beside_together(options, effort)
        played = _together(files, service, overrides, effort, options)
        holds = all(one.holds for one in answered(played))
        finish(played, output, plot, result.document, result.block, result.draw, holds=holds, beside=result.gpus)
    if options["rate"] is None and not find:
        options["rate"] = effort.own_rate
    if (options["rate"] is None) != find:
        refuse("give either --rate Q/S, a load to offer, or --find-allowable, to look for the highest that holds")

    if options["policy"] in JOINING_POLICIES:
        _joined(files, service, output, plot, overrides, effort, options)
    for name in (name for name, value in options.items() if name in _OF_JOINING and value is not None):
        refuse(f"--{name} needs a policy that joins queries: --policy {', '.join(JOINING_POLICIES.names)}")

    def simulated(one: InferenceService, problem: Problem, _: Manifests) -> Simulated:
        return _simulate(one, problem, effort, options)

    found = each_problem(files, service, overrides, simulated)
    finish(found, output, plot, document, _block, draw, holds=all(one.holds for one in answered(found)))


def _joined(  # noqa: PLR0917
    files: tuple[str, ...],
    service: str | None,
    output: str,
    plot: str | None,
    overrides: Overrides,
    effort: SimulationEffort,
    options: dict[str, Any],
) -> NoReturn:
    """The command under a policy that joins queries."""
    from hetserve.cli.capacity.joined import result  # noqa: PLC0415
    from hetserve.cli.capacity.joined.play import (  # noqa: PLC0415
        JoinedOptions,
        JoinedService,
        note_misfit,
        play,
        with_each_alone,
    )

    if options["find_allowable"]:
        refuse(f"--find-allowable does not go with --policy {options['policy']}; give --rate Q/S")
    asked = JoinedOptions(options["policy"], options["margin"] or 0.0, *(options[name] for name in _OF_JOINING[1:]))

    def played(one: InferenceService, problem: Problem, manifests: Manifests) -> JoinedService:
        found = play(one, problem, manifests, asked, options["counts"], options["rate"], effort)
        note_misfit(found)
        return found if plot is None else with_each_alone(found, one, manifests)

    found = each_problem(files, service, overrides, played)
    holds = all(one.holds for one in answered(found))
    finish(found, output, plot, result.document, result.block, result.draw, holds=holds)


def _refuse_beside_together(options: dict[str, Any], effort: SimulationEffort) -> None:
    if not options["together"] or options["nodes"] is None:
        refuse("--together needs --nodes FILE, the nodes to place the plans on, and --nodes needs --together")
    if options["policy"] in JOINING_POLICIES:
        refuse(f"--policy {options['policy']} does not go with --together, which plays what routers do")
    for name in ("rate", "find_allowable", "counts", *_OF_JOINING):
        if options[name] not in (None, False):
            refuse(f"--{name.replace('_', '-')} does not go with --together, which plays the plans at their loads")
    if effort.own_rate is not None:
        refuse("--arrivals of a rate of their own do not go with --together: they are of one service")


def _together(
    files: tuple[str, ...], service: str | None, overrides: Overrides, effort: SimulationEffort, options: dict[str, Any]
) -> list[PlayedService | NotPlanned]:
    from hetserve.cli.capacity.together.places import place, read_nodes  # noqa: PLC0415
    from hetserve.cli.capacity.together.play import planned_service, together  # noqa: PLC0415

    nodes = read_nodes(options["nodes"])

    def planned(one: InferenceService, problem: Problem, manifests: Manifests) -> PlannedService:
        return planned_service(one, problem, manifests, policy_of(one, problem, options["policy"]))

    found = each_problem(files, service, overrides, planned)
    services = answered(found)
    placed = place([wanted for one in services for wanted in one.instances], nodes)
    try:
        played = iter(together(services, placed, effort) if services else ())
    except NotPlannedError as error:
        refuse(error.message)
    return [one if isinstance(one, NotPlanned) else next(played) for one in found]


def _simulate(
    service: InferenceService, given: Problem, effort: SimulationEffort, options: dict[str, Any]
) -> Simulated:
    name, model, offered = service.metadata.name, service.spec.model.name, options["rate"]
    policy = policy_of(service, given, options["policy"])
    given, counts = configuration(name, given, options["counts"])
    chosen = serving.policy_for(policy, given, counts)
    if offered is not None:
        effort = serving.long_enough(given, offered, effort, serving.MOST_AT_A_RATE)
        with steps(f"{name}: {policy}", len(effort.seeds)) as shown:
            reports = serving.run_at(given, counts, chosen, offered, effort, shown)
        most = serving.ceiling_rate(given, counts)
        return Simulated(name, model, given, counts, chosen, effort, tuple(reports), most, offered)
    effort = serving.long_enough(given, serving.longest_rate(given, counts), effort, serving.MOST_TO_FIND)
    with steps(f"{name}: {policy}", serving.most_trials(effort)) as shown:
        found = serving.find_allowable(given, counts, chosen, effort, shown.each_trial)
    return Simulated(name, model, given, counts, chosen, effort, found.reports, found.ceiling, found=found)


def configuration(name: str, problem: Problem, held: dict[str, int] | None) -> tuple[Problem, dict[str, int]]:
    """Instances per type: as given, else of the default plan; and the problem as planned. Raises NotPlannedError."""
    known = [option.name for option in problem.types]
    if held is not None:
        for unknown in sorted(set(held) - set(known)):
            refuse(f"--counts {unknown}: no such instance type for {name}; there are: {', '.join(known)}")
        return problem, {type_name: held.get(type_name, 0) for type_name in known}
    decided = plan(problem)
    if not decided.feasible:
        raise NotPlannedError(str(decided.reason), decided.message)
    return with_tolerances(problem, dict(decided.tolerances)), dict(decided.counts)


def document(result: Simulated) -> dict[str, Any]:
    slo, found = result.problem.slo, result.found
    offered = {"sloSeconds": slo.latency, "offeredQPS": result.rate, "arrivals": result.effort.arrivals_name}
    rate: dict[str, Any] = {"offeredQPS": result.rate}
    if found is not None:
        rate = {
            "allowableQPS": found.allowable.rate,
            "criterion": found.allowable.criterion,
            "perSeedQPS": list(found.allowable.per_seed),
            "fluidBoundQPS": found.fluid,
            "unstableFromQPS": found.allowable.unstable_from,
            "trials": len(found.allowable.trials),
        }
    return {
        "service": result.service,
        "model": result.model,
        **_configured(result),
        "cost": format_money(result.cost),
        **rate,
        "sloSeconds": slo.latency,
        "percentile": slo.percentile,
        "ceilingQPS": result.ceiling,
        "holds": result.holds,
        "unstable": result.unstable,
        "violationRatio": result.violation_ratio,
        "worstDelaySeconds": result.worst_delay,
        "queries": result.effort.queries,
        "warmUp": result.effort.warm_up,
        "arrivals": result.effort.arrivals_name,
        "seed": result.effort.seeds[0],
        "seeds": list(result.effort.seeds),
        **tenancy_document(result.problem),
        "utilisation": result.utilisation(),
        "violationsByBatch": [one.as_json() for one in result.deciles()],
        "runs": [
            {**_configured(result), **offered, "seed": seed, **report.as_json()}
            for seed, report in zip(result.effort.seeds, result.reports, strict=False)
        ],
    }


def _configured(result: Simulated) -> dict[str, Any]:
    return {
        "policy": result.policy.name,
        "parameters": list(result.policy.parameters),
        "counts": dict(result.counts),
    }


def _block(result: Simulated) -> Block:
    title = f"{result.service}: {summary(tuple(result.counts.items()))} under {result.policy.name}"
    lines = [
        ("asked", f"{slo_text(result.problem)}, {money_text(result.cost)}"),
        *tenancy_lines(result.problem),
        ("answer", _answer(result)),
        ("late", _late(result)),
        ("simulated", result.effort.text),
    ]
    return Block(title, tuple(lines), (_types(result), _deciles(result)) if result.reports else ())


def _answer(result: Simulated) -> str:
    if result.found is None:
        word = "holds" if result.holds else "does not hold"
        return f"the SLO {word} at {qps_text(result.rate)}" + (_growth(result) if result.unstable else "")
    found = result.found
    if not result.holds:
        return "the SLO holds at no rate that was tried"
    share = (
        f", {found.allowable.rate / found.fluid:.1%} of the fluid bound {qps_text(found.fluid)}" if found.fluid else ""
    )
    from_here = found.allowable.unstable_from
    above = "" if from_here is None else f"; unstable from {qps_text(from_here)} on: the backlog grows"
    return f"holds up to {qps_text(found.allowable.rate)}{share} ({found.allowable.criterion} criterion){above}"


def _growth(result: Simulated) -> str:
    text = f": unstable: the backlog grows, {growth_text(result.backlogs)}"
    if result.rate >= result.ceiling:
        text += f"; in the long run the instances serve less than {qps_text(result.ceiling)}"
    return text


def _late(result: Simulated) -> str:
    if result.violation_ratio is None or result.worst_delay is None:
        return "nothing was run"
    worst = (
        f"worst {latency_text(result.worst_delay)}, {_times(result.worst_delay / result.problem.slo.latency)} the SLO"
    )
    return f"{result.violation_ratio:.2%} of queries at {qps_text(result.rate)}; {worst}"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} x" if ratio >= 100 else f"{ratio:.3g} x"


def _types(result: Simulated) -> Table:
    table = grid("TYPE", ">COUNT", ">$/H", ">QUERIES", ">BUSY %")
    busy = result.utilisation()
    for option in result.problem.types:
        count = result.counts[option.name]
        served = sum(use.queries for r in result.reports for use in r.types if use.name == option.name)
        share = f"{busy[option.name]:.1%}".rstrip("%") if count else "-"
        table.add_row(option.name, str(count), format_money(option.price * count), str(served), share)
    return table


def _deciles(result: Simulated) -> Table:
    table = grid(">BATCH (ITEMS)", ">QUERIES", ">LATE", ">LATE %")
    for one in result.deciles():
        table.add_row(one.sizes, str(one.queries), str(one.violations), f"{100 * one.ratio:.2f}")
    return table


def draw(results: Sequence[Simulated], path: str) -> None:
    """Two panels per service. Raises OSError."""
    draw_rows(results, path, _draw_late, _draw_busy)


def _draw_late(result: Simulated, axes: Axes) -> None:
    rows = result.deciles()
    axes.bar([one.sizes for one in rows], [100 * one.ratio for one in rows], color=COLOURS[0])
    allowed = 100 - result.problem.slo.percentile
    axes.axhline(allowed, color="black", linestyle="--", linewidth=1, label=f"allowed over all: {allowed:g} %")
    what = "at" if result.found is None else "allowable:"
    name = f"{result.service}: {summary(tuple(result.counts.items()))}"
    axes.set_title(f"{name}\n{result.policy.name}, {what} {qps_text(result.rate)}")
    axes.set(xlabel="batch size by tenths of the queries (items)", ylabel="late queries (%)")
    axes.tick_params(axis="x", rotation=40)
    axes.legend()


def _draw_busy(result: Simulated, axes: Axes) -> None:
    busy = {name: share for name, share in result.utilisation().items() if result.counts[name]}
    labels = [f"{result.counts[name]} x {name}" for name in busy]
    bars = axes.bar(labels, [100 * share for share in busy.values()], color=COLOURS[2], width=0.5)
    axes.bar_label(bars, fmt="%.0f %%", padding=2)
    axes.set_title("utilisation of instances")
    axes.set(ylabel="time busy (%)", ylim=(0, 108), xlim=(-0.7, max(len(labels), 2) - 0.3))
