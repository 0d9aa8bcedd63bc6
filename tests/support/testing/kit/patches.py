"""JSON patches (RFC 6902) and merge patches (RFC 7386) as the API server carries them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetserve_shell.kube.client import ApiStatusError

Json = dict[str, Any]


def json_patched(found: Json, operations: Sequence[Json]) -> Json:
    """Changes `found` in place by test, add, replace and remove. Raises ApiStatusError."""
    for operation in operations:
        *parents, last = (_unescaped(part) for part in operation["path"].split("/")[1:])
        target: Any = found
        for part in parents:
            target = _at(target, part)
            if target is None:
                raise _unprocessable(f"the path {operation['path']} does not exist")
        _perform(operation, target, last)
    return found


def merged(before: Any, patch: Any) -> Any:
    """`before` with a merge patch; null removes."""
    if not isinstance(patch, dict):
        return patch
    result = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _perform(operation: Json, target: Any, last: str) -> None:
    known = _at(target, last)
    match operation["op"]:
        case "test":
            if known != operation["value"]:
                raise _unprocessable(f"testing value {operation['path']} failed")
        case "remove":
            if known is None:
                raise _unprocessable(f"unable to remove nonexistent key: {last}")
            del target[int(last) if isinstance(target, list) else last]
        case "add" if isinstance(target, list):
            target.insert(len(target) if last == "-" else int(last), operation["value"])
        case "add" | "replace":
            target[int(last) if isinstance(target, list) else last] = operation["value"]


def _at(target: Any, last: str) -> Any:
    if not isinstance(target, list):
        return target.get(last)
    return target[int(last)] if last.isdigit() and int(last) < len(target) else None


def _unprocessable(message: str) -> ApiStatusError:
    return ApiStatusError(422, "Invalid", message)


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
