"""What the model of sharing says of four models on a real GPU, beside what they did there."""

from __future__ import annotations

import gzip
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args

import benchmarks.gpu
from benchmarks.reporting import Json, table
from benchmarks.sharing.results import goals

from hetserve.base.units import Millionths
from hetserve.objects import gpu_sharing
from hetserve.objects.gpu_sharing import ONE, SharingTerms, tolerate
from hetserve.profiles.measurements import Run, read_measurements
from hetserve.profiles.sharing_fit import Estimate, fit_sharing, ratio_of_means
from hetserve.registry.choices import SharingMode

TITLE: Final = "A real GPU"
FOLDER: Final = Path(benchmarks.gpu.__file__).parent / "h200"
TYPE: Final = "h200"
SIGMAS: Final = (1.25, 1.75, 2.0, 3.0, 5.0)
SCANNED: Final = tuple(hundredths / 100 for hundredths in range(101, 601))
_WORDS: Final = """Measured on an {name} (driver {driver_version}) by
`python3 -m benchmarks.gpu.measure --instance h200 --seconds 1.2 --out FOLDER`: PyTorch, half precision, the kernels of
a query launched together (a CUDA graph), inputs and answers in the host's memory. Four models as large as ResNet-50,
BERT-base, DLRM and a decoder of 1.2 billion weights, each with a small and a large batch: eight tenants. Each run is
1.2 s of one to four servers that are always busy. `hetserve profile fit` sees what is alone, copies and pairs; **no fit
sees the sets of three and four**. The runs are kept in `benchmarks/gpu/h200`: this part needs no GPU.

Slow-downs are of mean latencies: of sets only means were kept. Each is over what the tenant takes alone in the same
mode; under MPS small queries take longer alone. A bound is max(sum of shares, 1 + sum of (factor - 1)),
by the factors between just these batches: by their middles, and by the upper ends of their intervals, which
profiles state. Above a ratio of 1 the model promised too much. Shares end at 1: copies that finish less together
than one alone show as 1, too.
"""
_APART: Final = """
HetSev's Figure 3 shows that a copy slows a model more than another model does. On this GPU it is as often the other way
round: compared are a tenant beside each batch of another model and the same tenant beside its own copy, all always
busy. What decides is how long the neighbour's queries take, hardly whose model it is. Copies stay apart by default all
the same. Copies on one GPU fail together. And HetSev measured other GPUs (V100 and T4) and model servers.
"""
_RULE: Final = """
Which pairs of different models, and which sets, the product lets onto one GPU where all tolerate a slow-down of sigma,
by the stated shares and factors of pairs; and how many of them stayed within sigma when they ran. The factors are of
the pairs, which can therefore hardly break the rule; sets can. Lost: refused, though all stayed within. Always busy is
the worst that tenants can do to each other.
"""
_SCAN: Final = """
{mode}: of the sigmas from 1.01 to 6.00, in steps of 0.01, {first}. {broken}
"""
Tenant = tuple[str, int]


@dataclass(frozen=True)
class Measured:
    """share, factors: as a fit states them, by tenant, and by (who does it, to whom). together: slow-downs of runs.

    alone: mean latency [ms]. copied: mean latency beside one copy / alone.
    """

    share: Mapping[Tenant, Millionths]
    factors: Mapping[tuple[Tenant, Tenant], Millionths]
    middles: Mapping[tuple[Tenant, Tenant], float]
    together: Sequence[Mapping[Tenant, float]]
    alone: Mapping[Tenant, float] = field(default_factory=dict)
    copied: Mapping[Tenant, float] = field(default_factory=dict)

    def bound(self, members: Iterable[Tenant], of: Tenant, *, stated: bool = False) -> float:
        """Greatest slow-down of one among members, as the model has it. stated: by the ends of intervals."""
        mine = [one for one in members if one != of]
        shares = sum(self.share[one] for one in (of, *mine)) / ONE
        factors = [self.factors[one, of] / ONE if stated else self.middles[one, of] for one in mine]
        return max(shares, 1 + sum(factor - 1 for factor in factors))

    def on_terms(self, tenant: Tenant, sigma: Millionths) -> gpu_sharing.Tenant:
        """As a pod that tolerates sigma; each tenant counts as a model of its own."""
        named = {label(other): Millionths(f - ONE) for (by, other), f in self.factors.items() if by == tenant}
        most = max(named.values(), default=Millionths(0))
        terms = SharingTerms(self.share[tenant], sigma, most, tuple(sorted(named.items())))
        return gpu_sharing.Tenant("", label(tenant), terms)


