"""Sets of the tenants measured on a real GPU: which placement lets onto one GPU, and which hold there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Final, get_args

from benchmarks.reporting import Json, table
from benchmarks.sharing.found import alone
from benchmarks.sharing.manifests import Asked, GpuKind, Model, manifests
from benchmarks.sharing.needed import placed
from benchmarks.sharing.parts.gpu import TYPE, Measured, Tenant, label, read
from benchmarks.sharing.results import goals
from benchmarks.sharing.rows import rows_of
from benchmarks.sharing.ways import DEFAULT, NOW

from hetserve.api.manifests import Manifests
from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.together.places import PlacedInstance
from hetserve.cli.capacity.together.play import PlannedService, together
from hetserve.objects.gpu_sharing import ONE
from hetserve.registry.choices import SharingMode

TITLE: Final = "Partly busy tenants of a real GPU"
LOADS: Final = (0.05, 0.1, 0.2, 0.3, 0.4)
SLOS: Final = (5, 10, 20)
MODES: Final[tuple[SharingMode, ...]] = get_args(SharingMode)
GOALS: Final[Mapping[SharingMode, int]] = {"TimeSlicing": 30, "MPS": 200}
_NUMBERS: Final = tuple(product(MODES, LOADS))
_GPU: Final = GpuKind(TYPE, 143_360)
_MIB: Final = 4096
_EFFORT: Final = SimulationEffort(2_000, (301, 305), 1)
_SURE: Final = SimulationEffort(6_000, (302, 303, 304), 1)
_WORDS: Final = """The eight tenants of [a real GPU](#a-real-gpu) as services with one instance each: sets of two to
four different models, all as busy (5, 10, 20, 30 or 40 %), all with an SLO of 5, 10 or 20 times what they take alone
(98 %).
*Hold*: every one keeps its SLO beside the others in the joint simulation, by the shares and factors between just these
batches, as profiles state them; service times vary by 5 %. *Let in*: each is planned alone and has its own tolerance,
and placement finds room for all on one GPU. **No GPU ran at these loads**: what was measured are servers that are
always busy.
"""


def measure(quick: bool) -> Json:
    numbers = range(0, len(_NUMBERS), 5) if quick else range(len(_NUMBERS))
    return {"rows": rows_of("h200", judged, numbers, keep=not quick)}


def judged(number: int) -> Json:
    """Sets of a mode at a load, by SLO."""
    mode, load = _NUMBERS[number]
    measured = read(mode)
    sets = sets_of(list(measured.share))
    found: Json = {"mode": mode, "load": load, "sets": len(sets), "by slo": {}}
    known: dict[tuple[Tenant, ...], bool] = {}
    for slo in reversed(SLOS):  # what breaks a longer SLO breaks a shorter one
        given = tenants(measured, mode, load, slo)
        planned = {one.service.metadata.name: one for one in (NOW.planned(s, given) for s in given.services)}
        rows = [_judge([planned[label(one)] for one in some], given, known.get(some, True)) for some in sets]
        known = {some: row["holds"] for some, row in zip(sets, rows, strict=True)}
        found["by slo"][str(slo)] = {key: sum(row[key] for row in rows) for key in ("holds", "let in", "breaks")} | {
            "late": max((row["late"] for row in rows), default=0.0)
        }
    return found


def sets_of(tenants: Sequence[Tenant]) -> list[tuple[Tenant, ...]]:
    """Two to four of different models."""
    return [
        some for size in (2, 3, 4) for some in combinations(sorted(tenants), size) if len({m for m, _ in some}) == size
    ]


def tenants(measured: Measured, mode: SharingMode, load: float, slo: int) -> Manifests:
    """A service of each tenant, which counts as a model of its own."""
    names = sorted(measured.share)
    times = {one: measured.alone[one] / 1000 for one in names}
    models = [
        Model(
            label(one),
            {TYPE: {1: times[one]}},
            _MIB,
            measured.share[one] / ONE,
            {label(to): (1, factor / ONE) for (by, to), factor in measured.factors.items() if by == one},
            mode,
        )
        for one in names
    ]
    return manifests(models, [Asked(load / times[one], slo * times[one]) for one in names], [_GPU])


def _judge(some: Sequence[PlannedService], given: Manifests, may_hold: bool) -> Json:
    """may_hold: False: they break a longer SLO."""
    single = [one for one in some if sum(one.counts.values()) == 1]
    wanted = [instance for one in single for instance in one.instances]
    types = {one.metadata.name: one for one in given.types}
    let_in = len(single) == len(some) and placed(wanted, types, {TYPE: 1}, DEFAULT) is not None
    if let_in:
        found = together(some, [PlacedInstance(one, "n", "0") for one in wanted], _SURE)
        late = max(report.violation_ratio for one in found for report in one.reports)
        holds = all(one.holds for one in found)
        return {"holds": holds, "let in": True, "breaks": not holds, "late": late}
    return {"holds": may_hold and _holds(some), "let in": False, "breaks": False, "late": 0.0}


def _holds(some: Sequence[PlannedService]) -> bool:
    """Whether they hold beside each other, planned for nobody."""
    apart = [alone(one) for one in some]
    places = [PlacedInstance(instance, "n", "0") for one in apart for instance in one.instances]
    return all(one.holds for one in together(apart, places, _EFFORT))


def describe(data: Json) -> str:
    rows = data["rows"]
    lines = [
        (row["mode"], f"{row['load']:.0%}", slo, row["sets"], one["holds"], one["let in"], one["breaks"])
        for row in rows
        for slo, one in sorted(row["by slo"].items(), key=lambda item: int(item[0]))
    ]
    return "\n".join(
        [
            _WORDS,
            table(("mode", "busy", "SLO", "sets", "hold", "let in", "of these, break"), lines),
            goals([goal for mode in MODES for goal in _goals(mode, [row for row in rows if row["mode"] == mode])]),
        ]
    )


def _goals(mode: SharingMode, rows: Sequence[Json]) -> list[tuple[str, str, str, bool | None]]:
    def total(key: str) -> int:
        return sum(one[key] for row in rows for one in row["by slo"].values())

    let_in, holds, breaks = (total(key) for key in ("let in", "holds", "breaks"))
    late = max((one["late"] for row in rows for one in row["by slo"].values()), default=0.0)
    return [
        (
            f"{mode}: sets let in, of those that hold",
            f">= {GOALS[mode]}",
            f"{let_in} of {holds}",
            let_in >= GOALS[mode],
        ),
        (f"{mode}: of the sets let in, break when played", "0", f"{breaks}; late up to {late:.2%}", breaks == 0),
    ]
