"""Paths of the public measurements."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def reference_data(name: str) -> Path:
    """Path of a file, for example `kairos/latency.csv`, below HETSERVE_DATA or ../shared/data.

    Skips the test if the file is absent, or fails it if HETSERVE_REQUIRE_DATA is 1.
    """
    import pytest

    folder = Path(os.environ.get("HETSERVE_DATA") or REPOSITORY.parent / "shared" / "data")
    path = folder / name
    if path.is_file():
        return path
    missing = f"PUBLIC MEASUREMENTS ABSENT: {name} is not in {folder}; set HETSERVE_DATA to check the figures"
    if os.environ.get("HETSERVE_REQUIRE_DATA") == "1":
        pytest.fail(missing, pytrace=False)
    raise pytest.skip.Exception(missing)
