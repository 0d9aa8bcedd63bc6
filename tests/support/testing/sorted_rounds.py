"""Rounds of the queues over pods at hand: by a `WaitingLine`, and by its definition, which sorts all pods anew."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from hetserve.base.units import MiB, Seconds
from hetserve.placement.queues.clustering import Shape
from hetserve.placement.queues.rounds import Entry, Fairness, QueueSettings, Round, RoundInProgress, Waiting, entry
from hetserve.placement.queues.waiting_line import WaitingLine


def next_round(
    waiting: Iterable[Waiting],
    *,
    outstanding: int,
    now: Seconds,
    largest_gpu: MiB,
    settings: QueueSettings,
    fairness: Fairness | None = None,
) -> Round:
    """Chooses the pods to release now; at most beta are released and unbound. Higher priorities go first.

    `outstanding`: released and unbound pods, without unschedulable ones. `now`: on the clock of `Waiting.since`.
    `largest_gpu`: scales memory. `WaitingLine` makes the same rounds incrementally.
    """
    slots = max(settings.beta - outstanding, 0)
    turns = RoundInProgress(now, settings, slots, fairness or Fairness())
    pods = sorted(waiting, key=lambda pod: (-pod.priority, *entry(pod)[:-1]))
    for priority, group in groupby(pods, key=lambda pod: pod.priority):
        members = [entry(pod) for pod in group]
        counts: dict[Shape, int] = {}
        for *_, pod in members:
            counts[pod.shape] = counts.get(pod.shape, 0) + 1
        partition = turns.partition(priority, counts, largest_gpu)
        lines: dict[int, list[Entry]] = {}
        for member in members:
            lines.setdefault(partition.queue_of[member[-1].shape], []).append(member)
        turns.release(priority, counts, lines)
    return turns.result()


def round_of(
    waiting: Iterable[Waiting],
    *,
    outstanding: int,
    now: Seconds,
    largest_gpu: MiB,
    settings: QueueSettings,
    fairness: Fairness | None = None,
) -> Round:
    """The round of a line into which the pods have just come; arguments of `next_round`."""
    line = WaitingLine(settings, fairness or Fairness())
    for pod in waiting:
        line.put(pod)
    return line.round(outstanding=outstanding, now=now, largest_gpu=largest_gpu)
