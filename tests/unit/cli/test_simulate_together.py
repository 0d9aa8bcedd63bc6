"""`hetserve simulate --together`: services placed on nodes and played at once."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from hetserve.cli.capacity.together.play import PlayedService
from hetserve.simulation.stability import PARTS, Backlog
from testing import builders

PRODUCT = "Tesla-T4"


def _service(name: str, qps: int, latency: str = "600ms") -> dict[str, Any]:
    return builders.service(
        name,
        {
            "spec.objective": "MinCost",
            "spec.planner": "ilp",
            "spec.slo": {"latency": latency, "percentile": "98"},
            "spec.budget": builders.REMOVED,
            "spec.load": {"expectedQPS": qps, "batchSizes": [{"batch": 4, "weight": 1}, {"batch": 8, "weight": 1}]},
        },
    )


def _profile(model: str) -> dict[str, Any]:
    table = [{"batch": b, "mean": f"{5 * b}ms", "coefficientOfVariation": "0.05"} for b in (4, 8)]
    fields = {"spec.model": model, "spec.latency": {"table": table}, "spec.gpuMemory": "4Gi"}
    return builders.model_profile(f"{model}-t4", fields)


def _node(name: str, gpus: int = 2) -> dict[str, Any]:
    labels = {
        "node.kubernetes.io/instance-type": "g4dn.xlarge",
        "nvidia.com/gpu.product": PRODUCT,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.memory": "15360",
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two services on T4s priced by GiB, and a node with two GPUs."""
    kind = builders.instance_type(overrides={"spec.price": {"hourly": "0.024", "per": "GiB"}})
    manifests = [kind, _profile("one"), _profile("two"), _service("one", 30), _service("two", 30, "70ms")]
    return _written(tmp_path / "services.yaml", manifests), _written(tmp_path / "nodes.yaml", [_node("n0")])


def _written(path: Path, documents: list[Any]) -> str:
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def _read(path: str) -> list[Any]:
    return list(yaml.safe_load_all(Path(path).read_text()))


TIGHT = ("--max-slowdown", "1.25")
SHARED = {"tenancy": "Shared", "gpuMemoryMiB": 4096, "gpuCompute": 100, "slowdown": "1.25"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments], catch_exceptions=False)


def answer(services: str, nodes: str, *arguments: str, code: int = 0) -> Any:
    result = run(services, "--together", "--nodes", nodes, "--queries", "2000", *TIGHT, *arguments, "-o", "json")
    assert result.exit_code == code, result.stderr
    document = json.loads(result.stdout)
    return document.get("items", document)


def _measured(services: str, path: Path, *, share: str = "0.4", factor: str = "1.04", **spec: Any) -> str:
    """With shares and factors toward each other; spec: of the services."""
    manifests = _read(services)
    for manifest in manifests:
        if manifest["kind"] == "ModelProfile":
            other = {"one": "two", "two": "one"}[manifest["spec"]["model"]]
            interference = [{"model": other, "batch": 8, "factor": factor}]
            manifest["spec"] |= {"computeShare": share, "sharingMode": "MPS", "interference": interference}
        if manifest["kind"] == "InferenceService":
            manifest["spec"] |= spec
    return _written(path, manifests)


def test_the_keys_are_those_of_the_help(files: tuple[str, str], tmp_path: Path) -> None:
    one, _ = answer(_measured(files[0], tmp_path / "measured.yaml", factor="1.1"), files[1], code=3)
    text = CliRunner().invoke(app, ["simulate", "--help"]).output
    for key in {*one, *one["stretch"], *one["instances"][0], *one["runs"][0]}:
        assert key in text, f"{key} is not in the help"


