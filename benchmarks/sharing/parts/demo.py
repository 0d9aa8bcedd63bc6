"""The demo's four services before compute was booked and now: planned, placed, and played together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from benchmarks.placement.results import REPOSITORY
from benchmarks.reporting import Json, table
from benchmarks.sharing.compared import PLACED, compared
from benchmarks.sharing.results import goals
from benchmarks.sharing.tenants import MODELS, SHARES
from benchmarks.sharing.ways import BEFORE, EXCLUSIVE, NOW, Way

from hetserve.api.manifests import Manifests, read_manifests
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Millionths, format_money, parse_duration, parse_ratio
from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.services import NotPlannedError
from hetserve.cli.capacity.together.places import PlacedInstance, RawNode, place
from hetserve.cli.capacity.together.play import PlannedService, PlayedService, together
from hetserve.objects.gpu_sharing import ONE, Tenant, slowdowns
from hetserve.profiles.sharing import compute_share

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
on HetSev's 4 nodes x 2 V100 and 4 x 2 T4. Now: on terms, 4 x 2 V100 and 10 x 2 T4.
Shares (u {shares})
and factors are the sample's: assumptions.
Late: of three seeds the worst; allowed are 2 %. Alone: the same instances, each with a GPU of its own. Bound: the
greatest slow-down by the rule, of all GPUs that the service is on.
"""
_ANY: Final = Millionths(10**12)
"""A tolerance above any slow-down."""
_GPU_WORDS: Final = """
Whole GPUs in the smallest cluster that takes all; exclusive: each instance has one of its own. T4s only: as many as
needed.
"""


def measure(quick: bool) -> Json:
    effort = SimulationEffort(3_000 if quick else 8_000, _SEEDS, 1)
    found: Json = {name: played(name, effort) for name in _WAYS}
    found["speeds"] = {f"{s:g}": played("now", effort, speed=s) for s in SCALES}
    found["harm"] = {f"{s:g}": played("now", effort, harm=s) for s in SCALES}
    read = read_manifests([str(SAMPLE)])
    found["gpus"] = {"as it is": _gpus(read), "T4s only": _gpus(only_t4(read))}
    return found


def _gpus(given: Manifests) -> Json:
    shared, alone = (_planned(way, given)[0] for way in (NOW, EXCLUSIVE))
    return compared(shared, alone, given.types) | {"planned": [len(shared), len(alone)]}


def only_t4(given: Manifests) -> Manifests:
    """As many as are needed."""
    types = [one for one in given.types if one.metadata.name == T4]
    free = [one.model_copy(update={"spec": one.spec.model_copy(update={"max_instances": None})}) for one in types]
    return replace(given, types=tuple(free), profiles=tuple(p for p in given.profiles if p.spec.instance_type == T4))


def played(name: str, effort: SimulationEffort, *, speed: float = 1.0, harm: float = 1.0) -> list[Json]:
    """A row per service.

    speed: of T4s over the sample's. harm: on each factor - 1 in what is played, not in plans.
    """
    read = read_manifests([str(SAMPLE)])
    manifests = replace(read, profiles=tuple(at_speed(profile, speed) for profile in read.profiles))
    services, rows = _planned(_WAYS[name], manifests)
    placed = place([wanted for one in services for wanted in one.instances], nodes(_NODES[name]))
    bounds = bounds_of(services, placed)
    services = [_with_harm(one, harm) for one in services]
    apart = together(services, [replace(one, node=None, gpu=None, reason=None) for one in placed], effort)
    shared = together(services, placed, effort)
    return rows + [
        _row(one) | {"alone": _late(other), "bound": bounds[one.planned.name]}
        for one, other in zip(shared, apart, strict=True)
    ]


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


