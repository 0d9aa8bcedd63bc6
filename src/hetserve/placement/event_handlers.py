"""Handlers of the watches of pods, nodes and ResourceSlices.

A list replaces the known objects, an event changes one; bad objects raise nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hetserve.objects.metadata import RawObject, object_key, uid_of
from hetserve.placement.ledger.inventory import NodeInventory, offered_by_dra, parse_node, slice_nodes
from hetserve.placement.ledger.problems import refused_node
from hetserve.placement.placer import Placer

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

    def judge(self, node: NodeInventory) -> NodeInventory:
        """The node, refused if a slice offers its GPUs; what NVIDIA's plugin does there is said first."""
        found = sorted(self._slices.get(node.name, ()))
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


@dataclass(slots=True)
class PodEventHandler:
    """Pods of the ledger. The place of one that is gone is reserved in the same step for the next of its Deployment."""

    placer: Placer

    def replace(self, objects: Sequence[RawObject]) -> None:
        before = list(self.placer.ledger.bookings().values())
        self.placer.observe_all(objects)
        self.placer.pass_on(before)

    def apply(self, event: str, raw: RawObject) -> None:
        held = self.placer.ledger.booking(uid_of(raw))
        if event == "DELETED":
            self.placer.unreadable.pop(object_key(raw), None)
            self.placer.forget(uid_of(raw))
        else:
            self.placer.observe(raw)
        if held is not None:
            self.placer.pass_on([held])


@dataclass(slots=True)
class NodeEventHandler:
    """Nodes of the ledger. A node whose GPUs a ResourceSlice offers as well is refused for as long."""

    placer: Placer
    offered: OfferedGpus = field(default_factory=OfferedGpus)
    _listed: dict[str, NodeInventory] = field(default_factory=dict)
    """As the nodes themselves say it."""

    def replace(self, objects: Sequence[RawObject]) -> None:
        nodes = [_node(raw) for raw in objects]
        self._listed = {node.name: node for node in nodes}
        told = [self.offered.judge(node) for node in nodes]
        for node in told:
            _warn(node)
        self.placer.ledger.relist_nodes(told)
        self.placer.on_change()

    def apply(self, event: str, raw: RawObject) -> None:
        node = _node(raw)
        if event == "DELETED":
            known = self._listed.get(node.name)
            if known is not None and known.uid == node.uid:
                del self._listed[node.name]
            self.placer.ledger.drop_node(node.name, node.uid)
            self.placer.on_change()
        else:
            self._listed[node.name] = node
            self.judge_again([node.name])

    def judge_again(self, names: Iterable[str]) -> None:
        """Looks again at who gives the GPUs of these nodes."""
        known = [self.offered.judge(self._listed[name]) for name in names if name in self._listed]
        changed = [node for node in known if self.placer.ledger.put_node(node)]
        for node in changed:
            _warn(node)
        if changed:
            self.placer.on_change()


@dataclass(slots=True)
class ResourceSliceEventHandler:
    """ResourceSlices of NVIDIA's DRA driver: the nodes that they name are refused."""

    nodes: NodeEventHandler

    def replace(self, objects: Sequence[RawObject]) -> None:
        self.nodes.judge_again(self.nodes.offered.replace(objects))

    def apply(self, event: str, raw: RawObject) -> None:
        offered = self.nodes.offered
        self.nodes.judge_again(offered.drop(raw) if event == "DELETED" else offered.put(raw))


def _warn(node: NodeInventory) -> None:
    if node.problem:
        log.warning("%s", node.problem)
    if node.refused:
        log.warning("%s", refused_node(node.name, node.refused))
    if node.missing:
        log.warning("node %s: %s", node.name, node.missing)


def _node(raw: RawObject) -> NodeInventory:
    try:
        return parse_node(raw)
    except Exception as error:
        name = object_key(raw).partition("/")[2]
        return NodeInventory(name, uid_of(raw), problem=f"node {name}: {type(error).__name__}: {error}")