def test_each_service_is_judged_beside_the_others(files: tuple[str, str], tmp_path: Path) -> None:
    services = _measured(files[0], tmp_path / "measured.yaml", factor="1.1")
    one, two = answer(services, files[1], code=3)
    assert one["offeredQPS"] == 30
    for service in (one, two):
        assert 1 < service["stretch"]["mean"] <= service["stretch"]["p99"] <= service["stretch"]["most"]
        assert service["stretch"]["most"] == pytest.approx(1.1)
        assert (service["maxSlowdown"], service["withinMaxSlowdown"]) == ("1.25", True)
        assert service["types"] == {"g4dn.xlarge": SHARED}
        assert len(service["instances"]) == sum(service["counts"].values())
        assert {seat["node"] for seat in service["instances"]} == {"n0"}
        assert {seat["tenancy"] for seat in service["instances"]} == {"Shared"}


def test_instances_are_placed_by_what_they_tolerate(files: tuple[str, str], tmp_path: Path) -> None:
    services = _measured(files[0], tmp_path / "measured.yaml", share="0.9")
    one, two = answer(services, files[1], code=3)
    assert one["types"]["g4dn.xlarge"] == two["types"]["g4dn.xlarge"] == SHARED
    assert all(seat["notPlaced"] is None for seat in one["instances"])
    (reason,) = {seat["notPlaced"] for seat in two["instances"]}
    assert "tolerates 1.25" in reason


def test_instances_of_an_unmeasured_profile_have_their_gpus_alone(files: tuple[str, str], tmp_path: Path) -> None:
    four = _written(tmp_path / "four.yaml", [_node("n0", 2), _node("n1", 2)])
    services = answer(files[0], four)
    for service in services:
        assert service["stretch"] == {"mean": 1.0, "p99": 1.0, "most": 1.0}
        assert service["unmeasuredShares"] == ["g4dn.xlarge"]
        assert service["types"]["g4dn.xlarge"]["gpuCompute"] == 100
        assert (service["maxSlowdown"], service["withinMaxSlowdown"]) == (None, None)
        assert {seat["tenancy"] for seat in service["instances"]} == {"Exclusive"}
    seats = [(seat["node"], seat["gpu"], seat["notPlaced"]) for one in services for seat in one["instances"]]
    assert len(set(seats)) == len(seats) == 4
    assert all(reason is None for *_, reason in seats)


def test_an_exclusive_service_shares_nothing_though_it_is_measured(files: tuple[str, str], tmp_path: Path) -> None:
    services = _measured(files[0], tmp_path / "exclusive.yaml", sharing="Exclusive")
    one = answer(services, files[1], code=3)[0]
    assert one["types"]["g4dn.xlarge"]["why"] == "spec.sharing is Exclusive"
    assert one["stretch"]["most"] == 1.0


def test_service_times_are_the_profiles_own_and_only_the_prediction_is_slowed(
    files: tuple[str, str], tmp_path: Path
) -> None:
    """One service alone on its GPUs takes its time alone, whatever sigma is."""
    services = _measured(files[0], tmp_path / "measured.yaml", factor="1.0")
    found = [answer(services, files[1], "--service", "one", "--max-slowdown", sigma) for sigma in ("1.05", "1.5")]
    assert [one["maxSlowdown"] for one in found] == ["1.05", "1.5"]
    for one in found:
        assert one["stretch"]["most"] == 1.0
        assert one["runs"][0]["latencySeconds"]["p50"] < 0.05


def test_the_same_seed_gives_the_same_answer_and_more_seeds_more_runs(files: tuple[str, str]) -> None:
    first, again = (answer(*files, "--seeds", "2", "--seed", "5", code=3) for _ in range(2))
    assert first == again
    assert [len(service["runs"]) for service in first] == [2, 2]


def test_an_instance_without_room_is_named_with_the_reason(files: tuple[str, str], tmp_path: Path) -> None:
    small = _written(tmp_path / "small.yaml", [_node("n0", 1)])
    one = answer(files[0], small, code=3)[0]
    assert one["holds"] is False
    missing = [seat["notPlaced"] for seat in one["instances"] if seat["notPlaced"]]
    assert missing
    table = run(files[0], "--together", "--nodes", small, "--queries", "2000")
    assert "1 of 2 instances could be placed" in table.stdout
    assert "not placed" in table.stdout


