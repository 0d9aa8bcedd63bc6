"""Pods of a list, reduced and read while the list still comes, so that taking thousands of them at once is short."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from hetserve.objects.metadata import RawObject
from hetserve.objects.reduced import reduced_pod
from hetserve.placement.ledger.bookings import Booking, tells_nothing_new
from hetserve.placement.pods.view import PodView, parse_pod

NO_PODS: Final[Mapping[str, PodView]] = MappingProxyType({})
NO_BOOKINGS: Final[Mapping[str, Booking]] = MappingProxyType({})


class ReducedPod(dict[str, Any]):
    """A reduced pod, and what was read from it ahead.

    `view`: None if it was not read ahead or cannot be read. `unchanged`: the booking that held all it says when it was
    read. `relevant`: whether it concerns placement, as a pod that cannot be read does; None if it was not read ahead.
    """

    view: PodView | None = None
    unchanged: Booking | None = None
    relevant: bool | None = None

    @classmethod
    def of(cls, raw: RawObject) -> ReducedPod:
        """The pod, reduced unless it is already."""
        return raw if isinstance(raw, ReducedPod) else cls(reduced_pod(raw))

    def read(self, bookings: Mapping[str, Booking] = NO_BOOKINGS, pods: Mapping[str, PodView] = NO_PODS) -> None:
        """Read the pod, and compare it with the bookings of bound pods and the views of waiting ones."""
        self.relevant = True
        with contextlib.suppress(Exception):  # raised again, and logged, when the pod is taken
            self.view = view = parse_pod(self)
            self.relevant = _may_concern_us(self)
            held = bookings.get(view.uid)
            if held is not None and tells_nothing_new(held, view):
                self.unchanged = held
            known = pods.get(view.uid)
            if known == view and known.revision == view.revision:
                self.view = known  # the very same value needs no second look


def read_ahead(raw: RawObject) -> ReducedPod:
    """A pod reduced and read, unless that was done before."""
    pod = ReducedPod.of(raw)
    if pod.relevant is None:
        pod.read()
    return pod


def view_of(raw: RawObject) -> PodView:
    """View of a pod, read now or ahead. Raises as `parse_pod` does."""
    ahead = raw.view if isinstance(raw, ReducedPod) else None
    return parse_pod(raw) if ahead is None else ahead


def changed_pods(pods: Iterable[RawObject], bookings: Mapping[str, Booking]) -> tuple[list[RawObject], set[str]]:
    """(pods of a list that must be taken, UIDs of those whose booking already holds all they say).

    A booking never changes, it is replaced: if it is the very one that was compared ahead, taking the pod would change
    nothing.
    """
    changed, same = list[RawObject](), set[str]()
    for raw in pods:
        booking = raw.unchanged if isinstance(raw, ReducedPod) else None
        if booking is not None and bookings.get(uid := booking.request.uid) is booking:
            same.add(uid)
        else:
            changed.append(raw)
    return changed, same


def _may_concern_us(raw: RawObject) -> bool:
    """Whether a reduced pod that can be read can matter to placement: it has a gate, or names what gives GPUs."""
    spec = raw.get("spec")
    if not isinstance(spec, Mapping) or spec.get("schedulingGates"):
        return spec is not None
    return bool(spec.get("containers") or spec.get("initContainers") or spec.get("resources"))
