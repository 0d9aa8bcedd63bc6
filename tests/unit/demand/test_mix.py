from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import yaml

from hetserve.demand import BatchMix, kairos_mixture
from hetserve.demand.batches import parse_batches
from testing.data import REPOSITORY, reference_data


def test_shares_are_normalised_sorted_and_equal_batches_add_up() -> None:
    mix = BatchMix.of([(8, 1), (1, 2), (8, 1)])
    assert mix.batches == (1, 8)
    assert mix.shares == (0.5, 0.5)
    assert mix.largest == 8


def test_the_share_of_some_batches() -> None:
    mix = BatchMix.of([(1, 1), (8, 3)])
    assert [mix.share_of(range(batch + 1)) for batch in (0, 1, 7, 8, 100)] == [0.0, 0.25, 0.25, 1.0, 1.0]


BAD: dict[str, tuple[list[tuple[int, float]], str]] = {
    "empty": ([], "the mix of batch sizes is empty"),
    "batch 0": ([(0, 1)], "batch 0: a query carries at least one item"),
    "weight 0": ([(1, 0)], "weight 0 of batch 1"),
    "weight NaN": ([(1, math.nan)], "weight nan of batch 1"),
    "weight infinite": ([(1, math.inf)], "weight inf of batch 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_mix_names_the_entry(case: str) -> None:
    weights, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        BatchMix.of(weights)


def test_kairos_mixture_has_the_published_quantiles() -> None:
    mix = kairos_mixture()
    assert math.fsum(mix.shares) == pytest.approx(1)
    assert sum(b * s for b, s in zip(mix.batches, mix.shares, strict=True)) == pytest.approx(243.6, abs=0.05)
    quantiles = {0.01: 20, 0.05: 70, 0.1: 120, 0.25: 150, 0.5: 180, 0.75: 240, 0.9: 510, 0.95: 610, 0.99: 920}
    for share, batch in quantiles.items():
        assert mix.share_of(range(batch - 9)) < share <= mix.share_of(range(batch + 1)), f"quantile {share}"


def test_the_rm2_sample_carries_the_mixture() -> None:
    text = (REPOSITORY / "manifests" / "samples" / "rm2.yaml").read_text(encoding="utf-8")
    service = next(d for d in yaml.safe_load_all(text) if d["kind"] == "InferenceService")
    entries = {entry["batch"]: entry["weight"] for entry in service["spec"]["load"]["batchSizes"]}
    mix = kairos_mixture()
    assert entries == pytest.approx(dict(zip(mix.batches, mix.shares, strict=True)), abs=1e-8)


@pytest.mark.data
def test_kairos_mixture_equals_the_computed_bins() -> None:
    with reference_data("kairos/batch_sizes.csv").open(encoding="utf-8") as file:
        bins = {int(row["batch_bin"]): float(row["probability"]) for row in csv.DictReader(file)}
    mix = kairos_mixture()
    assert dict(zip(mix.batches, mix.shares, strict=True)) == pytest.approx(bins, abs=1e-8)


def test_a_mix_that_pandas_wrote_is_read_and_slips_are_not(tmp_path: Path) -> None:
    mix = tmp_path / "mix.csv"
    mix.write_text(",Batch,Weight\n0,8.0,1.0\n1,16.0,3.0\n")
    assert parse_batches(str(mix)) == BatchMix.of([(8, 1.0), (16, 3.0)])
    for text in ("batch\n1_6\n", "batch\n\u0661\n"):
        mix.write_text(text)
        with pytest.raises(ValueError, match=r"column batch: .* is not a whole number"):
            parse_batches(str(mix))
    with pytest.raises(ValueError, match="need two numbers"):
        parse_batches("normal:1_65,16")
