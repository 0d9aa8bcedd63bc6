"""Handlers of the watches: a list replaces the known objects, an event changes one; bad objects raise nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from hetserve.objects.metadata import RawObject, object_key, uid_of
from hetserve.placement.ledger.inventory import NodeInventory, parse_node
from hetserve.placement.placer import Placer

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PodEventHandler:
    placer: Placer

    def replace(self, objects: Sequence[RawObject]) -> None:
        self.placer.observe_all(objects)

    def apply(self, event: str, raw: RawObject) -> None:
        if event == "DELETED":
            self.placer.unreadable.pop(object_key(raw), None)
            self.placer.forget(uid_of(raw))
        else:
            self.placer.observe(raw)


@dataclass(slots=True)
class NodeEventHandler:
    placer: Placer

    def replace(self, objects: Sequence[RawObject]) -> None:
        nodes = [_node(raw) for raw in objects]
        for node in nodes:
            if node.problem:
                log.warning("%s", node.problem)
        self.placer.ledger.relist_nodes(nodes)
        self.placer.on_change()

    def apply(self, event: str, raw: RawObject) -> None:
        node = _node(raw)
        ledger = self.placer.ledger
        if event == "DELETED":
            ledger.drop_node(node.name, node.uid)
        elif not ledger.put_node(node):
            return
        elif node.problem:
            log.warning("%s", node.problem)
        self.placer.on_change()


def _node(raw: RawObject) -> NodeInventory:
    try:
        return parse_node(raw)
    except Exception as error:
        name = object_key(raw).partition("/")[2]
        return NodeInventory(name, uid_of(raw), problem=f"node {name}: {type(error).__name__}: {error}")
