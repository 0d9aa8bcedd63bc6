from __future__ import annotations

import csv
import itertools
import json
import math
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from effort import spread
from hetserve.api.manifests import read_manifests
from hetserve.base.units import parse_duration
from hetserve.cli.app import app
from hetserve.profiles import profile_from_spec
from testing.data import reference_data

MODELS = {"RM2": 350.0, "NCF": 5.0, "WND": 25.0, "MT-WND": 25.0, "DIEN": 35.0}
PRICES = {"g4dn.xlarge": 526_000, "c5n.2xlarge": 432_000, "r5n.large": 149_000, "t3.xlarge": 166_400}
FILES = ("latency.csv", "latency_spread.csv", "batch_sizes.csv")


@pytest.fixture
def data() -> Path:
    folders = {reference_data(f"kairos/{name}").parent for name in FILES}
    assert len(folders) == 1
    return folders.pop()


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [*map(str, args)])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, str], Path]:
    """The file of a model's manifests, written once."""

    @cache
    def write(data: Path, model: str) -> Path:
        path = tmp_path_factory.mktemp(model) / "manifests.yaml"
        result = run("reference", "kairos", "--data", data, "--model", model, "-o", path)
        assert (result.exit_code, result.output) == (0, "")
        return path

    return write


def rows(data: Path, name: str, model: str = "") -> list[dict[str, str]]:
    with (data / name).open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row.get("model", "") == model]


