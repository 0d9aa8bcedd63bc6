"""Pods that share GPUs on terms, by row of the index, and which GPUs tolerate one more (`objects.gpu_sharing`).

Pods of a Deployment have equal terms, so few sets of tenants are on many GPUs. Each set has a number and columns, by
which all sets are counted with a newcomer at once. What was counted is kept: a decision looks up one number per GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.base.units import Percent
from hetserve.objects.gpu_sharing import ONE, Tenant, added, booked_percent
from hetserve.objects.resources import WHOLE_COMPUTE

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Percents = NDArray[np.int16]
Tenants = tuple[Tenant, ...]
_UNREAD: Final = 0
_MOST_PERCENT: Final = 32_767
_MOST_NEWCOMERS: Final = 1024
"""Of which it is kept what was read: more than there are refused pods to be tried again."""
_FEW: Final = 4
_LEAST_SETS: Final = 1024
_SETS_PER_GPU: Final = 4


class TenantSets:
    """Sets of tenants by number; 0: none. An index hands them on to the next one, with all that was read."""

    def __init__(self) -> None:
        self.tenants: list[Tenants] = [()]
        self.percents = [Percent(0)]
        self._numbers: dict[Tenants, int] = {(): 0}
        self._after: dict[tuple[int, Tenant, int], int] = {}
        self._read: dict[Tenant, Percents] = {}
        self._distinct: list[Tenant] = []
        self._places: dict[Tenant, int] = {}
        self._sets = np.zeros((3, 64), dtype=np.int64)
        """Of each set: where its tenants begin, how many they are, the sum of their shares."""
        self._slots = np.zeros((3, 64), dtype=np.int64)
        """Of each tenant of each set: its place among the distinct ones, what the others add to it, its tolerance."""
        self._used = 0

    def number(self, tenants: Tenants) -> int:
        found = self._numbers.setdefault(tenants, len(self.tenants))
        if found == len(self.tenants):
            self.tenants.append(tenants)
            self.percents.append(booked_percent(tenants))
            self._write(found, tenants)
        return found

    def _write(self, number: int, tenants: Tenants) -> None:
        """Appends the columns of a new set."""
        begin, self._used = self._used, self._used + len(tenants)
        self._sets, self._slots = _room(self._sets, number + 1), _room(self._slots, self._used)
        self._sets[:, number] = begin, len(tenants), sum(one.terms.share for one in tenants)
        tolerances = [one.terms.tolerance for one in tenants]
        self._slots[:, begin : self._used] = list(map(self._place, tenants)), added(tenants), tolerances

    def _place(self, tenant: Tenant) -> int:
        found = self._places.setdefault(tenant, len(self._distinct))
        if found == len(self._distinct):
            self._distinct.append(tenant)
        return found

    def after(self, number: int, tenant: Tenant, sign: int) -> int:
        """The set with one more tenant (1), or without one (-1). Raises ValueError if that is not there."""
        key = number, tenant, sign
        if (found := self._after.get(key)) is None:
            tenants = list(self.tenants[number])
            tenants.append(tenant) if sign > 0 else tenants.remove(tenant)
            found = self._after[key] = self.number(tuple(sorted(tenants, key=_order)))
        return found

    def percents_with(self, numbers: Numbers, newcomer: Tenant) -> Percents:
        """Percent of what its tenants tolerate that each set would take with a newcomer, at most 32,767."""
        read = self._of(newcomer)
        percents: Percents = read[numbers]
        if not percents.all():
            wanted = np.zeros(len(self.tenants), dtype=np.bool_)
            wanted[numbers[percents == _UNREAD]] = True
            unread = np.flatnonzero(wanted)
            read[unread] = np.minimum(self._counted(unread, newcomer), _MOST_PERCENT)
            percents = read[numbers]
        return percents

    def _counted(self, numbers: Numbers, newcomer: Tenant) -> Numbers | list[Percent]:
        """`booked_percent` of each set with a newcomer: of a few it is faster one by one."""
        if len(numbers) > _FEW:
            return self._count(numbers, newcomer)
        return [booked_percent((*self.tenants[number], newcomer)) for number in numbers.tolist()]

    def _of(self, newcomer: Tenant) -> Percents:
        """What was read of a newcomer, by set."""
        known = self._read.get(newcomer)
        if known is None or len(known) < len(self.tenants):
            if known is None and len(self._read) >= _MOST_NEWCOMERS:
                del self._read[next(iter(self._read))]
            grown = np.full(len(self.tenants) * 5 // 4 + 1, _UNREAD, dtype=np.int16)
            if known is None:
                grown[0] = booked_percent((newcomer,))
            else:
                grown[: len(known)] = known
            known = self._read[newcomer] = grown
        return known

    def _count(self, numbers: Numbers, newcomer: Tenant) -> Numbers:
        """As `_counted`, of all at once; none is empty."""
        begins, counts, shares = self._sets[:, numbers]
        firsts = counts.cumsum() - counts
        slots = np.arange(counts.sum()) + np.repeat(begins - firsts, counts)
        places, others, tolerances = self._slots[:, slots]
        by_newcomer, on_newcomer = self._pairs(places, newcomer)
        together = shares + newcomer.terms.share
        slow = np.maximum(np.repeat(together, counts), ONE + others + by_newcomer)
        own = np.maximum(together, ONE + np.add.reduceat(on_newcomer, firsts))
        theirs = np.maximum.reduceat(-(-WHOLE_COMPUTE * slow // tolerances), firsts)
        percents: Numbers = np.maximum(theirs, -(-WHOLE_COMPUTE * own // newcomer.terms.tolerance))
        return percents

    def _pairs(self, places: Numbers, newcomer: Tenant) -> Numbers:
        """What a newcomer adds to tenants at places among the distinct ones, and what each of these adds to it."""
        wanted = np.zeros(len(self._distinct), dtype=np.bool_)
        wanted[places] = True
        pairs = np.zeros((2, len(wanted)), dtype=np.int64)
        for place in np.flatnonzero(wanted).tolist():
            tenant = self._distinct[place]
            pairs[:, place] = newcomer.adds_to(tenant), tenant.adds_to(newcomer)
        found: Numbers = pairs[:, places]
        return found


def _room(columns: Numbers, count: int) -> Numbers:
    """The columns, copied with room for twice as many if there is none for that many."""
    if count <= columns.shape[1]:
        return columns
    grown = np.zeros((len(columns), 2 * count), dtype=np.int64)
    grown[:, : columns.shape[1]] = columns
    return grown


def _order(tenant: Tenant) -> tuple[object, ...]:
    terms = tenant.terms
    return tenant.namespace, tenant.model or "", terms.share, terms.tolerance, terms.others, terms.named


@dataclass(slots=True)
class TermColumns:
    """Per GPU the number of its pods on terms, and the number of their set."""

    pods: Numbers
    numbers: Numbers
    sets: TenantSets = field(default_factory=TenantSets)

    @classmethod
    def of(cls, count: int, sets: TenantSets | None = None) -> TermColumns:
        return cls(np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64), sets or TenantSets())

    def part(self, here: slice) -> TermColumns:
        """Columns of some rows, as views."""
        return TermColumns(self.pods[here], self.numbers[here], self.sets)

    def book(self, row: int, tenant: Tenant, sign: int) -> None:
        """Adds (1) or removes (-1) a pod on terms. Raises ValueError if the one to remove is not there."""
        self.numbers[row] = self.sets.after(int(self.numbers[row]), tenant, sign)
        self.pods[row] += sign
        if len(self.sets.tenants) > _LEAST_SETS + _SETS_PER_GPU * len(self.numbers):
            self._forget()

    def _forget(self) -> None:
        """Keeps the sets that are on GPUs."""
        before, self.sets = self.sets, TenantSets()
        self.numbers[:] = [self.sets.number(before.tenants[number]) for number in self.numbers]

    def on(self, row: int) -> Tenants:
        """Pods on terms on a GPU."""
        found: Tenants = self.sets.tenants[self.numbers[row]]
        return found

    def rows(self) -> Mapping[int, Tenants]:
        """GPUs with pods on terms."""
        return {row: self.on(row) for row in np.flatnonzero(self.pods).tolist()}

    def percent(self, row: int) -> Percent:
        """How much of what its pods on terms tolerate a GPU takes."""
        found: Percent = self.sets.percents[self.numbers[row]]
        return found

    def tolerate(self, row: int, newcomer: Tenant) -> bool:
        """Whether a GPU tolerates one more pod."""
        return bool(self.sets.percents_with(self.numbers[row : row + 1], newcomer)[0] <= WHOLE_COMPUTE)

    def tolerant(self, mask: Mask, newcomer: Tenant) -> Mask:
        """GPUs of the mask that tolerate one more pod."""
        left: Mask = mask & (self.sets.percents_with(self.numbers, newcomer) <= WHOLE_COMPUTE)
        return left
