from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.api.model_profile import ModelProfile
from hetserve.cli.app import app
from hetserve.profiles.sharing import compute_share
from sharing_runs import copies_of, file_of, lines

OF = ("--model", "rm2", "--instance-type", "g4dn.xlarge")


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    lines = [f"{batch},{5 + 0.25 * batch + 0.1 * (i % 5)}" for batch in range(10, 110, 10) for i in range(25)]
    path = tmp_path / "samples.csv"
    path.write_text("batch,latency_ms\n" + "\n".join(lines) + "\n")
    return path


def fit(*args: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["profile", "fit", *map(str, args)], input=stdin)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_answer_is_a_manifest_that_kubectl_takes(csv_file: Path, form: str) -> None:
    result = fit(csv_file, *OF, "-o", form)
    assert (result.exit_code, result.stderr) == (0, "")
    profile = ModelProfile.model_validate((yaml.safe_load if form == "yaml" else json.loads)(result.stdout))
    assert (profile.metadata.name, profile.metadata.namespace) == ("rm2-g4dn.xlarge", "default")
    assert profile.spec.source == "least-squares line through the means of 250 samples at 10 batches in samples.csv"
    assert profile.spec.latencies[""].linear is not None
    assert profile.spec.latencies[""].linear.slope == "0.25ms"


def test_name_namespace_and_kind_can_be_given(csv_file: Path) -> None:
    result = fit(csv_file, *OF, "--name", "mine", "--namespace", "ns", "--kind", "table")
    profile = ModelProfile.model_validate(yaml.safe_load(result.stdout))
    assert (profile.metadata.name, profile.metadata.namespace) == ("mine", "ns")
    assert len(profile.spec.latencies[""].table or []) == 10


def test_a_table_for_the_eye_says_units_and_how_far_the_line_is_off(csv_file: Path) -> None:
    shown = fit(csv_file, *OF, "-o", "table").stdout
    assert "rm2 on g4dn.xlarge: 5.2ms + 0.25ms per item" in shown
    assert "kind      linear: the line is at most 0.0 % off at a measured batch" in shown
    assert "P99 MS" in shown


@pytest.mark.parametrize(("name", "magic"), [("fit.png", b"\x89PNG"), ("fit.svg", b"<?xml")])
def test_a_picture_is_drawn_and_is_the_same_each_time(csv_file: Path, tmp_path: Path, name: str, magic: bytes) -> None:
    pytest.importorskip("matplotlib")
    first, second = tmp_path / name, tmp_path / f"again-{name}"
    for path in (first, second):
        assert fit(csv_file, *OF, "--plot", path).exit_code == 0
    assert first.read_bytes().startswith(magic)
    assert first.read_bytes() == second.read_bytes()


def test_samples_come_from_a_pipe_too() -> None:
    result = fit("-", *OF, stdin="batch,latency\n1,0.01\n1,NaN\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "Error: stdin, line 3: latency 'NaN': must be a number from 1e-09 to 86400 s\n"


def test_what_was_left_out_is_noted_beside_the_answer(csv_file: Path) -> None:
    csv_file.write_text(csv_file.read_text() + "10,9000\n")
    result = fit(csv_file, *OF)
    assert result.stderr == "note: 1 of 251 samples left out as cold starts or stalls (--keep-wild counts them)\n"
    assert fit(csv_file, *OF, "--keep-wild").stderr.startswith("note: batch 10 takes longer than larger batches")


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("absent.csv", *OF), "Error: absent.csv: cannot be read: No such file or directory"),
        (("samples.csv", *OF, "--plot", "fit.pdf"), "'fit.pdf' must end in .png or .svg"),
        (("samples.csv", *OF, "--plot", "absent/fit.svg"), "Error: --plot absent/fit.svg: cannot be written: No such"),
        (("samples.csv", "--model", "MT-WND", "--instance-type", "t4"), "write for example mt-wnd"),
        (("samples.csv", "--model", "m", "--instance-type", "T 4"), "'T 4' is not a DNS subdomain"),
        (("samples.csv", *OF, "--namespace", "a.b"), "'a.b' is not a DNS label"),
        (("samples.csv", "--model", "m"), "Missing option '--instance-type'"),
        (("latin1.csv", *OF), "Error: latin1.csv: cannot be read: it is not UTF-8 text"),
        (("tiny.csv", *OF, "--kind", "linear"), "intercept + slope must be longer than zero"),
    ],
)
def test_bad_input_prints_its_error_and_nothing_else(
    csv_file: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], error: str
) -> None:
    monkeypatch.chdir(csv_file.parent)
    Path("latin1.csv").write_bytes(b"batch,latency\n1,\xe9\n")
    Path("tiny.csv").write_text("batch,latency_ms\n100000,0.000001\n1000000,0.0001\n")
    result = fit(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert error in result.stderr


def test_help_shows_how() -> None:
    for line in ("Examples:", "hetserve profile fit samples.csv --model rm2"):
        assert line in fit("--help").stdout


SHARED = ("--model", "a", "--instance-type", "t4")


@pytest.fixture
def runs_file(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    slowed = lines(1.08, model="b", batch=4, neighbour="a", neighbour_batch=8)
    path.write_text(file_of(copies_of(0.571), lines(model="b", batch=4), slowed))
    return path


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_copies_and_neighbours_become_fields_of_the_manifest(runs_file: Path, form: str) -> None:
    result = fit(runs_file, *SHARED, "--sharing-mode", "TimeSlicing", "--gpu-memory", "3Gi", "-o", form)
    assert (result.exit_code, result.stderr) == (0, "")
    profile = ModelProfile.model_validate((yaml.safe_load if form == "yaml" else json.loads)(result.stdout))
    assert profile.spec.gpu_memory == "3Gi"
    measured = compute_share(profile.spec)
    assert measured is not None
    assert (measured.share, measured.mode, measured.greatest_factor) == (571_000, "TimeSlicing", 1_080_000)
    assert profile.spec.source == (
        "table of the means of 100 samples at 1 batches in runs.csv; computeShare at batch 8: "
        "3 copies reach 1.751 (1.751 to 1.751) times the throughput of one"
    )


def test_a_profile_without_gpu_memory_is_noted_to_share_nothing(runs_file: Path) -> None:
    result = fit(runs_file, *SHARED, "--sharing-mode", "MPS")
    assert "gpuMemory" not in yaml.safe_load(result.stdout)["spec"]
    assert result.stderr == (
        "note: no --gpu-memory: set gpuMemory in the profile; without it each instance takes all memory of a GPU\n"
    )


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("3GB", "Invalid value for '--gpu-memory': '3GB' is not a quantity; write for example 500m, 2 or 4Gi"),
        ("0", "Invalid value for '--gpu-memory': '0' must be more than zero, for example 3Gi"),
    ],
)
def test_gpu_memory_that_is_none_is_bad_input(csv_file: Path, value: str, error: str) -> None:
    result = fit(csv_file, *OF, "--gpu-memory", value)
    assert (result.exit_code, result.stdout) == (2, "")
    assert error in result.stderr


