"""The scheduler's extender protocol (k8s.io/kube-scheduler/extender/v1), as JSON on the wire.

Its Go structs carry no JSON tags: keys are capitalised Go names, and Go reads them in any case. We write the
capitalised form, read any case, and answer in the form received: NodeNames, whole Nodes, or both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

RawObject = dict[str, Any]
MAX_NAME = 253


class WireError(ValueError):
    """A request that is not of the protocol; the text names the field."""


@dataclass(frozen=True, slots=True)
class FilterArgs:
    """ExtenderArgs of filter and prioritize; `nodes` is None where only names were sent."""

    pod: RawObject
    names: tuple[str, ...]
    nodes: tuple[RawObject, ...] | None = None
    by_name: bool = True


@dataclass(frozen=True, slots=True)
class BindArgs:
    """ExtenderBindingArgs."""

    name: str
    namespace: str
    uid: str
    node: str


def parse_filter(body: bytes) -> FilterArgs:
    """Arguments of filter or prioritize. Raises WireError, naming the field, for anything else."""
    content = _object(_load(body), "the request")
    pod = _object(_field(content, "Pod"), "Pod")
    names = _field(content, "NodeNames")
    nodes = _field(content, "Nodes")
    if nodes is None and names is None:
        raise WireError("neither NodeNames nor Nodes is given")
    if names is not None:
        _check_names(names)
    if nodes is None:
        return FilterArgs(pod, tuple(names))
    items = _node_items(nodes)
    listed = tuple(_node_name(item, index) for index, item in enumerate(items))
    return FilterArgs(pod, listed, tuple(items), by_name=names is not None)


def parse_bind(body: bytes) -> BindArgs:
    """Arguments of bind. Raises WireError, naming the field, for anything else."""
    content = _object(_load(body), "the request")
    name, namespace, uid, node = (
        _name(_field(content, key), key) for key in ("PodName", "PodNamespace", "PodUID", "Node")
    )
    return BindArgs(name, namespace, uid, node)


def filter_result(
    args: FilterArgs, passed: Sequence[str], failed: Mapping[str, str], unresolvable: Mapping[str, str]
) -> bytes:
    """ExtenderFilterResult in the form of the request."""
    chosen = set(passed)
    nodes = None
    if args.nodes is not None:
        items = [node for node, name in zip(args.nodes, args.names, strict=True) if name in chosen]
        nodes = {"metadata": {}, "items": items}
    return orjson.dumps(
        {
            "Nodes": nodes,
            "NodeNames": list(passed) if args.by_name else None,
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": unresolvable,
            "Error": "",
        }
    )


def filter_error(text: str) -> bytes:
    """ExtenderFilterResult of a call that could not be decided: the pod's cycle fails with this text."""
    return orjson.dumps(
        {
            "Nodes": None,
            "NodeNames": None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {},
            "Error": text,
        }
    )


def priorities(scores: Mapping[str, int]) -> bytes:
    """HostPriorityList: a bare array."""
    return orjson.dumps([{"Host": host, "Score": score} for host, score in scores.items()])


def bind_result(error: str) -> bytes:
    """ExtenderBindingResult; an empty text means bound."""
    return orjson.dumps({"Error": error})


def _load(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise WireError(f"the request is not JSON: {error}") from None


def _field(content: RawObject, key: str) -> Any:
    """Value under the Go name, else under any other case of it, as Go's decoder does."""
    if key in content:
        return content[key]
    lower = key.lower()
    return next((value for other, value in content.items() if other.lower() == lower), None)


def _object(value: object, field: str) -> RawObject:
    if not isinstance(value, dict):
        raise WireError(f"{field} is not an object")
    return value


def _check_names(names: object) -> None:
    # By the set of types: a thousand names are checked at every call.
    if not isinstance(names, list) or not set(map(type, names)) <= {str}:
        raise WireError("NodeNames is not a list of texts")


def _node_items(nodes: object) -> list[RawObject]:
    items = _field(_object(nodes, "Nodes"), "items")
    if items is None:
        return []
    if not isinstance(items, list):
        raise WireError("Nodes.items is not a list")
    return items


def _node_name(item: object, index: int) -> str:
    metadata = _object(item, f"Nodes.items[{index}]").get("metadata")
    return _name(_object(metadata, f"Nodes.items[{index}].metadata").get("name"), f"Nodes.items[{index}] name")


def _name(value: object, field: str) -> str:
    if not isinstance(value, str) or not value:
        raise WireError(f"{field} is missing or not a text")
    if len(value) > MAX_NAME or not value.isprintable() or "/" in value or value in {".", ".."}:
        raise WireError(f"{field} is not a name of Kubernetes")
    return value
