"""The demo's four services before compute was booked and now: planned, placed, and played together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from benchmarks.placement.results import REPOSITORY
from benchmarks.reporting import Json, table
from benchmarks.sharing.bookings import SIGMA
from benchmarks.sharing.results import goals
from benchmarks.sharing.tenants import MODELS, SHARES
from benchmarks.sharing.ways import BEFORE, NOW, Way

from hetserve.api.manifests import Manifests, read_manifests
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Millionths, format_money, parse_duration, parse_ratio
from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.services import NotPlannedError
from hetserve.cli.capacity.together.places import PlacedInstance, RawNode, place
from hetserve.cli.capacity.together.play import PlannedService, PlayedService, together
from hetserve.profiles.sharing import ONE, compute_booking, compute_share

TITLE: Final = "The demo before and after"
SAMPLE: Final = REPOSITORY / "manifests" / "samples" / "hetsev.yaml"
T4: Final = "hetsev-t4"
SCALES: Final = (0.8, 1.2)
_GPUS: Final = {"hetsev-v100": ("Tesla-V100-PCIE-32GB", 32768), T4: ("Tesla-T4", 15360)}
_NODES: Final = {"before": 4, "now": 10}
"""With two T4s each."""
_WAYS: Final = {"before": BEFORE, "now": NOW}
_SEEDS: Final = (11, 12, 13)
_WORDS: Final = """`manifests/samples/hetsev.yaml`, the same loads and latencies both times; placed by the extender's
decisions, all loads played at once. Before: planned by the times of a model alone on its GPU, placed by memory alone,
on HetSev's 4 nodes x 2 V100 and 4 x 2 T4. Now: service times x sigma, compute booked, 4 x 2 V100 and 10 x 2 T4.
Shares (u {shares})
and factors are the sample's: assumptions.
Late: of three seeds the worst; allowed are 2 %. Alone: the same instances, each with a GPU of its own. Booked: by the
rule at sigma {sigma}, on the fullest GPU that the service is on; 100 % is the most.
"""


def measure(quick: bool) -> Json:
    effort = SimulationEffort(3_000 if quick else 8_000, _SEEDS, 1)
    found: Json = {name: played(name, effort) for name in _WAYS}
    found["roomy"] = played("before", effort, t4_nodes=_NODES["now"])
    found["speeds"] = {f"{s:g}": {name: played(name, effort, speed=s) for name in _WAYS} for s in SCALES}
    found["harm"] = {f"{s:g}": played("now", effort, harm=s) for s in SCALES}
    return found


def played(
    name: str, effort: SimulationEffort, *, speed: float = 1.0, harm: float = 1.0, t4_nodes: int | None = None
) -> list[Json]:
    """A row per service.

    speed: of T4s over the sample's. harm: on each factor - 1 in what is played, not in plans. t4_nodes: default: the
    way's own number.
    """
    read = read_manifests([str(SAMPLE)])
    manifests = replace(read, profiles=tuple(at_speed(profile, speed) for profile in read.profiles))
    services, rows = _planned(_WAYS[name], manifests)
    placed = place([wanted for one in services for wanted in one.instances], nodes(t4_nodes or _NODES[name]))
    percents = booked_by_gpu(services, placed)
    services = [_with_harm(one, harm) for one in services]
    apart = together(services, [replace(one, node=None, gpu=None, reason=None) for one in placed], effort)
    shared = together(services, placed, effort)
    return rows + [{**_row(one, percents), "alone": _late(other)} for one, other in zip(shared, apart, strict=True)]


def _planned(way: Way, manifests: Manifests) -> tuple[list[PlannedService], list[Json]]:
    """Services with a plan, and a row for each without one."""
    services, refused = list[PlannedService](), list[Json]()
    for one in manifests.services:
        try:
            services.append(way.planned(one, manifests))
        except NotPlannedError as error:
            refused.append({"service": one.metadata.name, "refused": error.reason})
    return services, refused


def at_speed(profile: ModelProfile, speed: float) -> ModelProfile:
    """On a T4 with the sample's latencies / speed."""
    spec = profile.spec
    if spec.instance_type != T4 or speed == 1:
        return profile
    rows = [
        row.model_copy(update={"mean": _slower(row.mean, speed), "p99": _slower(row.p99, speed)})
        for row in spec.latencies[""].table or ()
    ]
    latency = spec.latencies[""].model_copy(update={"table": rows})
    return profile.model_copy(update={"spec": spec.model_copy(update={"latency": latency})})


def _slower(duration: str | None, speed: float) -> str | None:
    return None if duration is None else f"{parse_duration(duration) / speed * 1e6:.0f}us"


def _with_harm(one: PlannedService, scale: float) -> PlannedService:
    offers = {name: replace(offer, profile=with_harm(offer.profile, scale)) for name, offer in one.offers.items()}
    return replace(one, offers=offers)


