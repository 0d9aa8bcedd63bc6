"""What no controller can beat: a lower bound on GPUs, money and memory, with every rate known and no launch time.

In each step the sets of instances that are busy at once on a GPU share out its time, and they must serve the step's
rates on the mean. Each tenant of a busy set progresses by the assumed stretch; any mix of models and copies within the
GPU's memory may be busy. That is a linear program over shares of time; GPUs and instances are whole in each step.
Nothing waits for a launch, an SLO or a queue; so whoever answers all queries, and changes GPUs at steps, needs at least
as much. (Queries that wait from one step to the next, an SLO's worth, may move work between steps.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Final

from benchmarks.hetsev.assumptions import Assumptions
from benchmarks.hetsev.policy import STEP
from benchmarks.hetsev.scene import Scene

from hetserve.planning.highs import INFINITY, Model, solve

MEASURES: Final = ("count", "dollars", "memory")
_HOUR: Final = 3600.0
_MIB_PER_GIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Bound:
    """At least so much in all: GPU-hours by count; dollars of whole GPUs; GiB x normalized price x seconds.

    Each has its own best fleet. short: steps whose rates no fleet carries, which count as nothing.
    """

    gpu_hours: float
    dollars: float
    memory: float
    short: int


@dataclass(frozen=True, slots=True)
class BusySet:
    """Instances that are busy at once on a GPU of a type, by model. rates: queries/s of all of a model's together."""

    type: str
    members: Mapping[str, int]
    rates: Mapping[str, float]


def bound(scene: Scene) -> Bound:
    """The least of each measure over the measured time."""
    sets = tuple(busy_sets(scene.assumed, scene.models))
    totals, short = dict.fromkeys(MEASURES, 0.0), 0
    known: dict[tuple[float, ...], dict[str, float] | None] = {}
    for k in range(round(scene.workload.end / STEP)):
        rates = tuple(scene.workload.rate(model, k * STEP) for model in scene.models)
        if rates not in known:
            known[rates] = _least(scene, sets, dict(zip(scene.models, rates, strict=True)))
        found = known[rates]
        short += found is None
        for measure, least in (found or {}).items():
            totals[measure] += least
    hours = STEP / _HOUR
    return Bound(totals["count"] * hours, totals["dollars"] * hours, totals["memory"] * STEP, short)


def busy_sets(assumed: Assumptions, models: Sequence[str]) -> Iterator[BusySet]:
    """All mixes within a GPU's memory, but those that others in turn replace, with no instance more."""
    for type_name, gpu in assumed.gpus.items():
        most = gpu.memory_mib // min(assumed.models[model].memory_mib for model in models)
        kept: list[BusySet] = []
        for count in range(1, most + 1):
            for some in combinations_with_replacement(models, count):
                if sum(assumed.models[model].memory_mib for model in some) <= gpu.memory_mib:
                    one = _busy_set(assumed, type_name, some)
                    if not _replaced(one, kept):
                        kept.append(one)
        yield from kept


def _replaced(one: BusySet, others: Sequence[BusySet]) -> bool:
    """Whether others, each for a share of the time, serve as much of each model with no more instances busy."""
    program = Model(maximise=False)
    shares = [program.column() for _ in others]
    program.row(shares, [1.0] * len(shares), 0.0, 1.0)
    for model, rate in one.rates.items():
        program.row(shares, (other.rates.get(model, 0.0) for other in others), rate, INFINITY)
        members = (float(other.members.get(model, 0)) for other in others)
        program.row(shares, members, 0.0, float(one.members[model]))
    return bool(others) and solve(program) is not None


def _busy_set(assumed: Assumptions, type_name: str, some: Sequence[str]) -> BusySet:
    members, rates = Counter(some), dict[str, float]()
    tenants = [(model, assumed.models[model].batch) for model in some]
    for model, count in members.items():
        own = (model, assumed.models[model].batch)
        k = tenants.index(own)
        stretch = assumed.stretch(own, (*tenants[:k], *tenants[k + 1 :]))
        rates[model] = count * assumed.rate(model, type_name) / stretch
    return BusySet(type_name, members, rates)


def _least(scene: Scene, sets: Sequence[BusySet], rates: Mapping[str, float]) -> dict[str, float] | None:
    """By measure, the least per step that carries the rates; None: nothing does."""
    found: dict[str, float] = {}
    for measure in MEASURES:
        solved = solve(_program(scene, sets, rates, measure))
        if solved is None:
            return None
        found[measure] = solved.bound
    return found


def _program(scene: Scene, sets: Sequence[BusySet], rates: Mapping[str, float], measure: str) -> Model:
    assumed, program = scene.assumed, Model(maximise=False)
    gpus = {name: sum(gpu.type == name for gpu in scene.gpus) for name in assumed.gpus}
    price = {"count": dict.fromkeys(gpus, 1.0), "dollars": {t: assumed.price(t) / 1e6 for t in gpus}}
    whole = {
        name: program.column(price.get(measure, {}).get(name, 0.0), upper=float(most), integral=True)
        for name, most in gpus.items()
    }
    shares = [program.column() for _ in sets]
    for name in gpus:
        of_type = [column for column, one in zip(shares, sets, strict=True) if one.type == name]
        program.row((whole[name], *of_type), (1.0, *[-1.0] * len(of_type)), 0.0, INFINITY)
    for model, rate in rates.items():
        serving = [(column, one.rates[model]) for column, one in zip(shares, sets, strict=True) if model in one.rates]
        program.row((c for c, _ in serving), (r for _, r in serving), rate, INFINITY)
    if measure == "memory" or scene.most is not None:
        _add_instances(program, scene, sets, shares, priced=measure == "memory")
    return program


def _add_instances(
    program: Model, scene: Scene, sets: Sequence[BusySet], shares: Sequence[int], *, priced: bool
) -> None:
    """Whole instances by model and type: at least as many as are busy on the mean."""
    assumed, instances = scene.assumed, list[int]()
    for model in scene.models:
        gib = assumed.models[model].memory_mib / _MIB_PER_GIB
        for name, gpu in assumed.gpus.items():
            column = program.column(gib * gpu.price_per_gib if priced else 0.0, integral=True)
            instances.append(column)
            busy = [
                (share, -float(one.members[model]))
                for share, one in zip(shares, sets, strict=True)
                if one.type == name and model in one.members
            ]
            program.row((column, *(c for c, _ in busy)), (1.0, *(v for _, v in busy)), 0.0, INFINITY)
    if scene.most is not None:
        program.row(instances, [1.0] * len(instances), 0.0, scene.most)