def label(tenant: Tenant) -> str:
    return f"{tenant[0]}-{tenant[1]}"


def read(mode: SharingMode, folder: Path = FOLDER) -> Measured:
    """What was measured in a mode."""
    text = gzip.decompress((folder / f"runs-{mode}.csv.gz").read_bytes()).decode()
    sets = json.loads((folder / f"sets-{mode}.json").read_text(encoding="utf-8"))["sets"]
    models = sorted({member["model"] for one in sets for member in one["members"]})
    share: dict[Tenant, Millionths] = {}
    factors: dict[tuple[Tenant, Tenant], Millionths] = {}
    middles: dict[tuple[Tenant, Tenant], float] = {}
    alone: dict[Tenant, float] = {}
    copied: dict[Tenant, float] = {}
    for model in models:
        found = read_measurements(text, str(folder), model, TYPE)
        alone |= {(model, batch): 1000 * statistics.fmean(own) for batch, own in found.alone.by_batch.items()}
        for batch in sorted({run.batch for run in found.runs if run.copies > 1}):
            share[model, batch] = fit_sharing(found, mode, batch).share.stated
            copied[model, batch] = ratio_of_means(found.runs[Run(model, batch, 2)], found.runs[Run(model, batch)]).value
        for pair, factor in _pairs(model, found.runs):
            middles[pair] = factor.value
            factors[pair] = Millionths(max(ONE, 100 * math.ceil(10_000 * factor.high)))
    seen = [{_tenant(one): one["mean_ms"] / alone[_tenant(one)] for one in run["members"]} for run in sets]
    return Measured(share, factors, middles, [*_pairs_together(middles), *seen], alone, copied)


def _pairs(model: str, runs: Mapping[Run, tuple[float, ...]]) -> Iterator[tuple[tuple[Tenant, Tenant], Estimate]]:
    """What a model did to each other: (who does it, to whom), latency beside it / alone."""
    for run, own in runs.items():
        if run.neighbour:
            factor = ratio_of_means(own, runs[Run(run.model, run.batch)])
            yield ((model, run.neighbour_batch), (run.model, run.batch)), factor


def _pairs_together(middles: Mapping[tuple[Tenant, Tenant], float]) -> Iterator[dict[Tenant, float]]:
    for one, other in middles:
        if one < other:
            yield {one: middles[other, one], other: middles[one, other]}


def _tenant(member: Json) -> Tenant:
    return str(member["model"]), int(member["batch"])


def measure(quick: bool) -> Json:  # noqa: ARG001  nothing takes long
    """By mode: lines of shares, ratios of the sets, what each sigma lets in."""
    machine = json.loads((FOLDER / "machine.json").read_text(encoding="utf-8"))
    return {"gpu": machine["gpu"], "modes": {mode: _judged(read(mode)) for mode in get_args(SharingMode)}}


def _judged(measured: Measured) -> Json:
    sets = [run for run in measured.together if len(run) > 2]
    ratios = [
        {
            "of": list(tenant),
            "members": len(run),
            "middles": slow / measured.bound(run, tenant),
            "stated": slow / measured.bound(run, tenant, stated=True),
        }
        for run in sets
        for tenant, slow in run.items()
    ]
    shares = {f"{model} {batch}": share / ONE for (model, batch), share in sorted(measured.share.items())}
    scan, others = [at(measured, sigma) for sigma in SCANNED], beside_others(measured)
    return {
        "shares": shares,
        "sets": len(sets),
        "ratios": ratios,
        "others": {
            length: [sum(more), len(more)]
            for length, is_short in (("no longer", True), ("longer", False))
            for more in [[slower for slower, short in others if short is is_short]]
        },
        "rule": [at(measured, one) for one in SIGMAS],
        "first": next((one["sigma"] for one in scan if one["pairs"] + one["sets"]), None),
        "broken": [
            [one["sigma"], one["worst"]] for one in scan if one["worst"] is not None and one["worst"] > one["sigma"]
        ],
    }


