"""How the placement log writes arguments and results: small also for a thousand nodes.

All are plain JSON values, those aside that a list of the whole cluster is made of: they never change, and whoever
writes the record makes JSON of them when there is time.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

from hetserve.placement.ledger.bookings import Booking
from hetserve.placement.placer import Outcome
from hetserve.placement.pods.read_ahead import ReducedPod, read_ahead

_FEW: Final = 8
"""Up to so many node names are written; of more, their number and a checksum."""


def argument(name: str, value: Any, known: frozenset[str]) -> Any:
    """An argument of a call; `known`: nodes that are told apart, against which offered ones are written."""
    if name == "raw":
        return ReducedPod.of(value)
    if name == "objects":
        return [pod for pod in map(read_ahead, value) if pod.relevant]
    if name == "nodes":  # all there are; as they are, for to make them plain takes 50 ms for 8,000 GPUs
        return list(value)
    if name == "offered":
        return offered_value(value, known)
    return plain(value)


def offered_value(offered: Iterable[str], known: frozenset[str]) -> dict[str, Any]:
    """Offered nodes as those of the known ones that are in, or out, whichever are fewer; others are only counted."""
    given = set(offered)
    if given == known:  # nearly always, and a third of the time of what follows
        return {"without": []}
    without = known - given
    inside = len(known) - len(without)
    beside = {"beside": len(given) - inside} if len(given) > inside else {}
    if 2 * inside > len(known):
        return {"without": sorted(without), **beside}
    return {"only": sorted(known & given), **beside}


def offered_names(value: Mapping[str, Any], known: frozenset[str]) -> list[str]:
    """The nodes that `offered_value` wrote; the others get made-up names, for they only count."""
    inside = known - frozenset(value["without"]) if "without" in value else frozenset(value["only"])
    return sorted(inside) + [f"?{number}" for number in range(value.get("beside", 0))]


def outcome_value(outcome: Outcome, known: frozenset[str]) -> dict[str, Any]:
    """Nodes that pass, the choice and the next best in words, and how many nodes each refusal holds for.

    A pod that asks for nothing passes nodes beside the known ones, too: of those the record has no names.
    """
    passed = frozenset(outcome.passed)
    made: dict[str, Any] = {"passed": names_value(passed & known)}
    if beside := len(passed - known):
        made["beside"] = beside
    decision = outcome.decision
    if decision is not None:
        made["chosen"] = None if decision.chosen is None else str(decision.chosen)
        made["runnerUp"] = None if decision.runner_up is None else str(decision.runner_up)
    refused = Counter(outcome.failed.values()) + Counter(outcome.unresolvable.values())
    return made | ({"refused": dict(sorted(refused.items()))} if refused else {})


def scores_value(scores: Mapping[str, int]) -> dict[str, Any]:
    """The best scores, and a checksum of all above 0."""
    above = [item for item in scores.items() if item[1] > 0]
    ranked = sorted(above, key=lambda item: (-item[1], item[0]))
    return {"best": dict(ranked[:_FEW]), "all": _checksum(f"{node}={score}" for node, score in ranked)}


def names_value(names: Collection[str]) -> Any:
    """A few names as they are; of many, how many they are and a checksum."""
    return sorted(names) if len(names) <= _FEW else {"count": len(names), "checksum": _checksum(sorted(names))}


def booking_value(booking: Booking) -> dict[str, Any]:
    """Where a pod is booked, and how."""
    return {"node": booking.node, "gpus": list(booking.gpus), "mib": list(booking.mib), "state": booking.state.value}


def plain(value: Any) -> Any:
    """Dataclasses, enums, tuples and mappings as JSON has them."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _fields(type(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _checksum(parts: Iterable[str]) -> int:
    return zlib.crc32("\n".join(parts).encode())
