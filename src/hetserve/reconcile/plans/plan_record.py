"""The recorded plan in status.plan, which survives restarts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hetserve.base.timestamps import timestamp, unix_seconds
from hetserve.base.units import (
    QPS,
    MicroDollarsPerHour,
    Millionths,
    Percent,
    format_money,
    format_ratio,
    parse_money,
    parse_ratio,
)
from hetserve.demand.mix import BatchMix
from hetserve.objects.gpu_sharing import SharingTerms, parse_terms, terms_text
from hetserve.planning.plan import Counts, Plan, Trial, read_counts, summary
from hetserve.planning.problem import Problem
from hetserve.profiles.sharing import WHOLE
from hetserve.scaling.plans.counts import nonzero

Json = dict[str, Any]
_LONG, _SHORT = 4096, 2048
MOST_LOAD: Final = 1e9
"""Queries/s, as of spec.load.expectedQPS."""


@dataclass(frozen=True, slots=True)
class RecordedGpus:
    """How instances of a plan have their GPUs, by type.

    terms: on which they share. booked: percent of compute, of a plan of before slow-downs were counted by pairs.
    exclusive: types with whole GPUs. mps: types whose terms were measured under MPS. A type in none of these declares
    no compute: a CPU type, one priced by the instance, or a plan of before it was booked.
    """

    terms: Mapping[str, SharingTerms] = field(default_factory=dict)
    booked: Mapping[str, Percent] = field(default_factory=dict)
    exclusive: frozenset[str] = frozenset()
    mps: frozenset[str] = frozenset()

    @property
    def declared(self) -> frozenset[str]:
        """Types of which the plan says how they have their GPUs."""
        return frozenset(self.terms) | frozenset(self.booked) | self.exclusive

    def entry(self, name: str, count: int) -> Json:
        """An entry of status.plan.counts."""
        entry: Json = {"instanceType": name, "count": count}
        if name in self.exclusive:
            return {**entry, "sharing": "Exclusive"}
        if name in self.terms:
            mode = {"sharingMode": "MPS"} if name in self.mps else {}
            shared = {"sharing": "Shared", "gpuCompute": WHOLE, "gpuSharing": terms_text(self.terms[name])}
            return {**entry, **shared, **mode}
        return {**entry, "sharing": "Shared", "gpuCompute": self.booked[name]} if name in self.booked else entry


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A plan in force. raw: status.plan as stored; counts: types with instances; cost, tried, gpus: as recorded.

    load: queries/s of measured load that it was made for; None: of declared load. mix: the same of batch sizes.
    mix_since: from when on a service that follows its load is planned by it [Unix seconds]. provisional: a plan of
    trials is still to come. max_slowdown: sigma that it was made at; None: the tolerances of its types say it.
    """

    raw: Json
    counts: Counts
    inputs: str
    qps: str
    verdict: str
    cost: MicroDollarsPerHour
    tried: bool | None = None
    gpus: RecordedGpus = field(default_factory=RecordedGpus)
    load: QPS | None = None
    mix: BatchMix | None = None
    mix_since: float | None = None
    provisional: bool = False
    max_slowdown: Millionths | None = None

    def as_final(self) -> PlanRecord:
        """The same, no longer provisional: trials have answered, or none will."""
        raw = {key: value for key, value in self.raw.items() if key != "provisional"}
        return replace(self, raw=raw, provisional=False)

    def sharing(self, gpus: RecordedGpus) -> PlanRecord:
        """The same counts, whose instances have their GPUs otherwise."""
        return replace(self, raw={**self.raw, "counts": [gpus.entry(*one) for one in self.counts]}, gpus=gpus)

    @property
    def nonzero(self) -> dict[str, int]:
        return dict(self.counts)

    @property
    def total(self) -> int:
        """Instances of all types together."""
        return sum(count for _, count in self.counts)

    @property
    def described(self) -> str:
        """One line for people: counts, price, figure, planner, and the runner-up."""
        raw = self.raw
        line = f"{raw['summary']} at {raw['hourlyCost']} $/h for {raw['qps']} q/s ({raw['planner']})"
        yet = "provisional, not tried in simulation yet" if self.provisional else "not tried in simulation"
        line = f"{line}; {yet}" if self.tried is False else line
        return line if not raw.get("runnerUp") else f"{line}; runner-up: {raw['runnerUp']}"


def plan_record(plan: Plan, inputs: str, gpus: RecordedGpus) -> PlanRecord:
    """Record of a feasible plan; inputs: digest of the problem. gpus: how its instances have them."""
    qps = f"{(plan.qps or 0.0) if plan.held_qps is None else plan.held_qps:.1f}"
    verdict = plan.verdict or plan.message
    record = record_of_counts(
        plan.counts, plan.cost, inputs, gpus, qps=qps, planner=plan.planner, verdict=verdict, tried=plan.tried
    )
    raw = record.raw
    if plan.provisional:
        raw["provisional"] = True
    if plan.runner_up is not None:
        rival = plan.runner_up
        text = f"{summary(rival.counts)} at {format_money(rival.cost)} $/h for {rival.qps:.1f} q/s"
        raw["runnerUp"] = f"{text}: {plan.why_not_runner_up}"[:_SHORT] if plan.why_not_runner_up else text[:_SHORT]
    return _parsed(raw)


