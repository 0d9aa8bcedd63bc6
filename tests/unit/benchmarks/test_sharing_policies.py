"""The comparison of placement policies where both resources are booked: equal seeds, equal figures, one row each."""

from __future__ import annotations

import pytest
from benchmarks.sharing.parts import policies


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "ARRIVALS", 120)
    monkeypatch.setattr(policies, "MIXES", {"independent": policies.MIXES["independent"]})


def test_equal_seeds_give_equal_figures_and_every_policy_meets_the_same_arrivals() -> None:
    data = policies.measure(quick=True)
    assert data == policies.measure(quick=True)
    for seed in data["mixes"]["independent"]:
        assert set(seed) == set(policies.POLICIES)
        for row in seed.values():
            assert all(0 <= row[f"refused {load}"] <= 1 for load in policies.LOADS)
            assert 0 < row["filled"] <= policies.ARRIVALS
    assert data["mixes"]["independent"][0] != data["mixes"]["independent"][1]


def test_the_page_has_a_row_per_policy_beside_the_default() -> None:
    text = policies.describe(policies.measure(quick=True))
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == list(policies.POLICIES)
    assert rows[0].endswith("| 0 | 0 |"), "the default refuses neither fewer nor more than itself"
    assert "*Independent:*" in text
