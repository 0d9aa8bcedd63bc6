"""A pod without what placement never looks at: `parse_pod` reads the same from it, wrong types included.

What is not as Kubernetes writes it stays as it is, so that reading it fails with the same words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.fields import MOST_ITEMS
from hetserve.objects.resources import gives_gpus
from hetserve.placement.ledger.bookings import Booking, tells_nothing_new
from hetserve.placement.pods.view import PodView, parse_pod

_METADATA: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
_SPEC: Final = ("nodeName", "priority", "schedulerName", "schedulingGates")
_PREFIX: Final = f"{names.GROUP}/"


NO_PODS: Final[Mapping[str, PodView]] = MappingProxyType({})
NO_BOOKINGS: Final[Mapping[str, Booking]] = MappingProxyType({})


class ReducedPod(dict[str, Any]):
    """A pod that has been reduced already.

    `view`: what was read from it ahead, None where it was not or cannot be; `told`: the booking that held then what it
    says; `ours`: whether it concerns us, None where nobody has looked. What cannot be read does.
    """

    view: PodView | None = None
    told: Booking | None = None
    ours: bool | None = None

    def read_ahead(self, bookings: Mapping[str, Booking] = NO_BOOKINGS, pods: Mapping[str, PodView] = NO_PODS) -> None:
        """Read it now, and compare it with what is known of bound and of waiting pods.

        Of a long list that is most of the work, and can be done while the list still comes.
        """
        self.ours = True
        with contextlib.suppress(Exception):  # raised, and told, when the pod is taken
            self.view = view = parse_pod(self)
            self.ours = concerns_us(self)
            held = bookings.get(view.uid)
            if held is not None and tells_nothing_new(held, view):
                self.told = held
            known = pods.get(view.uid)
            if known == view and known.revision == view.revision:
                self.view = known  # as the very same it needs no second look


def view_of(raw: Mapping[str, Any]) -> PodView:
    """What a pod says, by `parse_pod` now or ahead; raises what that raises."""
    ahead = raw.view if isinstance(raw, ReducedPod) else None
    return parse_pod(raw) if ahead is None else ahead


def news(
    pods: Iterable[Mapping[str, Any]], bookings: Mapping[str, Booking]
) -> tuple[list[Mapping[str, Any]], set[str]]:
    """(pods of a list that must be taken, UIDs of those of which the ledger still holds what they say).

    A booking never changes, it is replaced: where it is the very one that was compared ahead, to take the pod would
    change nothing.
    """
    taken, same = list[Mapping[str, Any]](), set[str]()
    for raw in pods:
        told = raw.told if isinstance(raw, ReducedPod) else None
        if told is not None and bookings.get(uid := told.request.uid) is told:
            same.add(uid)
        else:
            taken.append(raw)
    return taken, same


def read_once(raw: Mapping[str, Any]) -> ReducedPod:
    """A pod reduced and read ahead, unless that was done before."""
    pod = reduced_pod(raw)
    if pod.ours is None:
        pod.read_ahead()
    return pod


def concerns_us(raw: Mapping[str, Any]) -> bool:
    """Whether a reduced pod that can be read can matter to placement: it has a gate, or names what gives GPUs."""
    spec = raw.get("spec")
    if not isinstance(spec, Mapping) or spec.get("schedulingGates"):
        return spec is not None
    return bool(spec.get("containers") or spec.get("initContainers") or spec.get("resources"))


def reduced_pod(raw: Mapping[str, Any]) -> ReducedPod:
    """The part of a raw pod that placement reads."""
    if isinstance(raw, ReducedPod):
        return raw
    made = ReducedPod()
    for key, part in (("metadata", _metadata), ("spec", _spec), ("status", _status)):
        _put(made, raw, key, part)
    return made


def _metadata(raw: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: raw[key] for key in _METADATA if key in raw}
    _put(made, raw, "labels", _ours)
    _put(made, raw, "annotations", _ours)
    return made


def _spec(raw: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: raw[key] for key in _SPEC if key in raw}
    _put(made, raw, "resources", _resources)
    for key in ("containers", "initContainers"):
        found = raw.get(key)
        if found is not None:
            made[key] = _containers(found)
    return made


def _containers(found: Any) -> Any:
    """Containers that name a resource which gives GPUs, or whose resources cannot be read; the others count nothing."""
    if not isinstance(found, list | tuple) or not all(isinstance(item, Mapping) for item in found):
        return found
    reduced = [_container(item) for item in found]
    return [item for item in reduced if item.get("resources", {}) != {}]


def _container(raw: Mapping[str, Any]) -> dict[str, Any]:
    made = {"restartPolicy": raw["restartPolicy"]} if "restartPolicy" in raw else {}
    _put(made, raw, "resources", _resources)
    return made


def _resources(raw: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key in ("requests", "limits"):
        _put(made, raw, key, _giving_gpus)
    return {key: value for key, value in made.items() if value != {}}


def _status(raw: Mapping[str, Any]) -> dict[str, Any]:
    made = {"phase": raw["phase"]} if "phase" in raw else {}
    found: Any = raw.get("conditions")
    if isinstance(found, list | tuple) and len(found) > MOST_ITEMS:  # whatever stands in it, too many are not read
        found = [{}] * len(found)
    elif isinstance(found, list | tuple) and all(isinstance(item, Mapping) for item in found):
        scheduled = [item for item in found if item.get("type") == "PodScheduled"]
        kept = ("type", "status", "reason")
        found = [{key: item[key] for key in kept if key in item} for item in scheduled[:1]]
    return made | ({"conditions": found} if found is not None else {})


def _giving_gpus(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if gives_gpus(str(key))}


def _ours(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if str(key).startswith(_PREFIX)}


def _put(made: dict[str, Any], raw: Mapping[str, Any], key: str, part: Callable[[Mapping[str, Any]], Any]) -> None:
    found = raw.get(key)
    if isinstance(found, Mapping):
        found = part(found)
    if found is not None:
        made[key] = found