def enumerated(data: Path, model: str, slo: float) -> dict[tuple[int, ...], float]:
    """Upper bound of every configuration under 2.5 $/h with a g4dn base, straight from the files (Eq. 9-15)."""
    mix = {int(r["batch_bin"]): float(r["probability"]) for r in rows(data, "batch_sizes.csv")}
    ms = {name: {} for name in PRICES}  # type: dict[str, dict[int, float]]
    for r in rows(data, "latency.csv", model):
        ms[r["instance"]][int(r["batch"])] = float(r["latency_ms"])

    def rate(name: str, low: int, high: int) -> float:
        part = {b: p for b, p in mix.items() if low < b <= high}
        return 1e3 * sum(part.values()) / sum(p * ms[name][b] for b, p in part.items())

    base, *others = PRICES
    assert max(ms[base].values()) <= slo, "g4dn serves every batch"
    limit = {name: max(itertools.takewhile(lambda b: ms[name][b] <= slo, sorted(mix))) for name in others}  # noqa: B023
    bounds = {}
    for counts in itertools.product(*(range(2_500_000 // price + 1) for price in PRICES.values())):
        if not counts[0] or sum(n * p for n, p in zip(counts, PRICES.values(), strict=True)) > 2_500_000:
            continue
        u, aux = counts[0], {name: n for name, n in zip(others, counts[1:], strict=True) if n}
        q_b = rate(base, 0, 1000)
        s = max((limit[name] for name in aux), default=0)
        f = sum(p for b, p in mix.items() if b <= s) / sum(mix.values())
        small = sum(n * rate(name, 0, s) for name, n in aux.items())
        if s in {0, 1000}:
            bounds[counts] = u * q_b + small
            continue
        large = u * rate(base, s, 1000)
        if small / f * (1 - f) >= large:
            bounds[counts] = large / (1 - f)
        else:
            bounds[counts] = small / f + (1 - small / f * (1 - f) / large) * u * q_b
    return bounds


@pytest.mark.data
@pytest.mark.parametrize("model", spread(tuple(MODELS), 2))
def test_the_ranking_of_the_planner_is_that_of_an_independent_enumeration(
    model: str, data: Path, written: Callable[[Path, str], Path]
) -> None:
    bounds = enumerated(data, model, MODELS[model])
    assert len(bounds) == 331, "as many configurations as the artifact enumerates"
    result = run("plan", written(data, model), "--planner", "kairos", "-o", "json")
    assert result.exit_code == 0
    ranking = json.loads(result.stdout)["ranking"]
    highest = sorted(bounds.values(), reverse=True)
    assert len(ranking) == 10
    for place, entry in enumerate(ranking):
        counts = tuple(entry["counts"][name] for name in PRICES)
        assert entry["boundQPS"] == pytest.approx(bounds[counts], rel=1e-3)
        assert entry["boundQPS"] == pytest.approx(highest[place], rel=1e-3)


@pytest.mark.data
@pytest.mark.parametrize(("model", "bound"), [("RM2", 143.4), ("NCF", 7300.4)])
def test_the_bounds_of_the_published_tables_come_out(
    model: str, bound: float, data: Path, written: Callable[[Path, str], Path]
) -> None:
    answer = json.loads(run("plan", written(data, model), "--planner", "kairos", "-o", "json").stdout)
    assert answer["counts"] == {"g4dn.xlarge": 1, "c5n.2xlarge": 0, "r5n.large": 13, "t3.xlarge": 0}
    assert answer["boundQPS"] == pytest.approx(bound, abs=0.05)


@pytest.mark.data
@pytest.mark.parametrize("model", MODELS)
def test_every_measured_mean_and_quantile_is_in_the_profiles(
    model: str, data: Path, written: Callable[[Path, str], Path]
) -> None:
    manifests = read_manifests([str(written(data, model))])
    assert [t.metadata.name for t in manifests.types] == list(PRICES)
    profiles = {p.spec.instance_type: profile_from_spec(p.spec) for p in manifests.profiles}
    for row in rows(data, "latency.csv", model):
        mean = profiles[row["instance"]].mean(int(row["batch"]))
        assert mean == pytest.approx(float(row["latency_ms"]) / 1e3)
    for row in rows(data, "latency_spread.csv", model):
        spread = profiles[row["instance"]].spread(int(row["batch"]))
        assert spread is not None
        assert spread.mean == pytest.approx(1.0), "what is drawn would not have the measured mean"
        for column, percentile in (("p50_ms", 50), ("p90_ms", 90), ("p99_ms", 99), ("max_ms", 100)):
            slow = profiles[row["instance"]].quantile(int(row["batch"]), percentile)
            assert slow == pytest.approx(float(row[column]) / 1e3, rel=1e-6)


@pytest.mark.data
def test_names_become_labels_and_the_slo_is_the_papers(data: Path) -> None:
    result = run("reference", "kairos", "--data", data, "--model", "mt-wnd")
    *_, service = yaml.safe_load_all(result.stdout)
    assert service["metadata"]["name"] == service["spec"]["model"]["name"] == "mt-wnd"
    assert service["spec"]["slo"] == {"latency": "25ms", "percentile": "99"}
    assert math.fsum(e["weight"] for e in service["spec"]["load"]["batchSizes"]) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.data
def test_a_time_scale_stretches_every_latency_and_the_slo_and_nothing_else(data: Path) -> None:
    plain, slow = (
        list(yaml.safe_load_all(run("reference", "kairos", "--data", data, "--model", "NCF", *scale).stdout))
        for scale in ((), ("--time-scale", 20))
    )
    stretched = 0
    for before, after in zip(plain, slow, strict=True):
        for entry, longer in zip(_timed(before), _timed(after), strict=True):
            for name in entry.keys() - {"batch", "percentile"}:
                assert parse_duration(longer[name]) == pytest.approx(20 * parse_duration(entry[name]), rel=2e-7)
                stretched += 1
            longer.update(entry)
        if "source" in before["spec"]:
            assert after["spec"].pop("source") == before["spec"].pop("source") + "; all times x 20"
    assert stretched > 400
    assert slow == plain


def _timed(document: dict[str, Any]) -> list[dict[str, str]]:
    """What holds durations that a time scale stretches."""
    spec = document["spec"]
    return [spec["slo"]] if "slo" in spec else spec.get("latency", {}).get("table", [])


@pytest.mark.data
def test_a_stretched_service_plans_the_same_instances_at_a_rate_as_much_lower(data: Path, tmp_path: Path) -> None:
    answers = []
    for scale in (1, 20):
        path = tmp_path / f"{scale}.yaml"
        run("reference", "kairos", "--data", data, "--model", "RM2", "--time-scale", scale, "-o", path)
        answers.append(json.loads(run("plan", path, "--planner", "kairos", "-o", "json").stdout))
    assert answers[0]["counts"] == answers[1]["counts"]
    assert answers[0]["boundQPS"] == pytest.approx(20 * answers[1]["boundQPS"], rel=1e-3)


@pytest.mark.parametrize("scale", ["0", "-1", "nan", "inf", "1001", "fast"])
def test_a_time_scale_is_a_number_within_bounds(scale: str) -> None:
    result = run("reference", "kairos", "--data", "d", "--model", "RM2", f"--time-scale={scale}")
    assert result.exit_code == 2
    assert f"'{scale}' must be a number from 0.001 to 1000, for example 20" in result.stderr


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "old", "new", "error"),
    [
        ("latency.csv", "0.6107", "NaN", "latency.csv, line 2: latency_ms 'NaN': must be a number from"),
        ("latency.csv", "g4dn.xlarge,20,", "g4dn.xlarge,10,", "latency.csv, line 3: batch 10 is there twice"),
        ("latency.csv", "NCF,g4dn.xlarge,10", "NCF,p5.large,10", "line 2: no price is known of instance 'p5.large'"),
        ("latency.csv", "latency_ms", "ms", "latency.csv, line 1: no column latency_ms"),
        ("latency.csv", "NCF,t3", "XXX,t3", "latency.csv: no line of model NCF on t3.xlarge"),
        ("latency_spread.csv", "0.5400", "-0.54", "latency_spread.csv, line 2: min_ms '-0.54'"),
        ("latency_spread.csv", "0.5400", "0.9", "min, p50, p90, p95, p99 and max must not decrease"),
        ("latency_spread.csv", "xlarge,10,", "xlarge,11,", "line 2: batch 11 of g4dn.xlarge has no mean"),
        ("batch_sizes.csv", "10,0.00816243", "10,-1", "batch_sizes.csv, line 2: probability '-1'"),
    ],
)
def test_wrong_data_is_reported_by_file_line_and_column(
    data: Path, tmp_path: Path, file: str, old: str, new: str, error: str
) -> None:
    for name in FILES:
        shutil.copyfile(data / name, tmp_path / name)
    (tmp_path / file).write_text((data / file).read_text().replace(old, new))
    result = run("reference", "kairos", "--data", tmp_path, "--model", "NCF")
    assert (result.exit_code, result.stdout) == (2, "")
    assert error in result.stderr


def test_missing_data_is_reported(tmp_path: Path) -> None:
    result = run("reference", "kairos", "--data", tmp_path, "--model", "RM2")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: {tmp_path}/latency.csv: cannot be read: No such file or directory\n"


@pytest.mark.data
def test_a_file_that_cannot_be_written_is_reported(data: Path, tmp_path: Path) -> None:
    result = run("reference", "kairos", "--data", data, "--model", "RM2", "-o", tmp_path / "absent" / "f.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot be written: No such file or directory" in result.stderr


def test_help_of_the_reference_shows_how() -> None:
    assert "hetserve reference kairos --data DIR --model RM2" in run("reference", "kairos", "--help").stdout
