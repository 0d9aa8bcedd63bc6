"""Arrivals in bursts and on a ramp: their rates, their gaps, and what is no such arrivals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.demand import BatchMix
from hetserve.registry.choices import Arrivals
from hetserve.simulation.arrivals import Bursty, Ramp, Traced, parse_arrivals
from hetserve.simulation.workload import Recording, draw_workload, read_recording

MIX = BatchMix.of([(1, 1.0)])
rates = st.floats(0.1, 1e4)
cv2s = st.one_of(st.just(0.0), st.floats(0.01, 64.0))
traced = st.one_of(
    st.builds(Bursty, st.one_of(st.just(0.0), rates), rates, cv2s),
    st.builds(Bursty, rates, st.just(0.0), cv2s),
    st.builds(Ramp, rates, rates, st.floats(1e-3, 1e5), cv2s),
)


def times(arrivals: Traced, queries: int, seed: int = 3) -> np.ndarray:
    return arrivals.times(queries, np.random.Generator(np.random.PCG64(seed)))


@given(arrivals=traced, queries=st.integers(1, 300), seed=st.integers(0, 9))
def test_times_rise_from_0_on_and_are_those_of_the_seed(arrivals: Traced, queries: int, seed: int) -> None:
    found = times(arrivals, queries, seed)
    assert len(found) == queries
    assert np.isfinite(found).all()
    assert found[0] >= 0
    assert (np.diff(found) >= 0).all()
    assert np.array_equal(found, times(arrivals, queries, seed))


@given(arrivals=traced)
def test_the_text_of_arrivals_is_read_as_them(arrivals: Traced) -> None:
    read = parse_arrivals(str(arrivals))
    assert read is not None
    assert str(read) == str(arrivals)


@given(arrivals=traced, queries=st.integers(2, 300))
def test_at_their_own_rate_a_workload_has_the_times_that_were_drawn(arrivals: Traced, queries: int) -> None:
    workload = draw_workload(MIX, queries, 3, arrivals)
    rate = arrivals.rate(queries)
    assert workload.times(rate)[-1] == pytest.approx(2 * workload.times(2 * rate)[-1])
    assert workload.arrivals is arrivals.kind


def test_without_bursts_queries_come_at_equal_gaps() -> None:
    assert times(Bursty(4.0, 0.0, 0.0), 4) == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert times(Bursty(4.0, 4.0, 0.0), 4) == pytest.approx([0.25, 0.25, 0.5, 0.5]), "two even streams at once"


@pytest.mark.parametrize("cv2", [0.5, 2.0, 8.0])
def test_bursts_have_the_rate_and_the_spread_that_are_asked_for(cv2: float) -> None:
    gaps = np.diff(times(Bursty(0.0, 100.0, cv2), 200_000))
    assert gaps.mean() == pytest.approx(0.01, rel=0.05)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(cv2, rel=0.1)


def test_the_even_stream_runs_beside_the_bursts() -> None:
    found = times(Bursty(1500.0, 4900.0, 2.0), 64_000)
    assert 64_000 / found[-1] == pytest.approx(6400, rel=0.02)
    even = np.arange(1, int(found[-1] * 1500)) / 1500
    assert np.isin(even, found).all(), "its times are there as they are"


@pytest.mark.parametrize(("first", "last"), [(2500.0, 7400.0), (7400.0, 2500.0)])
def test_a_ramp_rises_by_its_acceleration_and_then_stays(first: float, last: float) -> None:
    ramp = Ramp(first, last, 250.0, 0.0)
    found = times(ramp, 150_000)
    until = abs(last - first) / 250.0
    for at in (0.25, 0.5, 0.75):
        counted = np.count_nonzero(np.abs(found - at * until) < 0.5)
        assert counted == pytest.approx(first + (last - first) * at, rel=0.01)
    assert np.count_nonzero((found > until) & (found <= until + 2)) == pytest.approx(2 * last, rel=0.01)


def test_a_ramp_that_never_ends_is_one_rate_that_grows() -> None:
    found = times(Ramp(1.0, 1e9, 2.0, 0.0), 99)
    assert found == pytest.approx([(np.sqrt(1 + 4 * n) - 1) / 2 for n in range(1, 100)]), "n = t + t^2"


def test_a_ramp_between_equal_rates_is_an_even_stream() -> None:
    assert times(Ramp(5.0, 5.0, 1.0, 0.0), 5) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert Ramp(5.0, 5.0, 1.0, 8.0).rate(1000) == pytest.approx(5.0)


def test_of_a_ramp_no_trend_of_a_backlog_is_judged() -> None:
    assert not Ramp.kind.is_steady
    assert Bursty.kind.is_steady
    assert not Recording.kind.is_steady


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bursty:1500,5500", "has 2 numbers after the colon; write bursty:BASE,VAR,CV2"),
        ("bursty", "has 1 numbers after the colon"),
        ("bursty:1500,5500,8,", "has 4 numbers"),
        ("bursty:1500,many,8", "VAR 'many' is not a number; write bursty:BASE,VAR,CV2"),
        ("bursty:-1,5500,8", "BASE -1 must be from 0 to 1e.09 queries/s"),
        ("bursty:1500,nan,8", "VAR nan must be"),
        ("bursty:0,0,8", "BASE and VAR are both 0"),
        ("bursty:1500,5500,-1", "CV2 -1 must be from 0 .equal gaps. to 1000"),
        ("bursty:1500,5500,1e9", "CV2 1e.09 must be"),
        ("ramp:2500,7400,250", "has 3 numbers after the colon; write ramp:Q1,Q2,TAU,CV2"),
        ("ramp:0,7400,250,8", "Q1 0 must be above 0"),
        ("ramp:2500,inf,250,8", "Q2 inf must be above 0 and at most 1e.09 queries/s"),
        ("ramp:2500,7400,0,8", "TAU 0 must be above 0"),
        ("ramp:2500,7400,-250,8", "TAU -250 must be above 0"),
        ("ramp:2500,7400,1_0,8", "TAU '1_0' is not a number"),
    ],
)
def test_what_is_no_arrivals_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_arrivals(text)


def test_other_texts_are_left_to_others() -> None:
    assert parse_arrivals("queries.csv") is None
    assert parse_arrivals("exponential") is None


@pytest.mark.parametrize("kind", [Arrivals.RECORDED, Arrivals.BURSTY, Arrivals.RAMP])
def test_what_needs_numbers_is_not_drawn_by_its_name(kind: Arrivals) -> None:
    with pytest.raises(ValueError, match=f"{kind} arrivals are not drawn by their name"):
        draw_workload(MIX, 10, 1, kind)


def test_a_file_of_times_alone_needs_no_header(tmp_path: Path) -> None:
    path = tmp_path / "times.txt"
    path.write_text("0.5\n1.5\n2.5\n", encoding="utf-8")
    assert read_recording(path) == Recording((0.5, 1.5, 2.5))
    path.write_text("arrival_s\n0.5\n1.5\n2.5\n", encoding="utf-8")
    assert read_recording(path) == Recording((0.5, 1.5, 2.5))
    path.write_text("0.5\n1.5\nsoon\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"times.txt, line 3, column time: 'soon' is not a number of seconds"):
        read_recording(path)