def test_where_nothing_is_placed_no_stretch_and_no_gpu_are_shown(files: tuple[str, str], tmp_path: Path) -> None:
    bare = _written(tmp_path / "bare.yaml", [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}}])
    table = run(files[0], "--together", "--nodes", bare, "--queries", "2000")
    assert table.exit_code == 3
    assert table.stdout.count("no query was served") == 2
    assert "greatest slow-down" not in table.stdout
    assert "INSTANCES OF" not in table.stdout
    assert "INSTANCES OF" in run(files[0], "--together", "--nodes", files[1], "--queries", "2000").stdout


def test_no_gpu_gets_more_than_is_tolerated_though_memory_is_there(files: tuple[str, str], tmp_path: Path) -> None:
    """Two instances of each service, 4 of 15 GiB each; two on a GPU would be slowed 1.5 times."""
    services = _measured(files[0], tmp_path / "measured.yaml", share="0.75")
    found = answer(services, files[1], code=3)
    missing = [seat["notPlaced"] for one in found for seat in one["instances"]]
    assert missing[:2] == [None, None]
    assert all("tolerates 1.25" in reason for reason in missing[2:])
    assert len(missing) == 4


def test_a_picture_is_drawn(files: tuple[str, str], tmp_path: Path) -> None:
    answer(*files, "--plot", str(tmp_path / "together.png"), code=3)
    assert (tmp_path / "together.png").stat().st_size > 5000


def test_a_table_says_what_is_alone_and_who_is_where(files: tuple[str, str], tmp_path: Path) -> None:
    shown = run(files[0], "--together", "--nodes", files[1], "--queries", "2000").stdout
    shown = " ".join(shown.split())
    assert "planned with a GPU of its own: ModelProfile one-t4 has no computeShare; measure it" in shown
    assert "no instance shares a GPU" in shown
    measured = _measured(files[0], tmp_path / "measured.yaml")
    shown = " ".join(run(measured, "--together", "--nodes", files[1], "--queries", "2000", *TIGHT).stdout.split())
    assert "within the greatest slow-down of 1.25" in shown
    assert "one, two" in shown
    assert "2 GPUs for 4 instances, exclusive 4" in shown


@pytest.mark.parametrize(
    ("planner", "wish", "exclusive"),
    [
        ("ilp", {"budget": {"hourly": "0.2"}}, 4),
        ("flow", {"objective": "MaxThroughput", "budget": {"hourly": "0.4"}}, 6),
        ("kairos", {"objective": "MaxThroughput", "budget": {"hourly": "0.4"}}, 7),
    ],
)
def test_whole_gpus_are_counted_for_what_the_plan_carries_whatever_they_cost(
    files: tuple[str, str], tmp_path: Path, planner: str, wish: dict[str, Any], exclusive: int
) -> None:
    """0.4 $/h buy each service four shared instances, or one whole GPU that carries less; 0.2 $/h buy none."""
    services = _measured(files[0], tmp_path / "measured.yaml", planner=planner, **wish)
    asked = (services, "--together", "--nodes", files[1], "--queries", "2000", "--max-slowdown", "1.5")
    found = json.loads(run(*asked, "-o", "json").stdout)["items"]
    assert sum(one["exclusiveGPUs"] for one in found) == exclusive
    assert f"exclusive {exclusive}\n" in run(*asked).stdout