def with_harm(profile: ModelProfile, scale: float) -> ModelProfile:
    """With every factor - 1 scaled."""
    entries = [
        entry.model_copy(update={"factor": f"{1 + scale * (parse_ratio(entry.factor) / ONE - 1):.6f}"})
        for entry in profile.spec.interference or ()
    ]
    return profile.model_copy(update={"spec": profile.spec.model_copy(update={"interference": entries})})


def nodes(t4_nodes: int) -> list[RawNode]:
    """2 GPUs each: 4 nodes with V100s, and as many with T4s as given."""
    return [_node(f"{kind}-{k:02d}", kind) for kind in _GPUS for k in range(t4_nodes if kind == T4 else 4)]


def _node(name: str, kind: str) -> RawNode:
    product, memory = _GPUS[kind]
    gpu = {"product": product, "count": "2", "memory": str(memory)}
    labels = {"node.kubernetes.io/instance-type": kind, **{f"nvidia.com/gpu.{key}": text for key, text in gpu.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name, "labels": labels}}


def booked_by_gpu(services: Sequence[PlannedService], placed: Sequence[PlacedInstance]) -> dict[str, int]:
    """Percent of compute that the rule books, or would book, by GPU."""
    profiles = {(one.name, kind): offer.profile for one in services for kind, offer in one.offers.items()}
    found: dict[str, int] = defaultdict(int)
    for one in placed:
        share = compute_share(profiles[one.wanted.owner.name, one.wanted.type].spec)
        assert share is not None, "every profile of the sample has a share"
        found[one.place] += compute_booking(share.share, share.greatest_factor, Millionths(round(SIGMA * ONE)))
    return found


def _late(played_: PlayedService) -> float:
    return max(report.violation_ratio for report in played_.reports)


def _row(played_: PlayedService, percents: Mapping[str, int]) -> Json:
    reports, one = played_.reports, played_.planned
    return {
        "service": one.service.metadata.name,
        "counts": dict(one.counts),
        "cost": sum(one.offers[kind].price * count for kind, count in one.counts.items()),
        "rate": one.rate,
        "placed": played_.placed,
        "holds": played_.holds,
        "late": _late(played_),
        "grows": any(report.unstable for report in reports),
        "mean": max(report.stretch.mean for report in reports),
        "most": max(report.stretch.most for report in reports),
        "percent": max(percents[each.place] for each in played_.instances),
    }


def describe(data: Json) -> str:
    shares = ", ".join(f"{SHARES[model]:g} {model}" for model in MODELS)
    before, now = data["before"], data["now"]
    rows: list[tuple[str, str, str, bool | None]] = [
        ("before, services break their SLO", "some", _broken(before), _breaks(before)),
        ("now, services hold their SLO together", "all", _broken(now), not _breaks(now)),
        ("now, greatest stretch that a query met", f"<= {SIGMA}", f"{_most(now):.3f}", _most(now) <= SIGMA + 1e-9),
    ]
    rows.append(("before, on the nodes of now", "", _broken(data["roomy"]), None))
    for speed, found in data["speeds"].items():
        rows += [(f"T4s at {speed} x the sample's speed, {name}", "", _broken(found[name]), None) for name in found]
    rows += [(f"now, played with every c x {scale}", "", _broken(found), None) for scale, found in data["harm"].items()]
    return "\n".join(
        [
            _WORDS.format(shares=shares, sigma=SIGMA),
            table(_HEAD, [line for name in _WAYS for line in _lines(name, data[name])]),
            goals(rows),
        ]
    )


_HEAD: Final = ("", "service", "the plan", "$/h", "says", "late alone", "late", "stretch, mean", "most", "booked", "")


def _lines(name: str, rows: Sequence[Json]) -> list[tuple[object, ...]]:
    return [(name, *_line(row)) for row in rows]


def _line(row: Json) -> tuple[object, ...]:
    if "refused" in row:
        return (row["service"], f"none: {row['refused']}", *[""] * 8)
    late = f"{row['late']:.1%}" + (", backlog grows" if row["grows"] else "")
    counts = ", ".join(f"{count} {name.removeprefix('hetsev-')}" for name, count in row["counts"].items() if count)
    held = "holds" if row["holds"] else "**breaks**" if row["placed"] else "**not placed whole**"
    figures = (f"{row['alone']:.1%}", late, f"{row['mean']:.2f}", f"{row['most']:.2f}", f"{row['percent']} %")
    return (row["service"], counts, format_money(row["cost"]), f"carries {row['rate']:g} q/s", *figures, held)


def _breaks(rows: Sequence[Json]) -> bool:
    """Whether a service without a plan is there, or one that breaks its SLO."""
    return any(not row.get("holds", False) for row in rows)


def _most(rows: Sequence[Json]) -> float:
    return max((row["most"] for row in rows if "most" in row), default=1.0)


def _broken(rows: Sequence[Json]) -> str:
    some = [row for row in rows if "refused" not in row]
    refused = len(rows) - len(some)
    worst = max((row["late"] for row in some), default=0.0)
    broken = sum(not row["holds"] for row in some)
    text = f"{broken} of {len(some)} break; late up to {worst:.2%}"
    return text + (f"; {refused} not planned" if refused else "")
