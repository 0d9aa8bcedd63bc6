"""Pods that share GPUs on terms, by row of the index, and which GPUs tolerate one more (`objects.gpu_sharing`).

Pods of a Deployment have equal terms, so few sets of tenants are on many GPUs. Each set has a number, and what was read
of a newcomer beside it is kept: a decision looks up one number per GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.base.units import Percent
from hetserve.objects.gpu_sharing import ALL, Tenant, booked_percent

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Tenants = tuple[Tenant, ...]
_UNREAD: Final = 0
_MOST_NEWCOMERS: Final = 64
"""Of which it is kept what was read."""
_LEAST_SETS: Final = 1024


class _Sets:
    """Sets of tenants by number; 0: none."""

    def __init__(self) -> None:
        self.tenants: list[Tenants] = [()]
        self.percents = [Percent(0)]
        self._numbers: dict[Tenants, int] = {(): 0}
        self._after: dict[tuple[int, Tenant, int], int] = {}
        self._read: dict[Tenant, Numbers] = {}

    def number(self, tenants: Tenants) -> int:
        found = self._numbers.setdefault(tenants, len(self.tenants))
        if found == len(self.tenants):
            self.tenants.append(tenants)
            self.percents.append(booked_percent(tenants))
        return found

    def after(self, number: int, tenant: Tenant, sign: int) -> int:
        """The set with one more tenant (1), or without one (-1). Raises ValueError if that is not there."""
        key = number, tenant, sign
        if (found := self._after.get(key)) is None:
            tenants = list(self.tenants[number])
            tenants.append(tenant) if sign > 0 else tenants.remove(tenant)
            found = self._after[key] = self.number(tuple(sorted(tenants, key=_order)))
        return found

    def read(self, newcomer: Tenant) -> Numbers:
        """Percent of what its tenants tolerate that each set would take with a newcomer, as far as it was read."""
        known = self._read.get(newcomer)
        if known is None or len(known) < len(self.tenants):
            if len(self._read) >= _MOST_NEWCOMERS:
                del self._read[next(iter(self._read))]
            grown = np.full(2 * len(self.tenants), _UNREAD, dtype=np.int64)
            if known is not None:
                grown[: len(known)] = known
            known = self._read[newcomer] = grown
        return known

    def percent_with(self, number: int, newcomer: Tenant) -> int:
        """Percent of what its tenants tolerate that a set would take with a newcomer."""
        read = self.read(newcomer)
        if read[number] == _UNREAD:
            read[number] = booked_percent((*self.tenants[number], newcomer))
        return int(read[number])


def _order(tenant: Tenant) -> tuple[object, ...]:
    terms = tenant.terms
    return tenant.namespace, tenant.model or "", terms.share, terms.tolerance, terms.others, terms.named


@dataclass(slots=True)
class TermColumns:
    """Per GPU the number of its pods on terms, and the number of their set."""

    pods: Numbers
    numbers: Numbers
    sets: _Sets = field(default_factory=_Sets)

    @classmethod
    def of(cls, count: int) -> TermColumns:
        return cls(np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64))

    def part(self, here: slice) -> TermColumns:
        """Columns of some rows, as views."""
        return TermColumns(self.pods[here], self.numbers[here], self.sets)

    def book(self, row: int, tenant: Tenant, sign: int) -> None:
        """Adds (1) or removes (-1) a pod on terms. Raises ValueError if the one to remove is not there."""
        self.numbers[row] = self.sets.after(int(self.numbers[row]), tenant, sign)
        self.pods[row] += sign
        if len(self.sets.tenants) > _LEAST_SETS + 8 * len(self.numbers):
            self._forget()

    def _forget(self) -> None:
        """Keeps the sets that are on GPUs."""
        before, self.sets = self.sets, _Sets()
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

    def perhaps(self, mask: Mask, newcomer: Tenant) -> Mask:
        """The mask without GPUs of which it was read that they do not tolerate one more pod."""
        left: Mask = mask & (self.sets.read(newcomer)[self.numbers] <= ALL)
        return left

    def tolerate(self, row: int, newcomer: Tenant) -> bool:
        """Whether a GPU tolerates one more pod."""
        return self.sets.percent_with(int(self.numbers[row]), newcomer) <= ALL

    def tolerant(self, mask: Mask, newcomer: Tenant) -> Mask:
        """GPUs of the mask that tolerate one more pod."""
        left: Mask = mask & (self.percents_with(mask, newcomer) <= ALL)
        return left

    def percents_with(self, mask: Mask, newcomer: Tenant) -> Numbers:
        """Percent of what its pods tolerate that each GPU of the mask would take with one more."""
        unread = mask & (self.sets.read(newcomer)[self.numbers] == _UNREAD)
        for number in np.unique(self.numbers[unread]).tolist() if unread.any() else ():
            self.sets.percent_with(number, newcomer)
        percents: Numbers = self.sets.read(newcomer)[self.numbers]
        return percents