def beside_others(measured: Measured) -> list[tuple[bool, bool]]:
    """Of each tenant beside another model: whether that slows it more than its own copy, and has no longer queries."""
    return [
        (factor > measured.copied[whom], measured.alone[by] <= measured.alone[whom])
        for (by, whom), factor in sorted(measured.middles.items())
    ]


def at(measured: Measured, sigma: float) -> Json:
    """What the rule lets in and refuses where all tolerate sigma, and what came of it."""
    terms = {tenant: measured.on_terms(tenant, Millionths(round(sigma * ONE))) for tenant in measured.share}
    most = [(len(run) > 2, max(run.values()), tolerate([terms[one] for one in run])) for run in measured.together]
    pairs = [worst for is_set, worst, fits in most if fits and not is_set]
    sets = [worst for is_set, worst, fits in most if fits and is_set]
    return {
        "sigma": sigma,
        "pairs": len(pairs),
        "pairs_kept": sum(worst <= sigma for worst in pairs),
        "sets": len(sets),
        "sets_kept": sum(worst <= sigma for worst in sets),
        "worst": max((*pairs, *sets), default=None),
        "lost": sum(worst <= sigma for _, worst, fits in most if not fits),
    }


def describe(data: Json) -> str:
    words = _WORDS.format(**data["gpu"])
    modes = data["modes"]
    names = list(next(iter(modes.values()))["shares"])
    shares = table(("share while serving, stated", *names), _share_rows(modes, names))
    rows = [row for mode, found in modes.items() for row in _ratio_rows(mode, found)]
    apart = [row for mode, found in modes.items() for row in _other_rows(mode, found)]
    rule = [_rule_row(mode, one) for mode, found in modes.items() for one in found["rule"]]
    head = ("mode", "sigma", "pairs let in", "within", "sets let in", "within", "the worst", "lost")
    scans = [_scanned(mode, found) for mode, found in modes.items()]
    return "\n".join((words, shares, goals(rows) + _APART, goals(apart) + _RULE, table(head, rule) + "".join(scans)))


def _scanned(mode: str, found: Json) -> str:
    first, broken = found["first"], found["broken"]
    lets = "none lets any in" if first is None else f"{first:.2f} is the first that lets any in"
    if not broken:
        return _SCAN.format(mode=mode, first=lets, broken="None was broken.")
    (low, _), (high, _), most = broken[0], broken[-1], max(slow / sigma for sigma, slow in broken)
    words = f"{len(broken)} were broken, from {low:.2f} to {high:.2f}: by at most {most - 1:.0%}, in a set."
    return _SCAN.format(mode=mode, first=lets, broken=words)


def _share_rows(modes: Json, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for mode, found in modes.items():
        yield mode, *(f"{found['shares'][name]:.2f}" for name in names)


def _ratio_rows(mode: str, found: Json) -> Iterator[tuple[str, str, str, bool | None]]:
    for by, words in (("middles", "middles"), ("stated", "stated factors")):
        ratios = sorted(one[by] for one in found["ratios"])
        above = sum(ratio > 1 for ratio in ratios)
        worst = max(found["ratios"], key=lambda one: float(one[by]))
        who = f"{worst['of'][0]} at batch {worst['of'][1]}, one of {worst['members']}"
        yield (
            f"{mode}: measured slow-down / bound by {words}, {len(ratios)} tenants in {found['sets']} sets",
            "<= 1",
            f"{ratios[0]:.2f} to {ratios[-1]:.2f} ({who}), median {statistics.median(ratios):.2f}; {above} above 1",
            above == 0 if by == "stated" else None,
        )


def _other_rows(mode: str, found: Json) -> Iterator[tuple[str, str, str, bool | None]]:
    more, pairs = (sum(one) for one in zip(*found["others"].values(), strict=True))
    yield f"{mode}: another model slows a tenant more than its own copy", "", f"{more} of {pairs}", None
    for length, (of_these, all_) in found["others"].items():
        yield f"{mode}: of those whose queries alone take {length}", "", f"{of_these} of {all_}", None


def _rule_row(mode: str, one: Json) -> tuple[object, ...]:
    worst = "" if one["worst"] is None else f"{one['worst']:.2f}"
    return mode, one["sigma"], one["pairs"], one["pairs_kept"], one["sets"], one["sets_kept"], worst, one["lost"]
