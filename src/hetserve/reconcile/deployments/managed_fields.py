"""Hands fields in managedFields over from our updates to our apply.

Apply removes only fields that apply wrote. So fields from our replacements are handed over first, as
kubectl does for objects of its older versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetserve.api import names
from hetserve.base.nesting import too_deep

Json = dict[str, Any]


def handed_over(raw: Mapping[str, Any]) -> list[Json] | None:
    """managedFields with all our fields held by apply, or None if they are already."""
    written: list[Json] = list(raw["metadata"].get("managedFields") or ())
    entries = [entry for entry in written if too_deep(entry.get("fieldsV1")) is None]  # others name no field
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
    """Union of two trees of fields."""
    return {key: _union(one.get(key, {}), other.get(key, {})) for key in {**one, **other}}
