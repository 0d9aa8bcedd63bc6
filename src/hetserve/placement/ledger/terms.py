"""Columns of the index about pods that share a GPU on terms, and which GPUs tolerate one more (`gpu_sharing`).

The columns take what each pod adds to any neighbour at the most. GPUs that they let in surely tolerate the newcomer;
where only that sum is too large, the factors of the pairs decide. Pods of a Deployment have equal terms, so what was
read is kept until the GPU changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.base.units import Percent
from hetserve.objects.gpu_sharing import ONE, Tenant, booked_percent, tolerate

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
_FAR: Final = 1 << 60
"""Above any sum: what a GPU without such pods leaves."""
_MOST_SLOW: Final = 1 << 42
"""Slow-downs above are equal; times `ONE` they stay within 63 bits."""
_MOST_KEPT: Final = 64
"""Newcomers of which it is kept what was read."""
_MOST_CHANGES: Final = 4096


@dataclass(slots=True)
class _Read:
    """What was read of one newcomer by row: 1 tolerated, -1 not, 0 not read. seen: changes that it knows of."""

    rows: NDArray[np.int8]
    seen: int


@dataclass(slots=True)
class _Tenants:
    """Pods on terms by row, and what was read of their pairs."""

    count: int
    on_row: dict[int, list[Tenant]] = field(default_factory=dict)
    changed: list[int] = field(default_factory=list)
    read: dict[Tenant, _Read] = field(default_factory=dict)

    def note(self, row: int) -> None:
        if len(self.changed) >= _MOST_CHANGES:
            self.changed.clear()
            self.read.clear()
        self.changed.append(row)

    def of(self, newcomer: Tenant) -> NDArray[np.int8]:
        """What was read of a newcomer and is still so."""
        known = self.read.get(newcomer)
        if known is None:
            if len(self.read) >= _MOST_KEPT:
                del self.read[next(iter(self.read))]
            known = self.read[newcomer] = _Read(np.zeros(self.count, dtype=np.int8), len(self.changed))
        if known.seen < len(self.changed):
            known.rows[self.changed[known.seen :]] = 0
            known.seen = len(self.changed)
        return known.rows


@dataclass(slots=True)
class TermColumns:
    """One number per GPU, in millionths but for `pods`; meaningful where all pods share it on terms.

    shares: sum of their shares. room: least tolerance less `shares`. added: sum of the most that each adds. slack: the
    most that one more may add. first: row of the whole index at which a part of it begins.
    """

    pods: Numbers
    shares: Numbers
    room: Numbers
    added: Numbers
    slack: Numbers
    tenants: _Tenants
    first: int = 0

    @classmethod
    def of(cls, count: int) -> TermColumns:
        nothing, far = (np.full(count, value, dtype=np.int64) for value in (0, _FAR))
        return cls(nothing, nothing.copy(), far, nothing.copy(), far.copy(), _Tenants(count))

    def part(self, first: int, count: int) -> TermColumns:
        """Columns of some rows, as views."""
        here = slice(first, first + count)
        sums = self.pods[here], self.shares[here], self.room[here], self.added[here], self.slack[here]
        return TermColumns(*sums, self.tenants, first)

    def book(self, row: int, tenant: Tenant, sign: int) -> None:
        """Adds (1) or removes (-1) a pod on terms."""
        here = self.tenants.on_row.setdefault(row, [])
        here.append(tenant) if sign > 0 else here.remove(tenant)
        self.tenants.note(row)
        self.pods[row] = len(here)
        if not here:
            del self.tenants.on_row[row]
            self.shares[row] = self.added[row] = 0
            self.room[row] = self.slack[row] = _FAR
            return
        most = [one.terms.greatest for one in here]
        self.shares[row] = shares = sum(one.terms.share for one in here)
        self.added[row] = added = sum(most)
        self.room[row] = min(one.terms.tolerance for one in here) - shares
        self.slack[row] = min(one.terms.tolerance + h for one, h in zip(here, most, strict=True)) - ONE - added

    def percent(self, row: int) -> Percent:
        """How much of what its pods tolerate a GPU takes."""
        return booked_percent(self.on(row))

    def on(self, row: int) -> list[Tenant]:
        """Pods on terms on a GPU."""
        return self.tenants.on_row.get(self.first + row, [])

    def join(self, mask: Mask, newcomer: Tenant) -> tuple[Mask, Mask]:
        """(GPUs of the mask that tolerate one more pod, GPUs of which `tolerated` decides)."""
        terms = newcomer.terms
        enough = mask & (self.shares <= terms.tolerance - terms.share) & (self.room >= terms.share)
        sure = enough & (self.added <= terms.tolerance - ONE) & (self.slack >= terms.greatest)
        unread = enough ^ sure
        if unread.any():
            read = self.tenants.of(newcomer)[self.first : self.first + len(mask)]
            sure |= unread & (read > 0)
            unread &= read == 0
        return sure, unread

    def tolerated(self, row: int, newcomer: Tenant) -> bool:
        """Whether a GPU tolerates one more pod, by pairs."""
        read = self.tenants.of(newcomer)
        at = self.first + row
        if not read[at]:
            read[at] = 1 if tolerate([*self.on(row), newcomer]) else -1
        return bool(read[at] > 0)

    def pressed(self, newcomer: Tenant) -> Numbers:
        """At the most how many millionths of the least tolerance each GPU would take with one more pod."""
        terms = newcomer.terms
        slow = np.maximum(self.shares + terms.share, ONE + self.added + terms.greatest)
        pressed: Numbers = np.minimum(slow, _MOST_SLOW) * ONE // np.minimum(self.room + self.shares, terms.tolerance)
        return pressed
