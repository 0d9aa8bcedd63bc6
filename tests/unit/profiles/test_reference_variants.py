"""`hetserve reference fang` and `superserve`: published measurements as models with variants."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hetserve.api.manifests import Manifests, read_manifests
from hetserve.cli.app import app
from hetserve.cli.profiles.commands import SUPERSERVE_GPUS
from hetserve.cli.profiles.reference_fang import BATCHES, THROUGHPUT
from hetserve.cli.profiles.reference_superserve import GPUS
from hetserve.planning import Problem, build_problem
from hetserve.profiles.variants import variant_profiles
from testing.data import reference_data


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reference", *map(str, arguments)])


def written(path: Path, *arguments: object) -> Manifests:
    result = run(*arguments, "-o", path)
    assert (result.exit_code, result.output) == (0, "")
    return read_manifests([str(path)])


def test_fangs_profiles_have_the_throughputs_of_table_1(tmp_path: Path) -> None:
    found = written(tmp_path / "fang.yaml", "fang")
    (service,) = found.services
    for profile in found.profiles:
        curves = variant_profiles(service.spec.model, profile.spec)
        for variant, rates in THROUGHPUT[profile.spec.instance_type].items():
            means = [curves[variant].mean(batch) for batch in BATCHES]
            assert [b / m for b, m in zip(BATCHES, means, strict=True) if m] == pytest.approx(list(rates), rel=1e-6)
    named = {one.name: (one.accuracy, one.utility_or_default) for one in service.spec.model.variants or ()}
    assert named == {"tiny": ("57.1", 0.5), "full": ("63.4", 1.0)}
    assert isinstance(build_problem(service, found.types, found.profiles), Problem)


def test_fangs_throughputs_are_those_of_the_reference_data() -> None:
    lines = reference_data("fang/throughput.csv").read_text(encoding="utf-8").split()[1:]
    names = {"g2": "g2.2xlarge", "p2": "p2.xlarge"}
    there = {
        (names[gpu], model, int(batch)): float(qps) for gpu, model, batch, qps in (one.split(",") for one in lines)
    }
    ours = {
        (kind, variant, batch): rate
        for kind, variants in THROUGHPUT.items()
        for variant, rates in variants.items()
        for batch, rate in zip(BATCHES, rates, strict=False)
    }
    assert ours == there


@pytest.mark.parametrize("gpu", SUPERSERVE_GPUS)
def test_superserves_subnets_are_variants_of_rising_accuracy(tmp_path: Path, gpu: str) -> None:
    folder = reference_data(f"superserve/{GPUS[gpu].file}").parent
    found = written(tmp_path / "superserve.yaml", "superserve", "--data", folder, "--gpu", gpu)
    (service,), (profile,) = found.services, found.profiles
    accuracies = [one.accuracy_percent for one in service.spec.model.variants or ()]
    assert (len(accuracies), accuracies) == (6, sorted(accuracies))
    utilities = [one.utility_or_default for one in service.spec.model.variants or ()]
    assert utilities == pytest.approx([each / 100 for each in accuracies])
    curves = variant_profiles(service.spec.model, profile.spec)
    assert {curve.max_batch for curve in curves.values()} == ({16} if gpu == "rtx-2080ti" else {32})
    assert profile.spec.source is not None
    assert profile.spec.source.startswith("SYNTHETIC") is (gpu == "rtx-2080ti")


def test_what_is_a_stand_in_is_labelled_in_the_file(tmp_path: Path) -> None:
    folder = reference_data("superserve/profile_synthetic_2080ti.csv").parent
    result = run("superserve", "--data", folder)
    assert result.stdout.splitlines()[0].startswith("# SuperServe, SYNTHETIC")


def test_the_measured_profile_has_its_spread(tmp_path: Path) -> None:
    (tmp_path / "profile.csv").write_text("accuracy_top1,batch,forward_ms,forward_std_ms\n80,2,4,0.4\n80,1,2,0.5\n")
    found = written(tmp_path / "out.yaml", "superserve", "--data", tmp_path, "--gpu", "a40")
    table = found.profiles[0].spec.latencies["top-80"].table or []
    rows = [(row.batch, row.mean, row.coefficient_of_variation) for row in table]
    assert rows == [(1, "2ms", "0.250000"), (2, "4ms", "0.100000")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("accuracy_top1,batch\n80,1\n", "no column latency_ms; there are: accuracy_top1, batch"),
        ("accuracy_top1,batch,latency_ms\n180,1,2\n", "line 2: accuracy_top1 '180': must be a number from 0 to 100"),
        ("accuracy_top1,batch,latency_ms\n80,0,2\n", "line 2: batch '0': must be a whole number from 1"),
        ("accuracy_top1,batch,latency_ms\n80,1,soon\n", "line 2: latency_ms 'soon': must be a number"),
        ("accuracy_top1,batch,latency_ms\n80,1,2\n80,1,3\n", "line 3: batch 1 is there twice"),
    ],
)
def test_a_file_that_is_wrong_is_named_by_line_and_column(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "profile_synthetic_2080ti.csv").write_text(text, encoding="utf-8")
    result = run("superserve", "--data", tmp_path)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_folder_without_the_file_is_named(tmp_path: Path) -> None:
    result = run("superserve", "--data", tmp_path)
    assert result.exit_code == 2
    assert "profile_synthetic_2080ti.csv: cannot be read" in result.stderr
