"""The figures of a play: what users got, and what was paid, by the paper's accounting and by whole GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from benchmarks.hetsev.played import Instance, Played, Queries
from benchmarks.hetsev.policy import STEP
from benchmarks.reporting import Json

from hetserve.dispatch.kernel import Floats

_HOUR: Final = 3600.0
_MIB_PER_GIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the measured time.

    throughput: answered queries/s. response, response_p98: mean and percentile of all [s]; nan: none is answered.
    attainment: share of the
    queries sent that were in time; by_model: of each model. gpu_use: share, mean over all GPUs. instances: mean number.
    gpu_hours: of whole GPUs in use, by type. dollars: what these cost, whole. paper: GiB x normalized price x seconds,
    of instances that share for their own memory, else for the GPU's; paper_by_model: of each model.
    """

    sent: int
    throughput: float
    response: float
    response_p98: float
    attainment: float
    by_model: Mapping[str, float]
    gpu_use: float
    instances: float
    gpu_hours: Mapping[str, float]
    dollars: float
    paper: float
    paper_by_model: Mapping[str, float]

    @property
    def all_gpu_hours(self) -> float:
        return sum(self.gpu_hours.values())

    def as_json(self) -> Json:
        return {**asdict(self), "all_gpu_hours": self.all_gpu_hours}


def figures(played: Played) -> Figures:
    """Of a play. Queries count that were sent in [0, end), and are late where they have no answer."""
    end, assumed = played.scene.workload.end, played.scene.assumed
    sent = {model: queries.during(0.0, end) for model, queries in played.queries.items()}
    every = Queries.joined(list(sent.values()))
    answered = sum(int(np.count_nonzero((q.finish >= 0) & (q.finish < end))) for q in played.queries.values())
    hours = {name: whole_gpu_seconds(played, name) / _HOUR for name in assumed.gpus}
    paper = {model: _paper(played, model) for model in played.scene.models}
    response = every.response[~np.isnan(every.finish)]
    measured = (played.times > 0) & (played.times <= end)
    return Figures(
        sent=len(every.arrival),
        throughput=answered / end,
        response=float(response.mean()) if len(response) else math.nan,
        response_p98=float(np.percentile(response, assumed.percentile)) if len(response) else math.nan,
        attainment=_attainment(every),
        by_model={model: _attainment(queries) for model, queries in sent.items()},
        gpu_use=float(played.used[measured].mean() / STEP / len(played.scene.gpus)),
        instances=sum(_lived(one, end) for one in played.instances) / end,
        gpu_hours=hours,
        dollars=sum(hours[name] * assumed.price(name) / 1e6 for name in hours),
        paper=sum(paper.values()),
        paper_by_model=paper,
    )


def _attainment(queries: Queries) -> float:
    return float(1 - queries.late.mean()) if len(queries.late) else math.nan


def whole_gpu_seconds(played: Played, type_name: str) -> float:
    """Seconds for which GPUs of a type held an instance, each counted once however many there were."""
    held: dict[str, list[tuple[float, float]]] = {}
    for one in played.instances:
        if one.type == type_name:
            held.setdefault(one.gpu, []).append(_span(one, played.scene.workload.end))
    return sum(_union(spans) for spans in held.values())


def _union(spans: Iterable[tuple[float, float]]) -> float:
    """Length of what spans cover together."""
    total, reached = 0.0, 0.0
    for begin, end in sorted(spans):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total


def _paper(played: Played, model: str) -> float:
    """Cost of a model's instances by the paper's accounting (section 6.3)."""
    scene, total = played.scene, 0.0
    for one in played.instances:
        if one.service == model:
            gpu = scene.assumed.gpus[one.type]
            mib = scene.assumed.models[model].memory_mib if played.shares else gpu.memory_mib
            total += gpu.price_per_gib * mib / _MIB_PER_GIB * _lived(one, scene.workload.end)
    return total


def _lived(one: Instance, end: float) -> float:
    begin, gone = _span(one, end)
    return max(gone - begin, 0.0)


def _span(one: Instance, end: float) -> tuple[float, float]:
    """When an instance held its GPU in the measured time: from its launch on [s]."""
    return max(one.launched, 0.0), min(one.gone, end)


@dataclass(frozen=True, slots=True)
class Courses:
    """Over the measured time, by STEP: times at the ends [s], all models together, or by model.

    answered: queries/s. response: mean of those that were answered [s], nan: none. gpu_use: share. instances: present.
    late: share of those that were answered.
    """

    times: Floats
    answered: Mapping[str, Floats]
    response: Floats
    gpu_use: Floats
    instances: Mapping[str, Floats]
    late: Mapping[str, Floats]

    @property
    def throughput(self) -> Floats:
        return np.sum(list(self.answered.values()), axis=0)  # type: ignore[no-any-return]


def courses(played: Played) -> Courses:
    """What went on in each STEP."""
    steps = round(played.scene.workload.end / STEP)
    edges: Floats = np.arange(steps + 1, dtype=np.float64) * STEP
    counts = {model: np.histogram(q.finish, edges)[0] for model, q in played.queries.items()}
    lates = {model: np.histogram(q.finish[q.late], edges)[0] for model, q in played.queries.items()}
    every = Queries.joined(list(played.queries.values()))
    answered = ~np.isnan(every.finish)
    waited = np.histogram(every.finish[answered], edges, weights=every.response[answered])[0]
    total = np.sum(list(counts.values()), axis=0)
    with np.errstate(invalid="ignore"):
        response = waited / total
        late = {model: lates[model] / counts[model] for model in counts}
    measured = (played.times > 0) & (played.times <= played.scene.workload.end)
    return Courses(
        edges[1:],
        {model: count / STEP for model, count in counts.items()},
        response,
        played.used[measured] / STEP / len(played.scene.gpus),
        {model: _present(played, model, edges[1:]) for model in played.scene.models},
        late,
    )


def _present(played: Played, model: str, times: Floats) -> Floats:
    """Instances of a model that hold their GPU at these times."""
    spans = np.array([(one.launched, one.gone) for one in played.instances if one.service == model]).reshape(-1, 2)
    here = (spans[:, :1] <= times) & (times < spans[:, 1:])
    count: Floats = here.sum(axis=0).astype(np.float64)
    return count
