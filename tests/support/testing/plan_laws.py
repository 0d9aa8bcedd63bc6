"""What plans of one problem at rising loads must keep, whichever planner made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from hetserve.base.units import QPS
from hetserve.planning import Counts, Plan, Problem, plan
from hetserve.planning.flow.planner import trial
from hetserve.planning.rates import throughput

QUICK: Final = "flow, quick"
PLANNERS: Final = ("flow", QUICK, "ilp", "greedy", "homogeneous")
"""Those that say that they carry a load."""
_FALLS: Final = {QUICK: 0.05}
_FALL: Final = 0.02
_NOISE: Final = 1 + 1e-6
_ROOMY: Final = (1.0, 0.8, 0.4)


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that a planner broke, and how."""

    law: str
    planner: str
    words: str


LAWS: Final = (
    "never fails",
    "less load is planned too",
    "cost never falls",
    "no floor above a cost",
    "no ceiling below what is held",
    "never dearer than ilp's counts that hold",
    "planned where one type alone holds",
)


def broken_laws(given: Problem, loads: Sequence[float], planners: Sequence[str] = PLANNERS) -> Iterator[Broken]:
    """Of plans for rising loads [queries/s]."""
    asked = [replace(given, load=QPS(load)) for load in loads]
    made = {name: tuple(_planned(one, name) for one in asked) for name in planners}
    for name, plans in made.items():
        yield from _failures(name, loads, plans)
        yield from _falls(name, given, loads, plans)
        if name in {"flow", QUICK}:
            yield from _floors(name, loads, plans, made.get("flow", plans))
            yield from _ceilings(name, asked, plans)
    if "flow" in made:
        for one, ours in zip(asked, made["flow"], strict=True):
            yield from _beaten(one, ours, plan(one, "ilp"))


def _planned(problem: Problem, name: str) -> Plan:
    return plan(problem, "flow", quick=True) if name == QUICK else plan(problem, name)


def _failures(name: str, loads: Sequence[float], plans: Sequence[Plan]) -> Iterator[Broken]:
    for load, one in zip(loads, plans, strict=True):
        if one.reason == "PlannerFailed":
            yield Broken("never fails", name, f"{load:g} q/s: {one.message}")


def _falls(name: str, given: Problem, loads: Sequence[float], plans: Sequence[Plan]) -> Iterator[Broken]:
    """Where more load costs less, or is planned although less is not."""
    slack, cheapest = _FALLS.get(name, _FALL), min(option.price for option in given.types)
    for (low, less), (high, more) in pairwise(zip(loads, plans, strict=True)):
        if more.feasible and not less.feasible:
            yield Broken("less load is planned too", name, f"{low:g} of {high:g} q/s: {less.message}")
        elif more.feasible and more.cost < less.cost - max(slack * less.cost, cheapest):
            yield Broken("cost never falls", name, f"{low:g} q/s: {less.message}; {high:g} q/s: {more.message}")


def _floors(name: str, loads: Sequence[float], plans: Sequence[Plan], sure: Sequence[Plan]) -> Iterator[Broken]:
    """sure: plans for the loads which were tried, at least as cheap as a floor says."""
    for i, (load, one) in enumerate(zip(loads, plans, strict=True)):
        held = [other.cost for other in sure[i:] if other.feasible and other.tried]
        costs = [*held, *([one.cost] if one.feasible else [])]
        if one.floor_cost is not None and costs and one.floor_cost > min(costs) * _NOISE:
            yield Broken("no floor above a cost", name, f"{load:g} q/s: {one.verdict}; {min(costs)} holds it")
        if one.feasible and (one.capacity_qps or 0.0) * _NOISE < max(load, one.held_qps or 0.0):
            yield Broken("no ceiling below what is held", name, f"{load:g} q/s: {one.verdict}")


def _ceilings(name: str, asked: Sequence[Problem], plans: Sequence[Plan]) -> Iterator[Broken]:
    """What the money of the dearest plan buys, against the load that this plan carries."""
    carried = [(one, made) for one, made in zip(asked, plans, strict=True) if made.feasible]
    if not carried:
        return
    problem, made = carried[-1]
    most = _planned(replace(problem, objective="MaxThroughput", load=None, budget=made.cost), name)
    if most.reason == "PlannerFailed":
        yield Broken("never fails", name, f"for {made.cost}: {most.message}")
    elif not most.feasible or (most.ceiling_qps or 0.0) * _NOISE < max(problem.load or 0.0, most.held_qps or 0.0):
        yield Broken("no ceiling below what is held", name, f"{made.message} / {most.verdict}")


def _beaten(problem: Problem, ours: Plan, other: Plan) -> Iterator[Broken]:
    """Where counts that flow's own trials pass cost less than its plan, or it has none."""
    if other.feasible and (not ours.feasible or other.cost < ours.cost) and trial(problem, other.counts).holds:
        yield Broken("never dearer than ilp's counts that hold", "flow", f"{other.message} / {ours.message}")
    if not ours.feasible:
        for counts in alone(problem):
            if trial(problem, counts).holds:
                yield Broken("planned where one type alone holds", "flow", f"{counts} / {ours.message}")
                return


def alone(problem: Problem) -> Iterator[Counts]:
    """Counts of one type alone whose time is enough for the load, within the limits."""
    for option in problem.types:
        rate = throughput(option.profile, problem.mix)
        if rate is None or any(one.min_instances for one in problem.types if one != option):
            continue
        for share in _ROOMY:
            count = max(int((problem.load or 0.0) / rate / share) + 1, option.min_instances)
            if count <= option.most:
                yield tuple((one.name, count if one == option else 0) for one in problem.types)
