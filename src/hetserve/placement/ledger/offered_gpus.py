"""Nodes whose GPUs ResourceSlices of NVIDIA's DRA driver offer, by slice."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hetserve.objects.metadata import RawObject, object_key
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.other_givers import offered_by_dra, slice_nodes

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OfferedGpus:
    """The slices that name nodes, kept up by lists and events; those of other drivers are left out."""

    _nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each slice."""
    _slices: dict[str, set[str]] = field(default_factory=dict)
    """Of each node."""

    def replace(self, objects: Iterable[RawObject]) -> set[str]:
        """Takes a full list. Returns the nodes about which something has changed."""
        fresh = {_name(raw): raw for raw in objects}
        changed: set[str] = set()
        for name in [name for name in self._nodes if name not in fresh]:
            changed |= self._set(name, ())
        for raw in fresh.values():
            changed |= self.put(raw)
        return changed

    def put(self, raw: RawObject) -> set[str]:
        """Takes a slice. Returns as `replace`; one that cannot be read is logged and names no node."""
        name = _name(raw)
        try:
            nodes = slice_nodes(raw)
        except (TypeError, AttributeError, ValueError) as error:
            log.warning("ResourceSlice %s cannot be read: %s", name, error)
            nodes = ()
        return self._set(name, nodes)

    def drop(self, raw: RawObject) -> set[str]:
        """Forgets a slice. Returns as `replace`."""
        return self._set(_name(raw), ())

    def slices(self, node: str) -> Sequence[str]:
        """Names of the slices that offer GPUs of a node, in order."""
        return sorted(self._slices.get(node, ()))

    def judge(self, node: NodeInventory) -> NodeInventory:
        """The node, refused if a slice offers its GPUs; what NVIDIA's plugin does there is said first."""
        found = self.slices(node.name)
        return replace(node, refused=offered_by_dra(len(found), found[0])) if found and not node.refused else node

    def _set(self, name: str, nodes: tuple[str, ...]) -> set[str]:
        before = self._nodes.pop(name, ())
        if nodes:
            self._nodes[name] = nodes
        for node in set(before) - set(nodes):
            self._slices[node].discard(name)
            if not self._slices[node]:
                del self._slices[node]
        for node in nodes:
            self._slices.setdefault(node, set()).add(name)
        return {*before, *nodes}


def _name(raw: RawObject) -> str:
    return object_key(raw).rpartition("/")[2]
