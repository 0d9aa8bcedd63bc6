"""The rows of docs/conditions.md."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from documented import ROOT
from hetserve.api.conditions import ConditionType, Reason

_ROW: Final = re.compile(r"^\| (True|False|Unknown) \| `(\w+)` \| [^|]+ \| [^|]+ \|$", re.MULTILINE)


class DocumentedReason(NamedTuple):
    condition: ConditionType
    status: str
    reason: Reason


def documented_reasons() -> dict[ConditionType, list[DocumentedReason]]:
    """The reasons of each condition that has a section on the page, in their order."""
    sections = (ROOT / "docs" / "conditions.md").read_text().split("\n## ")[1:]
    named = [(ConditionType(section.partition("\n")[0]), section) for section in sections]
    return {
        kind: [DocumentedReason(kind, status, Reason(reason)) for status, reason in _ROW.findall(section)]
        for kind, section in named
    }


DOCS: Final = tuple(row for rows in documented_reasons().values() for row in rows)
