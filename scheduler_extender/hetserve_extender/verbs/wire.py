"""The scheduler's extender protocol (k8s.io/kube-scheduler/extender/v1) as JSON.

Its Go structs have no JSON tags. Writes capitalised keys, reads any case, and answers in the form received: NodeNames,
whole Nodes, or both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from http import HTTPStatus
from operator import getitem
from typing import Any, Final

import orjson

from hetserve.placement.decision.decide import MAX_SCORE
from hetserve.sanitize import sanitize
from hetserve_shell.http.limits import HttpError

RawObject = dict[str, Any]
MAX_NAME = 253
MAX_NODES: Final = 10_000
"""Nodes per call: twice those of the largest cluster that Kubernetes supports."""
MAX_VALUES: Final = 100_000
"""JSON values in a request: each takes up to 300 bytes and 1 us."""
_SMALL: Final = 256 * 1024
"""Bytes that need no count of their values."""


class HostEntries(dict[str, tuple[bytes, ...]]):
    """Cache of HostPriorityList entries by host and score: ten times as fast as writing them."""

    _MOST: Final = 8192
    """Hosts kept; Kubernetes supports 5,000 nodes."""

    def __missing__(self, host: str) -> tuple[bytes, ...]:
        written = orjson.dumps(host)  # alone: orjson keeps 1 KiB for each result
        made = tuple(b'{"Host":%b,"Score":%d}' % (written, score) for score in range(MAX_SCORE + 1))
        if len(self) >= self._MOST:
            self.clear()
        if len(host) <= MAX_NAME:
            self[host] = made
        return made


_entries: Final = HostEntries()


class WireError(HttpError):
    """An invalid request; the text names the field."""

    def __init__(self, text: str) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST, text)


@dataclass(frozen=True, slots=True)
class FilterArgs:
    """ExtenderArgs; `nodes` is None if only names were sent."""

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


class PassedNames:
    """The nodes that the last filter passed, as written, so that its prioritize needs no parsing."""

    MOST: Final = 2 << 20
    """Bytes kept: 5,000 nodes with the longest names."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._end = b""

    def keep(self, names: tuple[str, ...], written: bytes) -> None:
        self._names, self._end = ((), b"") if len(written) > self.MOST else (names, b',"NodeNames":%b}' % written)

    def request(self, body: bytes) -> RawObject | None:
        """The request if it ends with these names, else None."""
        if not self._end or not body.endswith(self._end):
            return None
        try:  # the rest must be a whole object by itself
            content = orjson.loads(body[: -len(self._end)] + b"}")
        except orjson.JSONDecodeError:
            return None
        return content | {"NodeNames": self._names} if content else None


def parse_filter(body: bytes, passed: PassedNames | None = None) -> FilterArgs:
    """Parses the arguments of filter or prioritize. Raises WireError.

    passed: the names of the last filter.
    """
    _check_size(body)
    content = passed.request(body) if passed is not None else None
    if content is None:
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
    """Parses the arguments of bind. Raises WireError."""
    _check_size(body)
    content = _object(_load(body), "the request")
    name, namespace, uid, node = (
        _name(_field(content, key), key) for key in ("PodName", "PodNamespace", "PodUID", "Node")
    )
    return BindArgs(name, namespace, uid, node)


def filter_result(
    args: FilterArgs, passed: Sequence[str], unresolvable: Mapping[str, str], keep: PassedNames | None = None
) -> bytes:
    """ExtenderFilterResult in the form of the request; `keep` receives the passed names."""
    nodes = None
    if args.nodes is not None:
        chosen = set(passed)
        items = [node for node, name in zip(args.nodes, args.names, strict=True) if name in chosen]
        nodes = {"metadata": {}, "items": items}
    names = orjson.dumps(passed) if args.by_name else b"null"
    if keep is not None and args.by_name and isinstance(passed, tuple):
        keep.keep(passed, names)
    return _filter_result(nodes, orjson.Fragment(names), unresolvable, "")


def filter_error(text: str) -> bytes:
    """ExtenderFilterResult of an undecided call; the pod's cycle fails with this text."""
    return _filter_result(None, None, {}, sanitize(text))


def _filter_result(nodes: object, names: object, unresolvable: Mapping[str, str], error: str) -> bytes:
    result = {"Nodes": nodes, "NodeNames": names, "FailedNodes": {}, "Error": error}
    return orjson.dumps(result | {"FailedAndUnresolvableNodes": unresolvable})


def priorities(scores: Mapping[str, int]) -> bytes:
    return b"[%b]" % b",".join(map(getitem, map(_entries.__getitem__, scores), scores.values()))


def bind_result(error: str) -> bytes:
    """ExtenderBindingResult; empty: bound."""
    return orjson.dumps({"Error": sanitize(error)})


def _check_size(body: bytes) -> None:
    """Refuses too many values; each but the first follows a comma or a bracket."""
    if len(body) <= _SMALL:
        return
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_VALUES:
        raise WireError(f"the request may hold more than {MAX_VALUES} JSON values")


def _load(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise WireError(f"the request is not JSON: {error}") from None


def _field(content: RawObject, key: str) -> Any:
    if key in content:
        return content[key]
    lower = key.lower()
    return next((value for other, value in content.items() if other.lower() == lower), None)


def _object(value: object, field: str) -> RawObject:
    if not isinstance(value, dict):
        raise WireError(f"{field} is not an object")
    return value


def _check_names(names: object) -> None:
    # A set of types: a thousand names per call.
    if isinstance(names, tuple):  # checked before
        return
    if not isinstance(names, list) or not set(map(type, names)) <= {str}:
        raise WireError("NodeNames is not a list of texts")
    _check_count(names, "NodeNames")


def _check_count(nodes: Sized, field: str) -> None:
    if len(nodes) > MAX_NODES:
        raise WireError(f"{field} has {len(nodes)} entries; at most {MAX_NODES} are served")


def _node_items(nodes: object) -> list[RawObject]:
    items = _field(_object(nodes, "Nodes"), "items")
    if items is None:
        return []
    if not isinstance(items, list):
        raise WireError("Nodes.items is not a list")
    _check_count(items, "Nodes.items")
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