def test_a_table_shows_every_run_and_what_is_stated(runs_file: Path) -> None:
    shown = fit(runs_file, *SHARED, "--sharing-mode", "MPS", "-o", "table").stdout
    assert "share     0.571 of the GPU's compute at batch 8 (MPS)" in shown
    assert "b at batch 4 beside batch 8" in shown
    assert "factor 1.08" in shown


@pytest.mark.parametrize("name", [pytest.param("fit.png", marks=pytest.mark.deep), "fit.svg"])
def test_copies_and_neighbours_are_drawn_the_same_each_time(runs_file: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    first, second = tmp_path / name, tmp_path / f"again-{name}"
    for path in (first, second):
        assert fit(runs_file, *SHARED, "--sharing-mode", "MPS", "--plot", path).exit_code == 0
    assert first.read_bytes() == second.read_bytes()
    assert name.endswith("png") or "others beside it" in first.read_text()


def test_a_guess_from_a_counter_is_written_with_its_warning(tmp_path: Path) -> None:
    path = tmp_path / "counted.csv"
    path.write_text("batch,latency,SM_ACTIVE\n8,0.1,0.36\n")
    guessed = fit(path, *SHARED, "--sharing-mode", "TimeSlicing")
    assert yaml.safe_load(guessed.stdout)["spec"]["computeShare"] == "0.36"
    assert guessed.stderr.startswith("note: computeShare 0.36 is a first guess from SM_ACTIVE: ")
    silent = fit(path, *SHARED)
    assert "computeShare" not in silent.stdout
    assert silent.stderr == (
        "note: SM_ACTIVE: not used; with --sharing-mode it gives a first guess of the compute share\n"
    )


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("runs.csv", *SHARED), "runs.csv has runs of copies or neighbours: say how they shared the GPU, "
         "--sharing-mode TimeSlicing or MPS"),
        (("runs.csv", *SHARED, "--sharing-mode", "MIG"), "'MIG' is not one of 'TimeSlicing', 'MPS'"),
        (("runs.csv", *SHARED, "--sharing-mode", "MPS", "--batch", "4"), "no copies of a ran at batch 4"),
        (("runs.csv", *SHARED, "--sharing-mode", "MPS", "--batch", "0"), "0 is not in the range x>=1"),
        (("samples.csv", *OF, "--sharing-mode", "MPS"), "no run of copies of rm2: measure 2 and 3 copies"),
        (("samples.csv", *OF, "--batch", "8"), "--batch 8: is for the compute share; say --sharing-mode, too"),
    ],
)  # fmt: skip
def test_runs_that_do_not_fit_together_print_their_error_and_nothing_else(
    runs_file: Path, csv_file: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], error: str
) -> None:
    monkeypatch.chdir(runs_file.parent)
    result = fit(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert error in result.stderr
