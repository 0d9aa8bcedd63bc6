"""Every planning or simulating command refuses bad files in the same way: file, field, value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from testing.data import REPOSITORY

SAMPLE = (REPOSITORY / "manifests" / "samples" / "rm2.yaml").read_text(encoding="utf-8")
SERVICE = SAMPLE[SAMPLE.index("apiVersion: hetserve.io/v1alpha1\nkind: InferenceService") :]
COMMANDS = {"plan": (), "simulate": ("--rate", "5"), "compare": (), "search": ()}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def edited(old: str, new: str) -> bytes:
    assert old in SAMPLE, old
    return SAMPLE.replace(old, new).encode()


def first_latency(text: str) -> bytes:
    """The sample with another latency in its first profile."""
    return edited("latency:\n    linear: {intercept: 3.6991ms, slope: 0.257456ms}", f"latency: {text}")


FILES: dict[str, tuple[bytes, int, tuple[str, ...]]] = {
    "an empty file": (b"", 2, ("no InferenceService in", "bad.yaml")),
    "a binary file": (b"\x00\xff\xfe\x80", 2, ("bad.yaml: cannot be read: it is not UTF-8 text",)),
    "broken YAML": (b"not: [yaml", 2, ("bad.yaml:1:11: not valid YAML or JSON: expected",)),
    "plain text": (b"hello", 2, ("bad.yaml:1: a manifest is a mapping", "'hello'")),
    "no kind": (b"a: 1", 2, ("bad.yaml:1: apiVersion is missing",)),
    "a budget of 0": (
        edited('hourly: "2.5"', 'hourly: "0"'),
        2,
        ("bad.yaml:106: InferenceService/rm2: spec.budget.hourly: '0' must be more than 0 $/h",),
    ),
    "a price of 0": (
        edited('hourly: "0.526"', 'hourly: "0"'),
        2,
        ("bad.yaml:13: InstanceType/g4dn.xlarge: spec.price.hourly: '0' must be more than 0 $/h",),
    ),
    "a negative latency of the SLO": (
        edited("latency: 350ms", "latency: -350ms"),
        2,
        ("bad.yaml:105: InferenceService/rm2: spec.slo.latency: '-350ms' is not a duration",),
    ),
    "a model that is no mapping": (
        edited("model: {name: rm2}", "model: rm2"),
        2,
        ("InferenceService/rm2: spec.model: 'rm2' must be a mapping of fields",),
    ),
    "a policy that joins queries": (
        edited("model: {name: rm2}", "model: {name: rm2}\n  dispatch: {policy: slackfit, ports: {http: 80}}"),
        2,
        ("spec.dispatch.policy: 'slackfit' must match", "policies that join queries are for hetserve simulate alone"),
    ),
    "a model without a profile": (
        edited("model: {name: rm2}", "model: {name: unheard-of}"),
        3,
        ("rm2: NoInstanceTypes: no InstanceType has a ModelProfile of model unheard-of",),
    ),
    "a service twice": (
        (SAMPLE + "\n---\n" + SERVICE).encode(),
        2,
        ("bad.yaml:227: InferenceService/rm2 is there twice, first at", "bad.yaml:97; keep one"),
    ),
    "an SLO that nobody meets": (
        edited("latency: 350ms", "latency: 1ms"),
        3,
        ("rm2", "NoTypeMeetsSLO: no type serves ", "g4dn.xlarge: 261.2 ms"),
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_named_with_field_and_value_and_nothing_else(case: str, command: str, tmp_path: Path) -> None:
    content, code, messages = FILES[case]
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    result = run(command, str(path), *COMMANDS[command])
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    for message in messages:
        assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert all(line.startswith("Error: ") for line in result.stderr.splitlines()), result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_of_nothing_and_a_missing_file_are_named(command: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "gone.yaml", tmp_path / "empty"):
        result = run(command, str(path), *COMMANDS[command])
        assert (result.exit_code, result.stdout) == (2, "")
        assert str(path) in result.stderr


PROFILES: dict[str, tuple[str, str]] = {
    "an empty table": ("{table: []}", "spec.latency.table: [] must have at least 1 entry\n"),
    "a negative mean": ("{table: [{batch: 1, mean: -2ms}]}", "spec.latency.table[0].mean: '-2ms' is not a duration"),
    "a mean of zero": ("{table: [{batch: 1, mean: 0ms}]}", "spec.latency.table[0].mean: '0ms'"),
    "a table out of order": (
        "{table: [{batch: 8, mean: 2ms}, {batch: 1, mean: 2ms}]}",
        "spec.latency: table batches must be strictly increasing",
    ),
    "a mean that is NaN": ("{table: [{batch: 1, mean: .nan}]}", "spec.latency.table[0].mean"),
}


@pytest.mark.parametrize("case", PROFILES)
def test_a_bad_profile_is_named_with_field_and_value(case: str, tmp_path: Path) -> None:
    latency, message = PROFILES[case]
    path = tmp_path / "bad.yaml"
    path.write_bytes(first_latency(latency))
    result = run("plan", str(path))
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert f"bad.yaml:57: ModelProfile/rm2-g4dn.xlarge: {message}" in result.stderr


MIXES: dict[str, tuple[bytes, str]] = {
    "binary": (b"\xff\xfe\x00", "mix.csv: cannot be read: it is not UTF-8 text"),
    "empty": (b"", "mix.csv: no column `batch`"),
    "no batch": (b"batch,weight\n", "mix.csv: the mix of batch sizes is empty"),
    "NaN": (b"batch,weight\n1,nan\n", "mix.csv, line 2, column weight: 'nan' is not a number"),
}


@pytest.mark.parametrize("case", MIXES)
def test_a_bad_file_of_batches_is_named(case: str, tmp_path: Path) -> None:
    content, message = MIXES[case]
    path = tmp_path / "mix.csv"
    path.write_bytes(content)
    result = run(
        "simulate", str(REPOSITORY / "manifests" / "samples" / "rm2.yaml"), "--rate", "5", "--batches", str(path)
    )
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


SAMPLES: dict[str, tuple[Callable[[], bytes], str]] = {
    "binary": (lambda: b"\xff\xfe\x00", "s.csv: cannot be read: it is not UTF-8 text"),
    "empty": (lambda: b"", "s.csv: is empty"),
    "NaN": (lambda: b"batch,latency_ms\n1,5\n2,nan\n", "s.csv, line 3: latency_ms 'nan': must be a number"),
    "negative": (lambda: b"batch,latency_ms\n1,-5\n", "s.csv, line 2: latency_ms '-5': must be a number"),
    "a batch of 0": (lambda: b"batch,latency_ms\n0,5\n", "s.csv, line 2: batch '0': must be a whole number"),
    "no batch": (lambda: b"a,b\n1,2\n", "s.csv, line 1: no column batch; there are: a, b"),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_bad_samples_are_named(case: str, tmp_path: Path) -> None:
    content, message = SAMPLES[case]
    path = tmp_path / "s.csv"
    path.write_bytes(content())
    result = run("profile", "fit", str(path), "--model", "m", "--instance-type", "t")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
