"""What instances take of their GPUs, from what profiles say of sharing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hetserve.profiles.sharing import ONE, ComputeShare
from hetserve.simulation.shared.services import ComputeUse, coefficient


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A service as its neighbours on a GPU see it. largest: batch of its mix [items]."""

    name: str
    namespace: str
    model: str
    largest: int


def compute_use(found: ComputeShare, own: Neighbour, neighbours: Iterable[Neighbour]) -> ComputeUse:
    """Use of an instance of `own`: `spec.computeShare` and `spec.interference` of its profile.

    A factor was measured at the mix's largest batch and the entry's batch of the other. Of several for one model the
    worst counts; models of other namespaces, and those without an entry, get the greatest, at their largest batch.
    """
    greatest = found.greatest_factor / ONE

    def toward(other: Neighbour) -> float:
        near = other.namespace == own.namespace
        named = [(e.factor / ONE, e.batch) for e in found.interference if near and e.model == other.model]
        worst = named or [(greatest, other.largest)]
        return max(coefficient(factor, own.largest, batch) for factor, batch in worst)

    return ComputeUse(found.share / ONE, {other.name: toward(other) for other in neighbours})