def test_where_whole_gpus_carry_no_plan_the_reason_is_said(files: tuple[str, str], tmp_path: Path) -> None:
    """Four that share are slowed by 1 %, and four whole GPUs do not hold Kairos's bound of them in simulation."""
    fields: dict[str, Any] = {"planner": "kairos", "objective": "MaxThroughput", "budget": {"hourly": "0.4"}}
    fields["slo"] = {"latency": "70ms", "percentile": "98"}
    services = _measured(files[0], tmp_path / "measured.yaml", share="0.01", factor="1", **fields)
    few = [m | {"spec": m["spec"] | {"maxInstances": 4}} if m["kind"] == "InstanceType" else m for m in _read(services)]
    limited = _written(tmp_path / "limited.yaml", few)
    asked = (limited, "--together", "--nodes", files[1], "--queries", "2000", "--max-slowdown", "1.01")
    shown = " ".join(run(*asked).stdout.split())
    assert "exclusive none: default/one: no mix tried keeps 70 ms for 98 % of the queries" in shown
    assert "no time to wait; and 1 more" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--together",), "--together needs --nodes FILE"),
        (("--nodes", "NODES"), "--nodes needs --together"),
        (("--together", "--nodes", "NODES", "--max-slowdown", "0.9"), "0.9 must be at least 1, for example 1.25"),
        (("--together", "--nodes", "NODES", "--rate", "9"), "--rate does not go with --together"),
        (("--together", "--nodes", "NODES", "--find-allowable"), "--find-allowable does not go with --together"),
        (("--together", "--nodes", "NODES", "--counts", "g4dn.xlarge=1"), "--counts does not go with --together"),
        (("--together", "--nodes", "SERVICES"), "item 1: kind 'InstanceType': only Node is wanted\n"),
        (("--together", "--nodes", "CSV"), "item 1 is no Kubernetes object; write nodes with: kubectl get nodes -o"),
        (("--together", "--nodes", "absent.yaml"), "absent.yaml: cannot be read"),
        (("--together", "--nodes", "EMPTY"), "no nodes; write them with: kubectl get nodes -o yaml"),
        (("--together", "--nodes", "TWICE"), "node n0 is there twice"),
    ],
)
def test_bad_input_is_exit_2_with_what_to_do(
    files: tuple[str, str], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    places = {
        "NODES": files[1],
        "SERVICES": files[0],
        "EMPTY": _written(tmp_path / "empty.yaml", []),
        "TWICE": _written(tmp_path / "twice.yaml", [_node("n0"), _node("n0")]),
        "CSV": str(tmp_path / "runs.csv"),
    }
    (tmp_path / "runs.csv").write_text("model,latency_ms\n" + "rm2,1\n" * 1000)
    result = run(files[0], *(places.get(argument, argument) for argument in arguments))
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert len(result.stderr) < 400, "the file's text is not repeated"


def test_measured_shares_decide_whether_two_hold_together(files: tuple[str, str], tmp_path: Path) -> None:
    services = _measured(files[0], tmp_path / "measured.yaml", planner="flow")
    four = _written(tmp_path / "four.yaml", [_node("n0", 2), _node("n1", 2)])
    for service in answer(services, four):
        assert service["holds"] is True
        assert service["unmeasuredShares"] == []
        assert 1 < service["stretch"]["most"] <= 1.04 + 1e-9


@pytest.mark.parametrize(("growing", "grows"), [(1, False), (2, True), (3, True)])
def test_a_backlog_that_seems_to_grow_at_one_seed_of_three_breaks_nothing(growing: int, *, grows: bool) -> None:
    rising, level = (Backlog(queries, (1.0,) * PARTS) for queries in (tuple(map(float, range(PARTS))), (1.0,) * PARTS))
    reports: Any = [
        SimpleNamespace(backlog=backlog, in_time=lambda _: True)
        for backlog in [rising] * growing + [level] * (3 - growing)
    ]
    planned: Any = SimpleNamespace(problem=SimpleNamespace(slo=SimpleNamespace(percentile=98.0)))
    effort: Any = None
    played = PlayedService(planned, (), tuple(reports), effort)
    assert (played.backlog_grows, played.holds) == (grows, not grows)
