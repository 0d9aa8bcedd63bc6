from __future__ import annotations

import csv
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from hetserve.api.model_profile import ModelProfile
from hetserve.profiles import profile_from_spec
from hetserve.profiles.fit import Fit, fit_samples, thinned
from hetserve.profiles.measurements import Samples
from hetserve.profiles.spec import latency_of, milliseconds, profile_manifest
from testing.data import reference_data


def samples(batches: range, latency: Callable[[int], float], per_batch: int = 30, sd: float = 0.05) -> Samples:
    rng = np.random.default_rng(3)
    draw = {b: tuple(float(latency(b) * x) for x in rng.lognormal(0, sd, per_batch)) for b in batches}
    return Samples("s.csv", draw)


def straight(batch: int) -> float:
    return 0.010 + 0.001 * batch


def bent(batch: int) -> float:
    return straight(batch) * (1.3 if batch % 20 == 10 else 1.0)


def served(fit: Fit) -> ModelProfile:
    manifest = profile_manifest("n", "default", model="m", instance_type="t", latency=latency_of(fit), source="s")
    return ModelProfile.model_validate(manifest)


def test_latencies_on_a_line_become_a_line_with_its_variation() -> None:
    fit = fit_samples(samples(range(10, 200, 10), straight))
    assert fit.kind == "linear"
    assert "at a measured batch" in fit.why
    profile = profile_from_spec(served(fit).spec)
    assert profile.mean(1000) == pytest.approx(straight(1000), rel=0.02)
    assert profile.quantile(100, 99) == pytest.approx(straight(100) * np.exp(2.326 * 0.05), rel=0.02)


def test_latencies_off_every_line_become_a_table_with_measured_quantiles() -> None:
    measured = samples(range(10, 200, 10), bent, per_batch=100)
    fit = fit_samples(measured)
    assert fit.kind == "table"
    profile = profile_from_spec(served(fit).spec)
    for batch in (10, 20, 190):
        assert profile.mean(batch) == pytest.approx(np.mean(measured.by_batch[batch]))
        for percentile in (50, 90, 95, 99):
            expected = np.percentile(measured.by_batch[batch], percentile)
            assert profile.quantile(batch, percentile) == pytest.approx(expected)


def test_the_kind_can_be_asked_for() -> None:
    assert fit_samples(samples(range(10, 200, 10), straight), "table").kind == "table"
    assert fit_samples(samples(range(10, 200, 10), bent), "linear").kind == "linear"
    assert fit_samples(samples(range(10, 20, 10), straight), "linear").line.slope == 0


def test_two_batches_make_no_line() -> None:
    fit = fit_samples(samples(range(10, 30, 10), straight))
    assert (fit.kind, fit.why) == ("table", "2 batches are too few to tell a line from a table")


def test_few_samples_give_a_coefficient_of_variation_and_one_gives_none() -> None:
    fit = fit_samples(Samples("s.csv", {1: (0.01,), 2: (0.02, 0.03)}))
    row, other = served(fit).spec.latencies[""].table or []
    assert (row.p99, row.coefficient_of_variation) == (None, None)
    assert (other.p99, other.coefficient_of_variation) == (None, "0.282843")


def test_a_single_cold_start_is_left_out_and_said() -> None:
    measured = samples(range(10, 200, 10), straight)
    cold = Samples("s.csv", {**measured.by_batch, 50: (*measured.by_batch[50], 3.0)})
    fit, kept = fit_samples(cold, "table"), fit_samples(cold, "table", keep_wild=True)
    assert fit.notes == ("1 of 571 samples left out as cold starts or stalls (--keep-wild counts them)",)
    assert fit.entries[4].mean == pytest.approx(0.060, rel=0.05)
    assert kept.entries[4].mean == pytest.approx((0.060 * 30 + 3) / 31, rel=0.05)


def test_what_happens_in_one_query_of_ten_is_behaviour_not_a_stall() -> None:
    measured = samples(range(10, 200, 10), straight)
    slow = Samples("s.csv", {b: (*own, *[3.0] * 3) for b, own in measured.by_batch.items()})
    fit = fit_samples(slow)
    assert fit.notes == ()
    assert all(e.quantiles is not None and e.quantiles["p99"] == 3.0 for e in fit.entries)


def test_a_mean_above_the_p99_raises_it_and_is_said() -> None:
    fit = fit_samples(Samples("s.csv", {1: (0.01,) * 300 + (9.0,)}), keep_wild=True)
    assert fit.notes == ("batch 1: a few very slow queries put the mean above the p99, which is raised to it",)
    (row,) = served(fit).spec.latencies[""].table or []
    assert row.p99 == row.mean


def test_more_batches_than_a_table_holds_are_thinned_evenly() -> None:
    fit = fit_samples(samples(range(1, 1001), bent, per_batch=1), "table")
    table = served(fit).spec.latencies[""].table or []
    assert (len(table), table[0].batch, table[-1].batch) == (256, 1, 1000)
    assert max(b.batch - a.batch for a, b in itertools.pairwise(table)) <= 4
    assert fit.notes[0] == "1000 batches were measured: 256 of them, evenly chosen, make the table"
    assert "take longer than larger batches" in fit.notes[1]
    assert thinned(fit.entries[:5]) == fit.entries[:5]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.35, "350ms"), (1.8e-6, "0.0018ms"), (3.699056e-3, "3.699056ms"), (1e-9, "0.000001ms"), (86400, "86400000ms")],
)
def test_durations_are_written_as_the_api_takes_them(seconds: float, text: str) -> None:
    assert milliseconds(seconds) == text


@pytest.mark.data
def test_the_published_lines_are_reproduced() -> None:
    # intercept ms, slope ms/item, largest relative error: least squares over latency.csv, as in the notes on it.
    published = {
        ("NCF", "g4dn.xlarge"): (0.7129, 0.001800, 0.197),
        ("RM2", "r5n.large"): (3.9046, 0.400926, 0.387),
        ("WND", "t3.xlarge"): (5.4913, 0.061783, 0.574),
        ("DIEN", "g4dn.xlarge"): (6.5618, 0.012383, 0.065),
    }
    with reference_data("kairos/latency.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for (model, instance), (intercept, slope, error) in published.items():
        own = {int(r["batch"]): (float(r["latency_ms"]) / 1e3,) for r in rows
               if (r["model"], r["instance"]) == (model, instance)}  # fmt: skip
        fit = fit_samples(Samples("latency.csv", own), "linear")
        assert fit.line.intercept * 1e3 == pytest.approx(intercept, abs=5e-5)
        assert fit.line.slope * 1e3 == pytest.approx(slope, abs=5e-7)
        assert fit.worst[1] == pytest.approx(error, abs=5e-4)