def bounds_of(services: Sequence[PlannedService], placed: Sequence[PlacedInstance]) -> dict[str, float]:
    """The greatest slow-down that the rule has for instances of each service, whatever they tolerate."""
    profiles = {(one.name, kind): offer.profile for one in services for kind, offer in one.offers.items()}
    on: dict[str, list[PlacedInstance]] = defaultdict(list)
    for one in placed:
        on[one.place].append(one)
    found = {one.name: 1.0 for one in services}
    for here in on.values():
        tenants = [_tenant(one, profiles[one.wanted.owner.name, one.wanted.type]) for one in here]
        for one, slow in zip(here, slowdowns(tenants), strict=True):
            found[one.wanted.owner.name] = max(found[one.wanted.owner.name], slow / ONE)
    return found


def _tenant(one: PlacedInstance, profile: ModelProfile) -> Tenant:
    share = compute_share(profile.spec)
    assert share is not None, "every profile of the sample has a share"
    return Tenant(one.wanted.owner.namespace, one.wanted.owner.model, share.terms(_ANY))


def _late(played_: PlayedService) -> float:
    return max(report.violation_ratio for report in played_.reports)


def _row(played_: PlayedService) -> Json:
    reports, one = played_.reports, played_.planned
    return {
        "service": one.service.metadata.name,
        "counts": dict(one.counts),
        "cost": sum(one.offers[kind].price * count for kind, count in one.counts.items()),
        "rate": one.rate,
        "placed": played_.placed,
        "holds": played_.holds,
        "late": _late(played_),
        "grows": played_.backlog_grows,
        "mean": max(report.stretch.mean for report in reports),
        "most": max(report.stretch.most for report in reports),
    }


def describe(data: Json) -> str:
    shares = ", ".join(f"{SHARES[model]:g} {model}" for model in MODELS)
    before, now = data["before"], data["now"]
    bound = max((row["bound"] for row in now if "bound" in row), default=1.0)
    rows: list[tuple[str, str, str, bool | None]] = [
        ("before, services break their SLO", "some", _broken(before), _breaks(before)),
        ("now, services hold their SLO together", "all", _broken(now), not _breaks(now)),
        ("now, greatest stretch that a query met", f"<= {bound:.3f}", f"{_most(now):.3f}", _most(now) <= bound + 1e-9),
    ]
    rows += [
        (f"now, T4s at {speed} x the sample's speed", "", _broken(one), None) for speed, one in data["speeds"].items()
    ]
    rows += [(f"now, played with every c x {scale}", "", _broken(one), None) for scale, one in data["harm"].items()]
    head = ("GPUs", "exclusive", *(f"`{policy}`" for policy in PLACED), "fewest found", "break")
    return "\n".join(
        [
            _WORDS.format(shares=shares),
            table(_HEAD, [line for name in _WAYS for line in _lines(name, data[name])]),
            goals(rows) + _GPU_WORDS,
            table(head, [_gpu_line(name, one) for name, one in data["gpus"].items()]),
        ]
    )


def _gpu_line(name: str, one: Json) -> tuple[object, ...]:
    exclusive, least = one["exclusive"], one.get("fewest")
    needs = [f"{one['needs'][policy][0]}: {exclusive / one['needs'][policy][0]:.2f} x" for policy in PLACED]
    found = "" if least is None else f"{least}: {exclusive / least:.2f} x"
    return name, exclusive, *needs, found, sum(each["breaks"] for each in one["played"].values())


_HEAD: Final = ("", "service", "the plan", "$/h", "says", "late alone", "late", "stretch, mean", "most", "bound", "")


def _lines(name: str, rows: Sequence[Json]) -> list[tuple[object, ...]]:
    return [(name, *_line(row)) for row in rows]


def _line(row: Json) -> tuple[object, ...]:
    if "refused" in row:
        return (row["service"], f"none: {row['refused']}", *[""] * 8)
    late = f"{row['late']:.1%}" + (", backlog grows" if row["grows"] else "")
    counts = ", ".join(f"{count} {name.removeprefix('hetsev-')}" for name, count in row["counts"].items() if count)
    held = "holds" if row["holds"] else "**breaks**" if row["placed"] else "**not placed whole**"
    figures = (f"{row['alone']:.1%}", late, f"{row['mean']:.2f}", f"{row['most']:.2f}", f"{row['bound']:.2f}")
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
