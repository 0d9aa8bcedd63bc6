"""Search structure over all GPUs: one numpy row per GPU, by node name and GPU id, which breaks ties."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.bookings import Booking, Unattributed
from hetserve.placement.ledger.inventory import Gpu, NodeInventory, Place
from hetserve.placement.ledger.terms import TenantSets, TermColumns
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest, GpuSelector, ModelKey, Sharing

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Holders = dict[tuple[ModelKey, bool], dict[int, int]]
"""Pods by row, of each model and by whether they insist on anti-affinity."""

_NOBODY: Final[Mapping[int, int]] = MappingProxyType({})
_NOTHING: Final[Collection[Unattributed]] = ()
_FIRST: Final = np.zeros(1, dtype=np.int64)
_FIRST.setflags(write=False)


class GpuIndex:
    """Rows of all GPUs; the ledger changes them, `decide` and the policies read them."""

    def __init__(self, inventories: Iterable[NodeInventory], sets: TenantSets | None = None) -> None:
        """sets: of the index before, whose numbers and readings stay."""
        inventories = list(inventories)
        self.nodes = sorted((node for node in inventories if node.gpus), key=lambda node: node.name)
        self.unreadable = frozenset(node.name for node in inventories if node.problem is not None)
        self.refused = {node.name: node.refused for node in inventories if node.refused}
        """Nodes whose GPUs somebody else gives, and the words; closed for as long."""
        self.node_row = {node.name: row for row, node in enumerate(self.nodes)}
        self.gpus: list[Gpu] = [gpu for node in self.nodes for gpu in node.gpus]
        places = [(node.name, gpu.id) for node in self.nodes for gpu in node.gpus]
        self.row: dict[Place, int] = {place: row for row, place in enumerate(places)}
        counts = [len(node.gpus) for node in self.nodes]
        self.node_of: Numbers = np.repeat(np.arange(len(self.nodes)), counts)
        self.first: Numbers = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
        self.free: Numbers = np.array([gpu.memory_mib for gpu in self.gpus], dtype=np.int64)
        self.memory = self.free.copy()
        self.free_compute: Numbers = np.full(len(self.gpus), WHOLE_COMPUTE, dtype=np.int64)
        """Percent; what pods declare is taken, all by a whole one, and of pods on terms what these tolerate."""
        self.declared: Numbers = np.zeros(len(self.gpus), dtype=np.int64)
        """Percent that pods ask for, all by a whole one and by each on terms."""
        self.accounted: Numbers = np.zeros(len(self.gpus), dtype=np.int64)
        """Pods that book a percentage or hold the GPU whole."""
        self.accounts = 0
        """Sum of these and of pods on terms: while it is 0 nobody's compute need be looked at."""
        self.terms = TermColumns.of(len(self.gpus), sets)
        self.pods: Numbers = np.zeros(len(self.gpus), dtype=np.int64)
        self.idle = np.ones(len(self.gpus), dtype=np.bool_)
        self.healthy = np.array([gpu.healthy for gpu in self.gpus], dtype=np.bool_)
        self.open = np.array([not node.refused for node in self.nodes], dtype=np.bool_)[self.node_of]
        """False on every GPU of a closed or refused node."""
        self.usable = self.open & self.healthy
        self.all = np.ones(len(self.gpus), dtype=np.bool_)
        self.all.setflags(write=False)
        self.content = 0
        """Detects changes of GPU occupancy, within one process and set of GPUs."""
        self._rows_of: tuple[Sequence[str], Numbers] = (), np.zeros(0, dtype=np.int64)
        self._unattributed: dict[str, dict[Unattributed, int]] = {}
        self._holders: Holders = {}

    def book(self, place: Place, booking: Booking, sign: int) -> None:
        """Adds (1) or removes (-1) what a pod holds on a GPU; an unlisted GPU closes its node.

        A whole GPU counts with all its memory.
        """
        row = self.row.get(place)
        if row is None:
            self._close(place[0], booking.unattributed, sign)
            return
        request = booking.request
        self.free[row] -= sign * (int(self.memory[row]) if request.whole else request.memory_mib)
        self.pods[row] += sign
        self.idle[row] = self.pods[row] == 0
        if request.whole or request.compute is not None:
            self.accounts += sign
            booked = sign * request.booked_compute
            self.declared[row] += booked
            if (tenant := booking.tenant) is not None:
                self.content += sign * hash((row, tenant))
                self.terms.book(row, tenant, sign)
            else:
                self.accounted[row] += sign
                self.free_compute[row] -= booked
        if request.sharing is not None or self.terms.pods[row]:
            self._count_shared(row)
        hard = request.anti_affinity is AntiAffinity.HARD
        held = row, request.memory_mib, request.compute, request.whole, request.namespace, request.model, hard
        self.content += sign * hash(held)
        if request.model is not None:
            self._book_model(self._key(request, request.model), row, sign, hard=hard)
        for model in booking.other_models:
            self.content += sign * hash((row, request.namespace, model))
            self._book_model(self._key(request, model), row, sign, hard=True)

    def _count_shared(self, row: int) -> None:
        """Counts the compute of a GPU on which pods on terms are or were, by pairs if all others are such."""
        paired = 0 < self.terms.pods[row] == self.pods[row]
        self.free_compute[row] = WHOLE_COMPUTE - (self.terms.percent(row) if paired else self.declared[row])

    @property
    def undeclared(self) -> Numbers:
        """Pods that share each GPU and declare no compute."""
        return self.pods - self.accounted - self.terms.pods

    def beside_its_model(self, place: Place, request: GpuRequest) -> bool:
        """Whether another pod that must not share the GPU is on it."""
        row = self.row[place]
        key = self._key(request, request.model or "")
        hard, soft = (self.holders(key, hard=hard).get(row, 0) for hard in (True, False))
        return hard + soft > 1 if request.anti_affinity is AntiAffinity.HARD else hard > 0

    @staticmethod
    def _key(request: GpuRequest, model: str) -> ModelKey:
        """A model that the pod is or was labelled with, as the index keeps it."""
        return request.namespace, model

    def _book_model(self, model: ModelKey, row: int, sign: int, *, hard: bool) -> None:
        holders = self._holders.setdefault((model, hard), {})
        holders[row] = holders.get(row, 0) + sign
        if holders[row] <= 0:
            del holders[row]
        if not holders:
            del self._holders[model, hard]

    def unattributed(self, node: str) -> Collection[Unattributed]:
        return self._unattributed.get(node, _NOTHING)

    def _close(self, node: str, unattributed: Collection[Unattributed], pods: int) -> None:
        """Counts pods (1: one more, -1: one less) with GPUs that nobody can attribute."""
        row = self.node_row.get(node)
        if row is None:
            return
        here = self._unattributed.get(node, {})
        was_closed = bool(here)
        for one in unattributed:
            here[one] = here.get(one, 0) + pods
            if here[one] <= 0:
                del here[one]
        self._unattributed[node] = here
        if not here:
            del self._unattributed[node]
        if was_closed == bool(here):
            return
        self.content += hash(node) if here else -hash(node)
        first = int(self.first[row])
        rows = slice(first, first + len(self.nodes[row].gpus))
        self.open[rows] = not here and node not in self.refused
        self.usable[rows] = self.open[rows] & self.healthy[rows]

    def narrowed_to(self, offered: Sequence[str]) -> GpuIndex:
        """Rows of the only offered node, valid until the next booking; else the whole index."""
        if len(offered) != 1:
            return self
        row = self.node_row.get(offered[0])
        return self if row is None else _OneNode(self, row)

    def offered(self, names: Sequence[str]) -> Mask:
        if not self.nodes:
            return self.all
        on_node = np.zeros(len(self.nodes) + 1, dtype=np.bool_)
        on_node[self.rows_of(names)] = True
        here: Mask = self.all if on_node[:-1].all() else on_node[self.node_of]
        return here

    def rows_of(self, names: Sequence[str]) -> Numbers:
        """Row of each named node, -1 for one without GPUs; read-only. The rows of the last tuple are cached."""
        known, rows = self._rows_of
        if known is names:
            return rows
        rows = np.fromiter(map(self.node_row.get, names, repeat(-1)), dtype=np.int64, count=len(names))
        if isinstance(names, tuple):  # a list could change
            self._rows_of = names, rows
        return rows

    def selected(self, selector: GpuSelector) -> Mask:
        mask = np.ones(len(self.gpus), dtype=np.bool_)
        if selector.products:
            mask &= self._any_of(self._rows_of_product, selector.products)
        if selector.products_excluded:
            mask &= ~self._any_of(self._rows_of_product, selector.products_excluded)
        if selector.ids:
            mask &= self._any_of(self._rows_of_id, selector.ids)
        if selector.ids_excluded:
            mask &= ~self._any_of(self._rows_of_id, selector.ids_excluded)
        return mask

    def without_model(self, mask: Mask, request: GpuRequest) -> Mask:
        """The mask without GPUs whose pods must not share with the request."""
        if request.model is None:
            return mask
        left, key = mask.copy(), self._key(request, request.model)
        for hard in (True, False) if request.anti_affinity is AntiAffinity.HARD else (True,):
            self._keep_off(left, key, hard=hard)
        return left

    def of_its_kind(self, mask: Mask, request: GpuRequest) -> Mask:
        """The mask without GPUs whose pods count their compute in another way than the request."""
        if request.sharing is not None:
            paired: Mask = mask & (self.terms.pods == self.pods)
            return paired
        if request.compute is None:
            return mask & (self.free_compute == WHOLE_COMPUTE) if self.accounts else mask
        left: Mask = mask & (self.accounted == self.pods)
        return left

    def with_compute(self, mask: Mask, request: GpuRequest) -> Mask:
        """The mask without GPUs that have too little free compute for what the request declares.

        Of a request on terms: without those on which it is slowed down too much, or another pod.
        """
        if request.sharing is not None:
            return self.terms.tolerant(mask, request.tenant(request.sharing))
        return mask if request.compute is None else mask & (self.free_compute >= request.compute)

    def over_booked(self, row: int, request: GpuRequest) -> bool:
        """Whether a GPU on which the request is counted holds more than it has, or what must not share it."""
        if self.free[row] < 0:
            return True
        if not self.accounts:
            return False
        kinds = {Sharing.PAIRED: self.terms.pods[row], Sharing.BOOKED: self.accounted[row]}
        alike = kinds.get(request.kind, self.pods[row] - sum(kinds.values()))
        return bool(self.free_compute[row] < 0 or (alike < self.pods[row] and not request.whole))

    def _keep_off(self, mask: Mask, model: ModelKey, *, hard: bool) -> None:
        if holders := self.holders(model, hard=hard):
            mask[list(holders)] = False

    def holders(self, model: ModelKey, *, hard: bool) -> Mapping[int, int]:
        """Rows and numbers of pods of a model: those that never share with it (hard), or may."""
        return self._holders.get((model, hard), _NOBODY)

    def _any_of(self, rows: Mapping[str, Numbers], wanted: Sequence[str]) -> Mask:
        mask = np.zeros(len(self.gpus), dtype=np.bool_)
        for key in wanted:
            if (found := rows.get(key)) is not None:
                mask[found] = True
        return mask

    @cached_property
    def _rows_of_id(self) -> dict[str, Numbers]:
        return _rows_by(gpu.id for gpu in self.gpus)

    @cached_property
    def _rows_of_product(self) -> dict[str, Numbers]:
        return _rows_by(gpu.product for gpu in self.gpus)

    def on_node(self, mask: Mask) -> Numbers:
        if not self.nodes:
            return np.zeros(0, dtype=np.int64)
        counted: Numbers = np.add.reduceat(mask, self.first, dtype=np.int64)
        return counted

    @property
    def node_pods(self) -> Numbers:
        if not self.nodes:
            return self.pods
        held: Numbers = np.add.reduceat(self.pods, self.first)[self.node_of]
        return held


