"""Compares a CRD of the cluster with that of this version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hetserve.api.names import VERSION

MOST: Final = 4
_COMPARED: Final = ("schema", "subresources", "additionalPrinterColumns")


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Paths at which the schema, subresources or columns differ, at most MOST; the whole version where it is absent.

    found: as the API server returns it. wanted: as rendered. Equal numbers are equal, written as 1 or 1.0.
    """
    there, ours = _version(found), _version(wanted)
    if there is None or ours is None:
        return (f"version {VERSION}",)
    paths: list[str] = []
    for part in _COMPARED:
        for path in _differing(there.get(part), ours.get(part), ""):
            paths.append(path.removeprefix(".openAPIV3Schema") or part)
            if len(paths) == MOST:
                return tuple(paths)
    return tuple(paths)


def _version(crd: Mapping[str, Any]) -> Mapping[str, Any] | None:
    versions = (crd.get("spec") or {}).get("versions") or ()
    return next((one for one in versions if one.get("name") == VERSION and one.get("served")), None)


def _differing(found: Any, wanted: Any, path: str) -> Iterator[str]:
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for key in sorted(found.keys() | wanted.keys()):
            below = path if key == "properties" else f"{path}.{key}"
            if key not in found or key not in wanted:
                yield below
            else:
                yield from _differing(found[key], wanted[key], below)
    elif found != wanted:
        yield path
