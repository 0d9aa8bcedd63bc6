"""Values that only the type checker freezes: they compare and hash by their fields, and nobody may change one."""

from __future__ import annotations

from dataclasses import replace

from hetserve.base.units import MiB
from hetserve.placement.pods.requests import GpuRequest

REQUEST = GpuRequest("uid", "default", "pod", MiB(4096))


def test_values_with_equal_fields_are_equal_and_found_in_a_set() -> None:
    assert replace(REQUEST) == REQUEST
    known = {REQUEST: 1, replace(REQUEST, uid="other"): 2}
    assert known[replace(REQUEST)] == 1


def test_the_type_checker_refuses_a_change() -> None:
    mine = replace(REQUEST)
    mine.name = "other"  # type: ignore[misc]  # needed: were fields not frozen, the checker would call it unused
    assert mine != REQUEST
    assert not hasattr(mine, "__dict__")
