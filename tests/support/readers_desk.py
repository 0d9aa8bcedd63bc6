"""What a reader of the pages has by the time that a command asks for it: files, and a decision on record."""

from __future__ import annotations

from typing import Any, Final

from documented import FENCED, ROOT
from hetserve.api.names import API_VERSION
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.record import decided_on_record
from hetserve.scaling.record.ring import appended, ring_manifest
from testing.scaling import facts, steady

DAY: Final = "time_s,qps\n0,40\n60,40\n120,40\n180,40\n"
"""A load trace."""


def from_page(page: str, *, language: str) -> list[str]:
    """The blocks of that language on a page of docs/."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [block for found, block in FENCED.findall(text) if found == language]


def runs_of_sharing() -> str:
    """The page's measurements, each often enough to be fitted."""
    heading, *rows = "".join(from_page("how-to-measure-sharing.md", language="csv")).splitlines()
    return "\n".join([heading, *rows * 20]) + "\n"


def decisions_of_resnet50(uid: str) -> dict[str, Any]:
    """The ConfigMap of what the load decided for service team/resnet50. uid: the service's."""
    _, made = decided_on_record("resnet50", "team", facts(steady(60.0), {"t4": 2}), Answers())
    assert made is not None
    owner = {"apiVersion": API_VERSION, "kind": "InferenceService", "name": "resnet50", "uid": uid}
    return ring_manifest(appended((), made), "resnet50", "team", owner)
