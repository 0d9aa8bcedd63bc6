"""How long instances of a service took from their node to Ready, where enough of them show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Final

from hetserve.base.units import Seconds
from hetserve.reconcile.cluster.observed import PodFact

SAMPLES: Final = 5
"""Instances of one type and template that are needed."""
_STEPS: Final = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0, 10.0)
"""Preferred numbers (R10): the times told apart in each decade, so that a second more asks for no other plan."""


def observed_launch_times(pods: Iterable[PodFact]) -> dict[str, Seconds]:
    """Median launch time by type [s], rounded to a preferred number; types with too few samples are left out.

    pods: of one service. The template of a type's newest instance counts, since another image starts otherwise.
    """
    by_type: defaultdict[str, list[PodFact]] = defaultdict(list)
    for pod in pods:
        if pod.instance_type is not None and not pod.terminating:
            by_type[pod.instance_type].append(pod)
    found: dict[str, Seconds] = {}
    for name, mine in sorted(by_type.items()):
        newest = max(mine, key=lambda pod: (pod.created, pod.name)).template_hash
        samples = [pod.launch_time for pod in mine if pod.template_hash == newest and pod.launch_time is not None]
        if len(samples) >= SAMPLES:
            found[name] = _preferred(median(samples))
    return found


def _preferred(seconds: float) -> Seconds:
    """The nearest preferred number; at least a second."""
    decade = 1.0
    while seconds > decade * 10:
        decade *= 10
    return Seconds(min((step * decade for step in _STEPS), key=lambda one: abs(one - seconds)))