class _OneNode(GpuIndex):
    """One node's part of an index, as views."""

    def __init__(self, whole: GpuIndex, row: int) -> None:
        node = whole.nodes[row]
        count, first = len(node.gpus), int(whole.first[row])
        here = slice(first, first + count)
        self._whole, self._here = whole, range(first, first + count)
        self.nodes = [node]
        self.unreadable, self.refused = whole.unreadable, whole.refused
        self.node_row = {node.name: 0}
        self.gpus = list(node.gpus)
        self.node_of = np.zeros(count, dtype=np.int64)
        self.first = _FIRST
        self.free, self.memory, self.pods = whole.free[here], whole.memory[here], whole.pods[here]
        self.idle, self.healthy, self.open = whole.idle[here], whole.healthy[here], whole.open[here]
        self.usable, self.all = whole.usable[here], whole.all[here]
        self.free_compute, self.accounted = whole.free_compute[here], whole.accounted[here]
        self.accounts, self.terms = whole.accounts, whole.terms.part(here)
        self._rows_of = (), _FIRST[:0]
        self._unattributed = whole._unattributed

    def _keep_off(self, mask: Mask, model: ModelKey, *, hard: bool) -> None:
        holders = self._whole.holders(model, hard=hard)
        for at, row in enumerate(self._here if holders else ()):
            if row in holders:
                mask[at] = False


def _rows_by(keys: Iterable[str]) -> dict[str, Numbers]:
    rows: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, []).append(row)
    return {key: np.array(found, dtype=np.int64) for key, found in rows.items()}
