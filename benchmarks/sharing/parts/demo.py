"""The demo's four services as planned and placed today, played together under the four models' shares and factors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from benchmarks.placement.results import REPOSITORY
from benchmarks.reporting import Json, table
from benchmarks.sharing.bookings import SIGMA, booked
from benchmarks.sharing.results import goals
from benchmarks.sharing.tenants import LARGEST, MODELS, SHARES, harm

from hetserve.api.manifests import read_manifests
from hetserve.api.model_profile import InterferenceEntry, ModelProfile
from hetserve.base.units import parse_duration
from hetserve.cli.capacity.effort import Effort
from hetserve.cli.capacity.not_planned import NotPlannedError, planned
from hetserve.cli.capacity.together import PlayedService, planned_service, together
from hetserve.cli.capacity.together_places import PlacedInstance, RawNode, place
from hetserve.planning import build_problem
from hetserve.registry.choices import SHARING_MODES

TITLE: Final = "The demo before"
SAMPLE: Final = REPOSITORY / "manifests" / "samples" / "hetsev.yaml"
T4: Final = "hetsev-t4"
SPEEDS: Final = (0.8, 1.0, 1.2)
_GPUS: Final = {"hetsev-v100": ("Tesla-V100-PCIE-32GB", 32768), T4: ("Tesla-T4", 15360)}
_SEEDS: Final = (11, 12, 13)
_WORDS: Final = """`manifests/samples/hetsev.yaml` on 4 nodes x 2 V100 and 4 nodes x 2 T4: planned as today, placed by
the extender's decisions (memory only), all loads played at once. Latencies and loads are the sample's. Shares and
factors are assumptions of this benchmark, in no manifest: c as in `benchmarks/sharing/tenants.py`,
u {shares}.
Late: of three seeds the worst; allowed are 2 %. Alone: the same instances, each with a GPU of its own. Compute booked:
what the rule would book on the fullest GPU that the service is on, at sigma {sigma}; 100 % is the most.
"""


def factor(model: str, other: str) -> float:
    """On the other's latency, both at their largest batches."""
    return float(1 + harm(model, other) * (LARGEST[model] * LARGEST[other]) ** 0.5 / 8)


def measure(quick: bool) -> Json:
    queries = 3_000 if quick else 8_000
    speeds = (1.0,) if quick else SPEEDS
    return {"speeds": {f"{speed:g}": play_at(speed, Effort(queries, _SEEDS, 1)) for speed in speeds}}


def play_at(speed: float, effort: Effort) -> list[Json]:
    """A row per service. speed: of T4s over the sample's."""
    read = read_manifests([str(SAMPLE)])
    manifests = replace(read, profiles=tuple(assumed(profile, speed) for profile in read.profiles))
    services, rows = [], []
    for one in manifests.services:
        try:
            problem = planned(build_problem(one, manifests.types, manifests.profiles))
            services.append(planned_service(one, problem, manifests, "hetserve"))
        except NotPlannedError as error:
            rows.append({"service": one.metadata.name, "refused": error.reason})
    placed = place([wanted for one in services for wanted in one.instances], nodes())
    assert all(one.reason is None for one in placed), "the plans find room by memory"
    apart = together(services, [replace(one, node=None, gpu=None) for one in placed], effort)
    percents, shared = compute_by_gpu(placed), together(services, placed, effort)
    return rows + [{**_row(one, percents), "alone": _late(other)} for one, other in zip(shared, apart, strict=True)]


def assumed(profile: ModelProfile, speed: float) -> ModelProfile:
    """With the model's share and factors; on a T4 with the sample's latencies / speed."""
    spec = profile.spec
    entries = [
        InterferenceEntry(model=other, batch=LARGEST[other], factor=f"{factor(spec.model, other):.6f}")
        for other in MODELS
    ]
    update: Json = {
        "compute_share": f"{SHARES[spec.model]:g}",
        "sharing_mode": SHARING_MODES[0],
        "interference": entries,
    }
    if spec.instance_type == T4 and speed != 1:
        rows = [
            row.model_copy(update={"mean": _text(row.mean, speed), "p99": _text(row.p99, speed)})
            for row in spec.latency.table or ()
        ]
        update["latency"] = spec.latency.model_copy(update={"table": rows})
    return profile.model_copy(update={"spec": spec.model_copy(update=update)})


def _text(duration: str | None, speed: float) -> str | None:
    return None if duration is None else f"{parse_duration(duration) / speed * 1e6:.0f}us"


def nodes() -> list[RawNode]:
    """4 nodes with 2 GPUs of each type."""
    return [_node(f"{kind}-{k}", kind) for kind in _GPUS for k in range(4)]


def _node(name: str, kind: str) -> RawNode:
    product, memory = _GPUS[kind]
    gpu = {"product": product, "count": "2", "memory": str(memory)}
    labels = {"node.kubernetes.io/instance-type": kind, **{f"nvidia.com/gpu.{key}": text for key, text in gpu.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name, "labels": labels}}


def compute_by_gpu(placed: Sequence[PlacedInstance]) -> dict[str, int]:
    """Percent of compute that the rule would book, by GPU."""
    found: dict[str, int] = defaultdict(int)
    for one in placed:
        model = one.wanted.model
        found[one.place] += booked(SHARES[model], max(factor(model, other) for other in MODELS)).percent
    return found


def _late(played: PlayedService) -> float:
    return max(report.violation_ratio for report in played.reports)


def _row(played: PlayedService, percents: dict[str, int]) -> Json:
    reports = played.reports
    return {
        "service": played.planned.service.metadata.name,
        "counts": dict(played.planned.counts),
        "rate": played.planned.rate,
        "holds": played.holds,
        "late": _late(played),
        "grows": any(report.unstable for report in reports),
        "mean": max(report.stretch.mean for report in reports),
        "most": max(report.stretch.most for report in reports),
        "percent": max(percents[one.place] for one in played.instances),
    }


def describe(data: Json) -> str:
    rows = data["speeds"]["1"]
    head = ("service", "the plan", "says", "late alone", "late", "stretch, mean", "most", "compute booked", "")
    shares = ", ".join(f"{model} {share:g}" for model, share in SHARES.items())
    counted = [
        (f"T4s at {speed} x the sample's speed", "", _broken(found), None)
        for speed, found in data["speeds"].items()
        if speed != "1"
    ]
    broken = any(not row.get("holds", True) for row in rows)
    return "\n".join(
        [
            _WORDS.format(shares=shares, sigma=SIGMA),
            table(head, map(_line, rows)),
            goals([("before, services break their SLO", "some", _broken(rows), broken), *counted]),
        ]
    )


def _line(row: Json) -> tuple[object, ...]:
    if "refused" in row:
        return (row["service"], f"none: {row['refused']}", *[""] * 7)
    late = f"{row['late']:.1%}" + (", backlog grows" if row["grows"] else "")
    counts = ", ".join(f"{count} {name.removeprefix('hetsev-')}" for name, count in row["counts"].items() if count)
    held = "holds" if row["holds"] else "**breaks**"
    figures = (f"{row['alone']:.1%}", late, f"{row['mean']:.2f}", f"{row['most']:.2f}", f"{row['percent']} %")
    return (row["service"], counts, f"carries {row['rate']:g} q/s", *figures, held)


def _broken(rows: Sequence[Json]) -> str:
    some = [row for row in rows if "refused" not in row]
    refused = len(rows) - len(some)
    worst = max((row["late"] for row in some), default=0.0)
    broken = sum(not row["holds"] for row in some)
    return f"{broken} of {len(some)} break; late up to {worst:.0%}" + (f"; {refused} not planned" if refused else "")
