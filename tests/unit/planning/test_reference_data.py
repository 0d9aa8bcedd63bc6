from __future__ import annotations

from pathlib import Path

import pytest

from testing.data import reference_data


def test_absent_data_skips_with_a_line_that_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETSERVE_DATA", str(tmp_path))
    monkeypatch.delenv("HETSERVE_REQUIRE_DATA", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"PUBLIC MEASUREMENTS ABSENT: kairos/x\.csv .* set HETSERVE_DATA"):
        reference_data("kairos/x.csv")


def test_absent_data_fails_where_it_is_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETSERVE_DATA", str(tmp_path))
    monkeypatch.setenv("HETSERVE_REQUIRE_DATA", "1")
    with pytest.raises(pytest.fail.Exception, match="PUBLIC MEASUREMENTS ABSENT"):
        reference_data("kairos/x.csv")


def test_present_data_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").touch()
    monkeypatch.setenv("HETSERVE_DATA", str(tmp_path))
    assert reference_data("x.csv") == tmp_path / "x.csv"
