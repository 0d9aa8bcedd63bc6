"""A pod cut down to the fields that placement reads. Fields of wrong types stay, so that reading them fails alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hetserve.api import names
from hetserve.objects.fields import LISTS, MOST_ITEMS, is_list_of_objects
from hetserve.objects.metadata import RawObject
from hetserve.objects.pod import TEMPLATE_HASH
from hetserve.objects.resources import CONTAINERS, gives_gpus

_METADATA: Final = ("name", "generateName", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
_SPEC: Final = ("nodeName", "priority", "schedulerName", "schedulingGates")
_CONDITION: Final = ("type", "status", "reason")
_PREFIX: Final = f"{names.GROUP}/"


def reduced_pod(raw: RawObject) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, part in (("metadata", _metadata), ("spec", _spec), ("status", _status)):
        _put(made, raw, key, part)
    return made


def _metadata(raw: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: raw[key] for key in _METADATA if key in raw}
    _put(made, raw, "labels", _labels)
    _put(made, raw, "annotations", _ours)
    return made


def _spec(raw: Mapping[str, Any]) -> dict[str, Any]:
    made = {key: raw[key] for key in _SPEC if key in raw}
    _put(made, raw, "resources", _resources)
    for key in CONTAINERS:
        found = raw.get(key)
        if found is not None:
            made[key] = _containers(found)
    return made


def _containers(found: Any) -> Any:
    if not is_list_of_objects(found):
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
    if isinstance(found, LISTS) and len(found) > MOST_ITEMS:
        found = [{}] * len(found)
    elif is_list_of_objects(found):
        scheduled = [item for item in found if item.get("type") == "PodScheduled"]
        found = [{key: item[key] for key in _CONDITION if key in item} for item in scheduled[:1]]
    return made | ({"conditions": found} if found is not None else {})


def _giving_gpus(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if gives_gpus(str(key))}


def _labels(raw: Mapping[str, Any]) -> dict[str, Any]:
    return _ours(raw) | ({TEMPLATE_HASH: raw[TEMPLATE_HASH]} if TEMPLATE_HASH in raw else {})


def _ours(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if str(key).startswith(_PREFIX)}


def _put(made: dict[str, Any], raw: Mapping[str, Any], key: str, part: Callable[[Mapping[str, Any]], Any]) -> None:
    found = raw.get(key)
    if type(found) is dict or isinstance(found, Mapping):
        found = part(found)
    if found is not None:
        made[key] = found
