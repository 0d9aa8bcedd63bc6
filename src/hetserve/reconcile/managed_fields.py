"""Who holds which field of a Deployment: all of ours are to be held by apply, whatever verb wrote them.

A field that a plain update wrote stays when a later apply leaves it out. So what our manager holds by updates (a
creation, a whole spec put back) is handed over to its apply, as kubectl does for objects of its older versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetserve.api import names

Json = dict[str, Any]


def handed_over(raw: Mapping[str, Any]) -> list[Json] | None:
    """managedFields of an object with all that is ours held by apply, or None where it is so already."""
    entries: list[Json] = list(raw["metadata"].get("managedFields") or ())
    ours = [entry for entry in entries if _is_ours(entry)]
    if not any(entry["operation"] == "Update" for entry in ours):
        return None
    fields: Json = {}
    for entry in ours:
        fields = _union(fields, entry.get("fieldsV1") or {})
    apply = {**ours[-1], "operation": "Apply", "fieldsV1": fields}
    return [apply, *(entry for entry in entries if not _is_ours(entry))]


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == names.FIELD_MANAGER and not entry.get("subresource")


def _union(one: Json, other: Json) -> Json:
    """Of two trees of fields."""
    return {key: _union(one.get(key, {}), other.get(key, {})) for key in {**one, **other}}
