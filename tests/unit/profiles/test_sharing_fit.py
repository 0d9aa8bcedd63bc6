"""Compute shares and factors fitted to runs whose truth is known."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.base.csv_rows import CsvError
from hetserve.profiles.measurements import read_measurements
from hetserve.profiles.sharing_fit import SharingFit, fit_sharing, share_source, sharing_fields
from sharing_runs import HEADER, copies_of, file_of, lines


def fit(text: str, batch: int | None = None) -> SharingFit:
    return fit_sharing(read_measurements(text, "s.csv", "a", "t4"), "MPS", batch)


@pytest.mark.parametrize("share", [0.4, 0.5, 0.571, 0.9, 1.0])
def test_without_noise_the_share_is_exact(share: float) -> None:
    fitted = fit(file_of(copies_of(share)))
    assert fitted.share.share.value == pytest.approx(share, rel=1e-6)
    assert fitted.share.stated == pytest.approx(share * 1e6, abs=100)


def test_a_share_is_stated_at_the_upper_end_of_its_interval_and_within_one() -> None:
    noisy = fit(file_of(copies_of(0.571, noise=0.1))).share
    assert noisy.share.low < noisy.share.value < noisy.share.high
    assert noisy.share.high * 1e6 <= noisy.stated < noisy.share.high * 1e6 + 101
    assert fit(file_of(copies_of(1.0, noise=0.1, seed=1))).share.stated == 1_000_000


def test_interference_of_copies_does_not_hide_the_share() -> None:
    """Two copies are slowed by interference (1.2), three by compute (3 u = 1.71)."""
    runs = [lines(), lines(1.2, copies=2), lines(3 * 0.571, copies=3)]
    assert fit(file_of(*runs)).share.share.value == pytest.approx(0.571)


def test_copies_that_do_not_slow_each_other_leave_the_share_open_and_say_so() -> None:
    fitted = fit(file_of(copies_of(0.1, most=3)))
    assert fitted.share.share.value == pytest.approx(1 / 3), "no more than 1 / 3, or three copies would be slowed"
    assert fitted.notes == (
        "the throughput of 3 copies is 50 % above that of 2: the share can be less than 0.333; run 4 copies to know",
    )
    assert fit(file_of(copies_of(0.571))).notes == ()


@pytest.mark.parametrize("stretch", [0.85, 1.0])
def test_copies_show_no_share_below_one_of_their_number(stretch: float) -> None:
    """A clock that warmed up makes the second run faster: two copies still tell of no share below 1 / 2."""
    assert fit(file_of([*lines(), *lines(stretch, copies=2)])).share.stated == 500_000


@pytest.mark.parametrize("runs", [[*lines(0.75, copies=2)], [*lines(1.6, copies=2), *lines(0.75, copies=3)]])
def test_copies_far_faster_than_one_alone_are_refused(runs: list[str]) -> None:
    with pytest.raises(CsvError, match=r"copies of a at batch 8: 0.75 times the latency of one alone; .* measure both"):
        fit(file_of([*lines(), *runs]))


def test_a_model_far_faster_beside_this_one_than_alone_is_refused() -> None:
    with pytest.raises(CsvError, match=r"b at batch 4 beside a at batch 8: 0.75 times the latency of one alone"):
        fit(file_of(copies_of(0.571), lines(model="b", batch=4), beside(0.75)))


def test_copies_that_cost_more_the_more_they_are_say_so() -> None:
    fitted = fit(file_of([*lines(), *lines(1.2, copies=2), *lines(2.1, copies=3)]))
    assert fitted.share.share.value == pytest.approx(0.7)
    assert fitted.notes == (
        "the throughput of 3 copies is 14 % below that of 2, which give a share of 0.600: "
        "the share contains what sharing itself costs",
    )


def test_copies_that_together_serve_less_than_one_share_the_whole_gpu() -> None:
    fitted = fit(file_of([*lines(), *lines(2.5, copies=2)]))
    assert fitted.share.stated == 1_000_000
    assert fitted.notes[-1] == "2 copies together serve less than one alone: sharing this GPU does not pay"


def test_the_share_is_that_at_the_largest_batch_with_copies_or_the_one_asked_for() -> None:
    small = [*lines(batch=4), *lines(1.0, batch=4, copies=2)]
    text = file_of(small, copies_of(0.8), lines(batch=64))
    default, asked = fit(text), fit(text, batch=4)
    assert (default.share.batch, asked.share.batch) == (8, 4)
    assert asked.share.share.value == pytest.approx(0.5)
    assert default.notes == (
        "the share is that at batch 8, and alone up to batch 64 was measured: if larger batches are in the mix, "
        "measure copies at its largest",
    )


def beside(ratio: float, model: str = "b", own_batch: int = 8, **more: Any) -> list[str]:
    return lines(ratio, model=model, batch=4, neighbour="a", neighbour_batch=own_batch, **more)


def test_a_factor_is_on_the_latency_of_the_other_model() -> None:
    slowed = lines(1.5, neighbour="b", neighbour_batch=4)
    fitted = fit(file_of(copies_of(0.5), lines(model="b", batch=4), beside(1.08), slowed))
    (factor,) = fitted.factors
    assert (factor.model, factor.batch, factor.own_batch) == ("b", 4, 8)
    assert factor.factor.value == pytest.approx(1.08, rel=1e-6)
    assert fitted.notes == (
        "100 queries of a beside b are not used: they tell what b does, and belong into its profile (--model b)",
    )


def test_of_several_own_batches_the_factor_is_the_greatest() -> None:
    alone = lines(model="b", batch=4)
    fitted = fit(file_of(copies_of(0.5), alone, beside(1.05, own_batch=4), beside(1.02, own_batch=8)))
    assert [(one.own_batch, one.stated) for one in fitted.factors] == [(4, 1_050_000)]
    assert fitted.notes == ("b was measured beside batch 4 of a, not 8: beside larger batches it can be slower",)


def test_a_neighbour_that_gets_faster_has_a_factor_of_one() -> None:
    (factor,) = fit(file_of(copies_of(0.5), lines(model="b", batch=4), beside(0.9))).factors
    assert factor.stated == 1_000_000


def test_the_fields_are_those_of_a_profile() -> None:
    fitted = fit(file_of(copies_of(0.5), lines(model="b", batch=4), beside(1.08)))
    assert sharing_fields(fitted) == {
        "computeShare": "0.5",
        "sharingMode": "MPS",
        "interference": [{"model": "b", "batch": 4, "factor": "1.08"}],
    }
    assert share_source(fitted.share) == (
        "computeShare at batch 8: 3 copies reach 2.000 (2.000 to 2.000) times the throughput of one"
    )
    assert "interference" not in sharing_fields(fit(file_of(copies_of(0.5))))


COUNTED = "batch,latency,GPU_UTIL,SM_ACTIVE"


def test_a_counter_is_a_first_guess_and_warned_of() -> None:
    fitted = fit(file_of(["8,0.1,36,0.2"], header=COUNTED))
    assert (fitted.share.stated, fitted.share.counter, fitted.share.runs) == (360_000, "GPU_UTIL", ())
    (warning,) = fitted.notes
    assert warning.startswith("computeShare 0.36 is a first guess from GPU_UTIL: a counter tells for how long")
    assert warning.endswith("Measure copies")
    assert share_source(fitted.share) == "computeShare guessed from GPU_UTIL at batch 8, not measured"


def test_copies_count_more_than_any_counter() -> None:
    header = f"{HEADER},SM_ACTIVE"
    rows = [f"{line},0.1" for line in copies_of(0.5)]
    assert fit(file_of(rows, header=header)).share.share.value == pytest.approx(0.5)


REFUSED = {
    "neither copies nor counters": (
        file_of(lines()),
        None,
        "s.csv: no run of copies of a: measure 2 and 3 copies (column copies)",
    ),
    "neighbours only": (
        file_of(lines(), lines(model="b", batch=4), beside(1.1)),
        None,
        "s.csv: no run of copies of a: measure 2 and 3 copies (column copies)",
    ),
    "no copies at the batch": (
        file_of(copies_of(0.5)),
        16,
        "s.csv: no copies of a ran at batch 16; measure them; there are: 8",
    ),
    "copies without one alone": (
        file_of(lines(batch=4), lines(copies=2)),
        None,
        "s.csv: copies of a ran at batch 8, but not one alone; measure it, too",
    ),
    "few copies": (
        file_of(lines(), lines(copies=2, count=19)),
        None,
        "s.csv: 2 copies of a at batch 8: 19 queries; at least 20 are needed to say how sure a mean is",
    ),
    "few beside": (
        file_of(copies_of(0.5), lines(model="b", batch=4), beside(1.1, count=5)),
        None,
        "s.csv: b at batch 4 beside a at batch 8: 5 queries; at least 20 are needed to say how sure a mean is",
    ),
    "a neighbour that never ran alone": (
        file_of(copies_of(0.5), lines(model="b", batch=8), beside(1.1)),
        None,
        "s.csv: b at batch 4 ran beside a, but not alone; measure it, too",
    ),
    "a GPU that did nothing": (
        file_of(["8,0.1,0,0"], header=COUNTED),
        None,
        "s.csv: GPU_UTIL is 0 at batch 8: the GPU did nothing; measure copies",
    ),
    "a counter at another batch": (
        file_of(["8,0.1,5,0"], header=COUNTED),
        4,
        "s.csv: no counter of a at batch 4; measure it; there are: 8",
    ),
}


@pytest.mark.parametrize(("text", "batch", "error"), REFUSED.values(), ids=REFUSED)
def test_runs_that_do_not_suffice_are_named_with_what_to_measure(text: str, batch: int | None, error: str) -> None:
    with pytest.raises(CsvError) as refused:
        fit(text, batch)
    assert error in refused.value.errors


@pytest.mark.deep
def test_the_truth_is_within_the_interval_and_hardly_ever_above_what_is_stated() -> None:
    """95 % nominally, 97.5 % on one side, with noise of which half changes slowly, as a GPU's clock does."""
    runs, within, shares, factors = 100, 0, 0, 0
    for seed in range(runs):
        others = lines(model="b", batch=4, noise=0.08, seed=seed + 100_000)
        slowed = beside(1.08, noise=0.08, seed=seed + 200_000)
        fitted = fit(file_of(copies_of(0.571, noise=0.08, seed=seed), others, slowed))
        within += fitted.share.share.low <= 0.571 <= fitted.share.share.high
        shares += fitted.share.stated >= 571_000
        factors += fitted.factors[0].stated >= 1_080_000
    assert within >= 0.9 * runs, f"the interval held the share {within} times of {runs}"
    assert min(shares, factors) >= 0.95 * runs, f"{shares} shares, {factors} factors of {runs} are not below the truth"