def record_of_counts(
    counts: Counts,
    cost: MicroDollarsPerHour,
    inputs: str,
    gpus: RecordedGpus,
    *,
    qps: str,
    planner: str,
    verdict: str,
    tried: bool | None = False,
) -> PlanRecord:
    """Record of counts that are in force for whatever reason. Arguments as above; qps: queries/s that they hold."""
    held = nonzero(counts)
    raw: Json = {
        "counts": [gpus.entry(name, n) for name, n in held],
        "summary": summary(held)[:_SHORT],
        "hourlyCost": format_money(cost),
        "qps": qps,
        "planner": planner,
        "verdict": verdict[:_LONG],
        "inputs": inputs,
        **({} if tried is None else {"tried": tried}),
    }
    return _parsed(raw)


def with_sigma(record: PlanRecord, sigma: Millionths) -> PlanRecord:
    """The record of a plan that was made at this sigma, which it states where a type tolerates something else."""
    if all(terms.tolerance == sigma for terms in record.gpus.terms.values()):
        return record
    return replace(record, raw={**record.raw, "maxSlowdown": format_ratio(sigma)}, max_slowdown=sigma)


def with_load(record: PlanRecord, load: QPS | None) -> PlanRecord:
    """The record of a plan for a measured load [queries/s]."""
    raw = {key: value for key, value in record.raw.items() if key != "load"}
    return replace(record, raw=raw if load is None else {**raw, "load": f"{load:.6g}"}, load=load)


def with_mix(record: PlanRecord, mix: BatchMix | None, since: float | None = None) -> PlanRecord:
    """The record of a plan for a measured mix, in millionths. since: of `PlanRecord.mix_since`, whole seconds."""
    if mix is not None and (record.mix, record.mix_since) == (mix, since):
        return record
    raw = {key: value for key, value in record.raw.items() if key not in ("mix", "mixSince")}
    if mix is None:
        return replace(record, raw=raw, mix=None, mix_since=None)
    sizes = zip(mix.batches, mix.shares, strict=True)
    raw["mix"] = [{"batch": b, "share": f"{share:.6g}"} for b, share in sizes]
    if since is not None:
        raw["mixSince"] = timestamp(since)
    return replace(record, raw=raw, mix=mix, mix_since=since)


def kept_record(
    record: PlanRecord, trial: Trial, problem: Problem, inputs: str, cost: MicroDollarsPerHour, *, gpus: RecordedGpus
) -> PlanRecord:
    """Record of counts that a trial has judged for a problem and that are kept; inputs, gpus: as of `plan_record`."""
    rate, what = (trial.held, "holds") if problem.objective == "MaxThroughput" else (problem.load, "carries")
    tried = (trial.held, trial.holds) != (None, None)
    qps = f"{rate:.1f}" if tried and rate is not None else record.qps
    verdict = f"{what} {qps} q/s in simulation" if tried else "more instances than a simulation can try"
    verdict += "; kept, as no other plan is better by enough to move instances"
    planner = str(record.raw["planner"])
    return record_of_counts(record.counts, cost, inputs, gpus, qps=qps, planner=planner, verdict=verdict, tried=tried)


def read_record(service: Mapping[str, Any]) -> PlanRecord | None:
    """Plan in the status of a raw service; None if there is none or it is invalid."""
    status = service.get("status")
    raw = status.get("plan") if isinstance(status, Mapping) else None
    if not isinstance(raw, Mapping):
        return None
    try:
        return _parsed(dict(raw))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _parsed(raw: Json) -> PlanRecord:
    """Raises AttributeError, KeyError, TypeError or ValueError for what is no record."""
    counts = nonzero(read_counts(raw["counts"]))
    texts = {key: str(raw[key]) for key in ("summary", "hourlyCost", "qps", "planner", "inputs")}
    load = None if raw.get("load") is None else QPS(float(raw["load"]))
    sizes = [(int(one["batch"]), float(one["share"])) for one in raw.get("mix") or ()]
    if load is not None and not 0 <= load <= MOST_LOAD:
        raise ValueError(f"{load} is no load")
    if not math.isfinite(float(texts["qps"])) or summary(counts)[:_SHORT] != texts["summary"]:
        raise ValueError("the figures contradict each other")
    since = raw.get("mixSince") if sizes else None
    return PlanRecord(
        raw,
        counts,
        texts["inputs"],
        texts["qps"],
        str(raw.get("verdict") or ""),
        parse_money(texts["hourlyCost"]),
        raw.get("tried") if isinstance(raw.get("tried"), bool) else None,
        _read_gpus(raw["counts"]),
        load,
        BatchMix.of(sizes).rounded if sizes else None,
        None if since is None else unix_seconds(str(since)),
        raw.get("provisional") is True,
        None if raw.get("maxSlowdown") is None else parse_ratio(str(raw["maxSlowdown"])),
    )


def _read_gpus(counts: Iterable[Mapping[str, Any]]) -> RecordedGpus:
    """Raises ValueError for a booking outside of 1 to 100, and for terms that cannot be read."""
    named = [(str(entry["instanceType"]), entry) for entry in counts]
    booked = {name: int(e["gpuCompute"]) for name, e in named if e.get("gpuCompute") is not None}
    if any(not 0 < compute <= WHOLE for compute in booked.values()):
        raise ValueError(f"gpuCompute: {booked} must be 1 to 100")
    terms = {name: parse_terms(str(e["gpuSharing"])) for name, e in named if e.get("gpuSharing") is not None}
    return RecordedGpus(
        terms,
        {name: Percent(compute) for name, compute in booked.items() if name not in terms},
        frozenset(name for name, e in named if e.get("sharing") == "Exclusive"),
        frozenset(name for name, e in named if e.get("sharingMode") == "MPS"),
    )
