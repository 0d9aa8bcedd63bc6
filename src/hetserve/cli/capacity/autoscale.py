"""What `hetserve autoscale` does and answers; keys are part of the interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from rich.table import Table

from hetserve.api.conditions import Reason
from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests, read_manifests
from hetserve.api.service.demand_source import MetricsSpec
from hetserve.api.service.scaling import ScalingSpec
from hetserve.base.units import QPS, format_money
from hetserve.cli.capacity.asked import slo_text
from hetserve.cli.capacity.commands import Changes
from hetserve.cli.capacity.services import (
    NotPlannedError,
    Overrides,
    answered,
    choose,
    each,
    finish,
    planned,
    problem_of,
)
from hetserve.cli.output.plots import COLOURS, new_figure, save
from hetserve.cli.output.progress import steps
from hetserve.cli.output.streams import note, refuse
from hetserve.cli.output.terminal import Block, grid
from hetserve.cli.values import option_named
from hetserve.demand.queries import wanted_by
from hetserve.demand.trace import LoadTrace, read_trace
from hetserve.planning import Problem, summary
from hetserve.planning.formatting import qps_text
from hetserve.planning.offers import namespace_of
from hetserve.profiles.latency_factors import EVERY_TYPE
from hetserve.scaling.decision import Action
from hetserve.scaling.facts import Pause
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.plans.counts import cost_of, in_order
from hetserve.scaling.replay.arrivals import Arrived, arrivals_of, drawn_sizes
from hetserve.scaling.replay.following import DecidedAt, Playing, Replay, Setting, follow
from hetserve.scaling.replay.serving import Served
from hetserve.scaling.rules import scaling_rules

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HOUR = 3600
_MINUTE = 60
_ANY_LOAD = QPS(1.0)
"""The trace says the load: a problem that is built needs some."""


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


def run(files: tuple[str, ...], service: str | None, output: str, plot: str | None, **options: Any) -> NoReturn:
    """The command, with its options."""
    with option_named("--load"):
        load = read_trace(Path(options.pop("trace")), bad_samples="allowed")
    played = [options.pop(name) for name in ("changes", "seed", "factors")]
    overrides, manifests = Overrides(**options), read_manifests(files)
    _check_types(played[-1], manifests)
    chosen = choose(manifests, service, files)
    following = [one for one in chosen if one.spec.objective == "MinCost"] or chosen
    found = each(following, lambda one: _follow(one, manifests, overrides, load, *played))
    finish(found, output, plot, document, _block, draw, holds=all(result.holds for result in answered(found)))


def _follow(  # noqa: PLR0917
    service: InferenceService,
    manifests: Manifests,
    overrides: Overrides,
    load: LoadTrace,
    changes: Changes,
    seed: int,
    factors: Mapping[str, float],
) -> Followed:
    """changes: batch sizes from a second of the trace on. factors: real service times / declared."""
    spec = service.spec
    if spec.objective != "MinCost":
        raise NotPlannedError(
            Reason.SPEC_INVALID,
            f"objective {spec.objective}: it uses its budget whatever the load; a load is followed under MinCost",
        )
    built = planned(problem_of(service, manifests, replace(overrides, load=_ANY_LOAD)))
    _note_idle(factors, built)
    try:
        arrived = arrivals_of(load, seed)
    except ValueError as error:
        refuse(f"--load: {error}")
    scaling = spec.scaling or ScalingSpec()
    arrived = _as_measured(arrived, service, scaling)
    if changes:
        mixes = [(arrived.begin, built.mix), *changes]
        arrived = replace(arrived, sizes=drawn_sizes(arrived.times, mixes, seed + 1))
    expected = None if spec.load is None or spec.load.expected_qps is None else QPS(spec.load.expected_qps)
    setting = Setting(replace(built, load=None), scaling_rules(scaling), expected, Pause(spec.pause))
    name = service.metadata.name
    with steps(name, int(arrived.end - arrived.begin)) as shown:
        answerer = Answers(worked_out=lambda work: shown.busy(f"planned for {work.problem.load or 0:.1f} q/s"))
        playing = Playing(seed + 1, factors)
        course = follow(setting, arrived, answerer, shown.reached, playing)
    assert course.served is not None  # noqa: S101  they were played
    return Followed(service, setting, course, course.served, seed, answerer.questions)


def _check_types(factors: Mapping[str, float], manifests: Manifests) -> None:
    """Exits if a factor is of a type that no file declares."""
    types = sorted(one.metadata.name for one in manifests.types)
    unknown = sorted(factors.keys() - {EVERY_TYPE, *types})
    if unknown:
        refuse(f"--latency-factor: no instance type {unknown[0]}; there are: {', '.join(types)}")


def _note_idle(factors: Mapping[str, float], problem: Problem) -> None:
    """Says which factors are of types on which the service cannot run."""
    for name in sorted(factors.keys() - {EVERY_TYPE, *(option.name for option in problem.types)}):
        note(f"{problem.service}: --latency-factor of {name} has no effect: no instance of that type may serve it")


def _as_measured(arrived: Arrived, service: InferenceService, scaling: ScalingSpec) -> Arrived:
    """Arrivals whose rates are taken over the windows of the service, as its operator takes them."""
    source = service.spec.metrics or MetricsSpec(source="Hetserve")
    asked = wanted_by(service, service.metadata.namespace or "default", source, scaling)
    return replace(arrived, window=asked.window, step=asked.step, stale_after=asked.stale_after, kept=asked.span)


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


def _block(result: Followed) -> Block:
    course, served = result.course, result.served
    word = "holds" if result.holds else "does not hold"
    hours = (course.end - course.begin) / _HOUR
    lines = (
        ("asked", slo_text(result.setting.problem)),
        ("answer", f"the SLO {word}: {served.late_share:.3%} of {served.queries} queries were late"),
        ("paid", f"${course.dollars:.4g} in {hours:.4g} h, {course.dollars / hours if hours else 0:.4g} $/h"),
        ("changed", f"{result.changes} times after the first plan"),
    )
    return Block(f"{result.name}: followed the load for {hours:.4g} h", lines, (_decisions(result),))


def _decisions(result: Followed) -> Table:
    table = grid(">TIME", "ACTION", "REASON", "INSTANCES", ">$/H", ">LOAD")
    for one in result.course.decided:
        made = one.decision
        table.add_row(
            _clock(one.at),
            str(made.action),
            str(made.reason),
            summary(made.counts or ()),
            format_money(result.hourly(one)),
            "-" if made.load is None else qps_text(made.load),
        )
    return table


def _clock(seconds: float) -> str:
    """12345 -> ``3:25:45``."""
    sign, whole = "-" if seconds < 0 else "", abs(int(seconds))
    return f"{sign}{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"


def draw(results: Sequence[Followed], path: str) -> None:
    """Three panels per service. Raises OSError."""
    figure = new_figure(10, 6.5 * len(results))
    rows = figure.subplots(3 * len(results), 1, squeeze=False, sharex=True)[:, 0]
    for number, result in enumerate(results):
        load, instances, late = rows[3 * number : 3 * number + 3]
        _draw_load(result, load)
        _draw_instances(result, instances)
        _draw_late(result, late)
    rows[-1].set(xlabel="time of the trace (h)")
    save(figure, path)


def _draw_load(result: Followed, axes: Axes) -> None:
    queries = result.served.by_minute[:, 0]
    hours = (result.course.begin + _MINUTE * np.arange(len(queries))) / _HOUR
    axes.plot(hours, queries / _MINUTE, color=COLOURS[0], linewidth=1)
    share = result.served.late_share
    title = f"{result.name}: ${result.course.dollars:.4g}, {share:.2%} late, {result.changes} changes of the plan"
    axes.set_title(title)
    axes.set(ylabel="load (q/s)")


def _draw_instances(result: Followed, axes: Axes) -> None:
    """Those that serve, stacked by type; the line: all that are paid."""
    course = result.course
    spans = course.fleet.spans
    moments = {course.begin, course.end, *(s.launched for s in spans), *(s.ready for s in spans)}
    edges = np.array(sorted(t for t in (*moments, *(s.left for s in spans)) if course.begin <= t <= course.end))
    base, paid = np.zeros(len(edges)), np.zeros(len(edges))
    for colour, option in enumerate(result.setting.problem.types):
        serving = np.zeros(len(edges))
        for span in (s for s in spans if s.type == option.name):
            serving += (edges >= span.ready) & (edges < span.left)
            paid += (edges >= span.launched) & (edges < span.left)
        if serving.any():
            shade = COLOURS[colour % len(COLOURS)]
            axes.fill_between(
                edges / _HOUR, base, base + serving, step="post", label=option.name, color=shade, linewidth=0, alpha=0.8
            )
        base = base + serving
    axes.step(edges / _HOUR, paid, where="post", color="black", linewidth=0.8, label="paid")
    axes.set(ylabel="instances")
    axes.legend(ncols=4)


def _draw_late(result: Followed, axes: Axes) -> None:
    queries, late = result.served.by_minute.T
    hours = (result.course.begin + _MINUTE * np.arange(len(queries))) / _HOUR
    axes.plot(hours, 100 * late / np.maximum(queries, 1), color=COLOURS[1], linewidth=0.8)
    allowed = 100 - result.setting.problem.slo.percentile
    axes.axhline(allowed, color="black", linestyle="--", linewidth=1, label=f"allowed over all: {allowed:g} %")
    axes.set(ylabel="late by minute (%)")
    axes.legend()
