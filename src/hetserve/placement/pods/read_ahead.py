"""Reduces and reads the pods of a list while it still comes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from hetserve.objects.metadata import RawObject
from hetserve.objects.reduced import reduced_pod
from hetserve.placement.ledger.bookings import Booking, tells_nothing_new
from hetserve.placement.pods.view import PodView, parse_pod

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class ReducedPod(dict[str, Any]):
    """A reduced pod, and what was read ahead.

    `view`: None if it was not read or cannot be. `unchanged`: the booking that already holds all it says. `relevant`:
    it concerns placement; None if not read ahead.
    """

    view: PodView | None = None
    unchanged: Booking | None = None
    relevant: bool | None = None

    @classmethod
    def of(cls, raw: RawObject) -> ReducedPod:
        return raw if isinstance(raw, ReducedPod) else cls(reduced_pod(raw))

    def read(self, bookings: Mapping[str, Booking] = NOTHING, pods: Mapping[str, PodView] = NOTHING) -> None:
        self.relevant = True
        with contextlib.suppress(Exception):
            self.view = view = parse_pod(self)
            self.relevant = _may_concern_us(self)
            held = bookings.get(view.uid)
            if held is not None and tells_nothing_new(held, view):
                self.unchanged = held
            known = pods.get(view.uid)
            if known == view and known.revision == view.revision:
                self.view = known


def read_ahead(raw: RawObject) -> ReducedPod:
    """A pod, reduced and read at most once."""
    pod = ReducedPod.of(raw)
    if pod.relevant is None:
        pod.read()
    return pod


def view_of(raw: RawObject) -> PodView:
    ahead = raw.view if isinstance(raw, ReducedPod) else None
    return parse_pod(raw) if ahead is None else ahead


def changed_pods(pods: Iterable[RawObject], bookings: Mapping[str, Booking]) -> tuple[list[RawObject], set[str]]:
    """(pods of a list that must be taken, UIDs whose very booking was compared ahead)."""
    changed, same = list[RawObject](), set[str]()
    for raw in pods:
        booking = raw.unchanged if isinstance(raw, ReducedPod) else None
        if booking is not None and bookings.get(uid := booking.request.uid) is booking:
            same.add(uid)
        else:
            changed.append(raw)
    return changed, same


def _may_concern_us(raw: RawObject) -> bool:
    """Whether a reduced pod has a gate or names what gives GPUs."""
    spec = raw.get("spec")
    if not isinstance(spec, Mapping) or spec.get("schedulingGates"):
        return spec is not None
    return bool(spec.get("containers") or spec.get("initContainers") or spec.get("resources"))
