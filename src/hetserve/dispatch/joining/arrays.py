"""What joining policies see and answer, as arrays.

`choose(now, worker, queue, workers, asking) -> (variant, most, wake_at)` of a rule: the idle instance `worker` serves
as many queries from the head of the queue as have at most `most` items together, at least the first, by this variant.
most 0: it stays idle until the next event, at the latest until wake_at [s]. Rules allocate nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hetserve.dispatch.kernel import AnswerArrays, Flags, Floats, Integers, Scratch

CELLS: Final = 64
"""Parts of the window in which arrivals are counted."""


class VariantArrays(NamedTuple):
    """Predicted service times, and what variants are worth.

    mean [type x variants + variant, items - 1]: seconds, infinite if not to be used. accuracies [variant]: percent,
    rising. utilities [variant]. switches [type]: seconds until another variant serves. slo, grace: seconds to a query's
    deadline, and from there until its answer is worth nothing.
    """

    mean: Floats
    accuracies: Floats
    utilities: Floats
    switches: Floats
    variants: int
    slo: float
    grace: float


class FleetArrays(NamedTuple):
    """Instances. types: index; variants: that of the last batch, -1: none yet; free_at: predicted end if busy [s]."""

    types: Integers
    variants: Integers
    busy: Flags
    free_at: Floats


class RecentArrivals(NamedTuple):
    """Items that arrived in each part of the last window: part k of time is in counts[k % CELLS].

    newest [1]: k of the latest part; width: its length [s], infinite: nothing is counted.
    """

    counts: Integers
    newest: Integers
    width: float


class JoiningArguments(NamedTuple):
    """What a rule reads besides queue and instances.

    rule: which one. drops: whether hopeless queries are dropped. parameters: as the policy prepared them.
    """

    model: VariantArrays
    rule: int
    drops: bool
    parameters: Floats
    recent: RecentArrivals
    scratch: Scratch
    answer: AnswerArrays
