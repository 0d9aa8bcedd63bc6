"""What kstatus makes of an object by its generic rules: those of a kind that it has no rules of its own for.

Written from its documentation, https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md, to
judge our statuses independently of how they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ONE_OF = {"Ready": "Current", "Reconciling": "InProgress", "Stalled": "Failed"}
"""What an object is by the one of the three conditions that is True."""


def kstatus(raw: Mapping[str, Any]) -> str:
    """Current, InProgress, Failed or Terminating."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != metadata.get("generation"):
        return "InProgress"
    found = {c["type"]: c["status"] for c in status.get("conditions") or ()}
    if found.get("Reconciling") == "True":
        return "InProgress"
    if found.get("Stalled") == "True":
        return "Failed"
    # Without a condition of that name nothing is known to be missing: this is why a status needs its default.
    return "Current" if found.get("Ready", "True") == "True" else "InProgress"


def the_one_that_is_true(status: Mapping[str, Any]) -> str:
    """Which of Ready, Reconciling and Stalled is True; an AssertionError where that is not exactly one."""
    found = {c["type"]: c["status"] for c in status["conditions"]}
    assert found.keys() >= ONE_OF.keys(), f"of {list(ONE_OF)} only {sorted(found.keys() & ONE_OF.keys())} are told"
    (one,) = (kind for kind in ONE_OF if found[kind] == "True")
    return one
