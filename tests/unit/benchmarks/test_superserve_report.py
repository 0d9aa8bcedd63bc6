"""What the report of SuperServe's figures is made of: its cells, its traces and its verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.superserve.parts import cells
from benchmarks.superserve.results import PARTS, Row, near, rows
from benchmarks.superserve.setting import bursty, figures, play, policy, recorded, system

from testing.data import reference_data


def test_the_cells_are_three_hundred_different_ones_within_their_ranges() -> None:
    drawn = cells.drawn()
    assert len(set(drawn)) == cells.CELLS
    for cell in drawn:
        assert 1 <= cell.cv2 <= 64
        assert 0.2 <= cell.load <= 0.85
        assert 0.01 <= cell.slo <= 2


def test_a_recording_keeps_the_rate_and_no_part_goes_beyond_the_peak() -> None:
    reference_data("superserve/azure_llm2023_conv_arrivals.csv")
    times = recorded("conv", 1000.0, 29.0, peak=1400.0)
    assert len(times) == pytest.approx(29_000, rel=0.02)
    assert np.histogram(times, 29)[0].max() < 1.15 * 1400


def test_slackfit_and_max_batch_serve_as_the_reference_and_the_most_accurate_first_cannot_keep_up() -> None:
    reference_data("superserve/profile_synthetic_2080ti.csv")
    times = bursty(6402.0, 2.0, 10.0)
    found = {name: figures(play(policy(name), times, system()))._asdict() for name in ("slackfit", "max-batch")}
    assert near(found["slackfit"], "1.0 / 79.25")
    assert near(found["max-batch"], "1.0 / 79.46")
    assert near(figures(play(policy("max-accuracy"), times, system()))._asdict(), ".645 / 75.42")
    assert near(figures(play(policy("infaas"), times, system()))._asdict(), "1.0 / 73.82")


def test_a_miss_is_in_bold() -> None:
    text = rows([Row("a", "1", "", "1", held=True), Row("b", "1", "", "0", held=False), Row("c", "", "", "0")])
    assert [line.split("|")[5].strip() for line in text.splitlines()[2:]] == ["held", "**missed**", ""]
    assert not near({"attainment": 0.99, "accuracy": 79.25}, "1.0 / 79.25")
    assert len(set(PARTS)) == len(PARTS)
