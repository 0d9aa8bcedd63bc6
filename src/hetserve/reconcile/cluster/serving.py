"""Since when the instances of a service serve, as their pods say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from hetserve.base.units import Seconds
from hetserve.reconcile.cluster.launch_times import longest_warming
from hetserve.reconcile.cluster.observed import PodFact


def served_since(
    pods: Iterable[PodFact], counts: Mapping[str, int], declared: Mapping[str, Seconds], latest: datetime
) -> float | None:
    """When the last of so many instances began to serve [Unix seconds]; None: not known.

    Of a type with more pods than instances, those that have served longest are meant.

    pods: of one service. counts: instances by type. declared: launch time by type [s]. latest: later times say
    nothing.
    """
    began: dict[str, list[float]] = {name: [] for name, count in counts.items() if count > 0}
    for pod in pods:
        if pod.instance_type in began and not pod.terminating:
            at = _began(pod, longest_warming(declared.get(pod.instance_type)))
            if at is not None and at <= latest.timestamp():
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
