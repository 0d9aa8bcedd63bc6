"""How long instances of a service took from their node to Ready, where enough of them show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Final

from hetserve.base.units import Seconds
from hetserve.reconcile.cluster.observed import PodFact

SAMPLES: Final = 5
"""Instances of one type and template that are needed."""
LONGEST_WARMING: Final = Seconds(600.0)
"""A pod that became Ready later than this after its containers ran is taken for one that became Ready again.

It is how long Kubernetes waits by default until it reports that a rollout makes no progress.
"""
_DECLARED: Final = 2.0
"""Where a longer launch is declared: as many times that."""
_STEPS: Final = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0, 10.0)
"""Preferred numbers (R10): the times told apart in each decade, so that a second more asks for no other plan."""


def observed_launch_times(pods: Iterable[PodFact], declared: Mapping[str, Seconds]) -> dict[str, Seconds]:
    """Median launch time by type [s], rounded to a preferred number; types with too few samples are left out.

    pods: of one service. The template of a type's newest instance counts, since another image starts otherwise.
    declared: launch time by type [s].
    """
    by_type: defaultdict[str, list[PodFact]] = defaultdict(list)
    for pod in pods:
        if pod.instance_type is not None and not pod.terminating:
            by_type[pod.instance_type].append(pod)
    found: dict[str, Seconds] = {}
    for name, mine in sorted(by_type.items()):
        samples = _samples(mine, longest_warming(declared.get(name)))
        if len(samples) >= SAMPLES:
            found[name] = _preferred(median(samples))
    return found


def longest_warming(declared: Seconds | None) -> float:
    """Seconds from running containers to Ready above which a pod was Ready before. declared: launch time [s]."""
    return LONGEST_WARMING if declared is None else max(LONGEST_WARMING, _DECLARED * declared)


def _samples(pods: list[PodFact], longest: float) -> list[Seconds]:
    """Launch times of the newest template, of pods that seem to have become Ready for the first time."""
    newest = max(pods, key=lambda pod: (pod.created, pod.name)).template_hash
    launches = [pod.launch for pod in pods if pod.template_hash == newest and pod.launch is not None]
    return [launch.seconds for launch in launches if launch.warming <= longest]


def _preferred(seconds: float) -> Seconds:
    """The nearest preferred number; at least a second."""
    decade = 1.0
    while seconds > decade * 10:
        decade *= 10
    return Seconds(min((step * decade for step in _STEPS), key=lambda one: abs(one - seconds)))


def served_since(
    pods: Iterable[PodFact], counts: Mapping[str, int], declared: Mapping[str, Seconds], latest: float
) -> float | None:
    """When the last of so many instances began to serve [Unix seconds]; None: not known.

    Of a type with more pods than instances, those that have served longest are meant.

    pods: of one service. counts: instances by type. declared: launch time by type [s]. latest: later times say
    nothing [Unix seconds].
    """
    began: dict[str, list[float]] = {name: [] for name, count in counts.items() if count > 0}
    for pod in pods:
        if pod.instance_type in began and not pod.terminating:
            at = _began(pod, longest_warming(declared.get(pod.instance_type)))
            if at is not None and at <= latest:
                began[pod.instance_type].append(at)
    whole = [sorted(times)[counts[name] - 1] for name, times in began.items() if len(times) >= counts[name]]
    return max(whole, default=None)


def _began(pod: PodFact, longest: float) -> float | None:
    """One that became Ready long after its containers ran was Ready before: it has served since they run.

    Else a probe that fails now and then, as under too much load, would hide for good that queries are late.
    """
    if pod.ready_since is None or pod.launch is None or pod.launch.warming <= longest:
        return pod.ready_since
    return pod.ready_since - pod.launch.warming
