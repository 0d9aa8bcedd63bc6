"""Whole GPUs that instances need where placement decides online: the smallest clusters that take them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.sharing.manifests import nodes
from benchmarks.sharing.ways import Room

from hetserve.api.instance_type import InstanceType
from hetserve.cli.capacity.together.places import PlacedInstance, WantedInstance
from hetserve.placement.pods.requests import PolicyName

ORDERS: Final = 5
"""Random ones in which instances come, beside that of the services."""


def smallest(wanted: Sequence[WantedInstance], types: Mapping[str, InstanceType], policy: PolicyName) -> dict[str, int]:
    """GPUs by type of the smallest cluster that takes all in this order, as does each larger one."""
    found = {}
    for kind in sorted({one.type for one in wanted}):
        some = [one for one in wanted if one.type == kind]
        sizes = range(len(some), 0, -1)
        found[kind] = next((size + 1 for size in sizes if placed(some, types, {kind: size}, policy) is None), 1)
    return found


def placed(
    wanted: Sequence[WantedInstance], types: Mapping[str, InstanceType], gpus: Mapping[str, int], policy: PolicyName
) -> list[PlacedInstance] | None:
    """Places on a cluster with so many GPUs by type, by the extender's decisions; None: one finds none."""
    room = Room([node for kind, count in gpus.items() for node in nodes(types[kind], count)], policy)
    taken = []
    for one in wanted:
        if (place := room.place(one)) is None:
            return None
        taken.append(place)
    return taken


def grown(wanted: Sequence[WantedInstance], types: Mapping[str, InstanceType], policy: PolicyName) -> int:
    """GPUs of a cluster that gets one whenever an instance finds no place, as an autoscaler adds nodes."""
    left = {kind: nodes(types[kind], len(wanted)) for kind in types}
    room, there = Room([node for some in left.values() for node in some], policy), set[str]()
    for one in wanted:
        if room.place(one, there) is None:
            there.add(left[one.type].pop(0)["metadata"]["name"])
            assert room.place(one, there) is not None, "an idle GPU takes any"
    return len(there)


def orders(wanted: Sequence[WantedInstance]) -> list[list[WantedInstance]]:
    """Service by service, and in random orders."""
    rng = random.Random(len(wanted))  # noqa: S311
    return [list(wanted), *(rng.sample(list(wanted), len(wanted)) for _ in range(ORDERS))]


def over_orders(wanted: Sequence[WantedInstance], types: Mapping[str, InstanceType], policy: PolicyName) -> list[int]:
    """GPUs of all types that each order needs, that of the services first."""
    return [sum(smallest(order, types, policy).values()) for order in orders(wanted)]


def in_use(places: Sequence[PlacedInstance]) -> int:
    return len({one.place for one in places})


def most_on_one(places: Sequence[PlacedInstance]) -> int:
    """Instances on the fullest GPU: what its failure takes away."""
    return max(Counter(one.place for one in places).values(), default=0)
