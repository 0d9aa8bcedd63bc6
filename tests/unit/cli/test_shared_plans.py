"""What the commands say of GPUs that are shared: sigma, tenancies, bookings, and what sharing saves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from testing import builders

SHORT = ("--queries", "500", "--seeds", "1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": (),
    "simulate": ("--rate", "20", *SHORT),
    "compare": ("--planners", "homogeneous", "--policies", "fcfs", *SHORT),
    "search": ("--evaluations", "2", *SHORT),
}
SHARED = {"tenancy": "Shared", "gpuMemoryMiB": 4096, "gpuCompute": 100, "slowdown": "1.75"}


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """One service on T4s priced by GiB, of a profile with a share of 0.5."""
    return written(tmp_path / "shared.yaml", {"spec.computeShare": "0.55", "spec.sharingMode": "TimeSlicing"})


def written(path: Path, profile: dict[str, Any], service: dict[str, Any] | None = None) -> Path:
    price = {"hourly": "0.024", "per": "GiB"}
    table = [{"batch": 1, "mean": "20ms", "coefficientOfVariation": "0.05"}]
    fields = {"spec.model": "one", "spec.latency": {"table": table}, "spec.gpuMemory": "4Gi", **profile}
    asked = {
        "spec.objective": "MaxThroughput",
        "spec.planner": "homogeneous",
        "spec.slo": {"latency": "200ms", "percentile": "98"},
        "spec.budget": {"hourly": "0.8"},
        "spec.load": {"batchSizes": [{"batch": 1, "weight": 1}]},
        **(service or {}),
    }
    documents = [
        builders.instance_type(overrides={"spec.price": price}),
        builders.model_profile("one-t4", fields),
        builders.service("one", asked),
    ]
    path.write_text(yaml.safe_dump_all(documents))
    return path


def run(command: str, path: Path, *arguments: str) -> Result:
    given = [command, str(path), *COMMANDS[command], *arguments]
    return CliRunner().invoke(app, given, catch_exceptions=False)


def document(command: str, path: Path, *arguments: str) -> Any:
    result = run(command, path, *arguments, "-o", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_answer_names_sigma_and_what_is_booked(command: str, manifest: Path) -> None:
    answered = document(command, manifest)
    assert answered["maxSlowdown"] == "1.75"
    assert answered["types"] == {"g4dn.xlarge": SHARED}
    other = document(command, manifest, "--max-slowdown", "1.1")
    assert other["maxSlowdown"] == "1.1"
    assert other["types"] == {"g4dn.xlarge": {**SHARED, "slowdown": "1.1"}}
    shown = " ".join(run(command, manifest).stdout.split())
    assert "g4dn.xlarge: shared, 4096 MiB of one, service times x 1.75" in shown


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0.99", "0.99 must be at least 1, for example 1.25"),
        ("-1", "'-1' is not a decimal number"),
        ("much", "'much' is not a decimal number"),
    ],
)
def test_a_slow_down_below_one_is_bad_input(command: str, value: str, message: str, manifest: Path) -> None:
    result = run(command, manifest, f"--max-slowdown={value}")
    assert result.exit_code == 2
    assert "--max-slowdown" in result.stderr
    assert message in result.stderr


def test_a_greater_slow_down_plans_longer_service(manifest: Path) -> None:
    """50 q/s alone: 40 q/s of each instance at 1.25, 25 q/s at 2; eight of 0.096 $/h for 0.8 $/h."""
    assert [document("plan", manifest, "--max-slowdown", s)["boundQPS"] for s in ("1.25", "2")] == [320, 200]


def test_a_simulation_counts_with_the_slowed_times(manifest: Path) -> None:
    asked = ("--counts", "g4dn.xlarge=1", "--rate", "20")
    busy = [
        document("simulate", manifest, *asked, "--max-slowdown", sigma)["utilisation"]["g4dn.xlarge"]
        for sigma in ("1", "1.5")
    ]
    assert busy[1] == pytest.approx(1.5 * busy[0], rel=0.02)


def test_a_plan_sets_both_sides_beside_each_other(manifest: Path) -> None:
    found = document("plan", manifest)["sharing"]
    assert found == {
        "planner": "homogeneous",
        "exclusive": {"counts": {"g4dn.xlarge": 2}, "cost": "0.720", "qps": 100.0},
        "shared": {"counts": {"g4dn.xlarge": 8}, "cost": "0.768", "qps": 228.571429},
    }


def test_overrides_hold_on_both_sides(manifest: Path) -> None:
    asked = ("--budget", "2", "--min-instances", "g4dn.xlarge=4", "--planner", "flow")
    found = document("plan", manifest, "--load", "10", *asked)["sharing"]
    assert (found["exclusive"]["counts"], found["shared"]["counts"]) == ({"g4dn.xlarge": 4}, {"g4dn.xlarge": 4})
    assert (found["exclusive"]["cost"], found["shared"]["cost"]) == ("1.440", "0.384")
    # 24 ms are enough for 20 ms alone, not for 25 ms.
    refused = run("plan", manifest, "--slo", "24ms", "-o", "json")
    answered = json.loads(refused.stdout)
    assert (refused.exit_code, answered["sharing"]["shared"]) == (3, None)
    assert answered["sharing"]["exclusive"]["counts"] == {"g4dn.xlarge": 2}
    assert "set spec.sharing to Exclusive" in answered["message"]


def test_an_unmeasured_profile_is_planned_exclusive_and_says_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path / "unmeasured.yaml", {})
    answered = document("plan", path)
    why = "ModelProfile one-t4 has no computeShare; measure it: docs/how-to-measure-sharing.md"
    assert answered["types"] == {
        "g4dn.xlarge": {"tenancy": "Exclusive", "gpuMemoryMiB": 15360, "gpuCompute": 100, "slowdown": None, "why": why}
    }
    assert (answered["maxSlowdown"], answered["sharing"]) == (None, None)
    assert answered["counts"] == {"g4dn.xlarge": 2}
    shown = " ".join(run("plan", path).stdout.split())
    assert f"g4dn.xlarge: planned with a GPU of its own: {why}" in shown
    assert "g4dn.xlarge: one for each instance" in shown


def test_an_exclusive_service_is_planned_so_without_a_note(tmp_path: Path) -> None:
    measured = {"spec.computeShare": "0.5", "spec.sharingMode": "TimeSlicing"}
    path = written(tmp_path / "exclusive.yaml", measured, {"spec.sharing": "Exclusive"})
    result = run("plan", path)
    assert result.stderr == ""
    assert "spec.sharing is Exclusive" in " ".join(result.stdout.split())
    assert document("plan", path)["counts"] == {"g4dn.xlarge": 2}
