from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetserve.base.units import Seconds
from hetserve.cli.app import app
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.log.journal import JournaledPlacer, plain
from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_node, gpu_pod
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
NODES = ["n0", "n1"]


def small_storm() -> list[Json]:
    """The log of pods that come, are bound, and go, on two GPUs of 16 GiB; the large one has to wait for room."""
    log: list[Json] = []
    now = [100.0]
    placer = JournaledPlacer(lambda: Seconds(now[0]), Seconds(30.0), log.append)
    log.append(placer.header(1767225700.0))
    NodeEventHandler(placer).replace([gpu_node(name, gpus=1, memory_mib=16384) for name in NODES])
    PodEventHandler(placer).replace([])
    for name, mib in (("a", 4000), ("b", 4000), ("big", 14000)):
        now[0] += 1
        pod = gpu_pod(name, memory_mib=mib, model=name)
        passed = placer.filter(pod, NODES).passed
        if passed:
            booking = placer.fix_gpus(parse_pod(pod).request, passed[0])
            placer.ledger.confirm_bind(booking.request.uid, Seconds(now[0] + 75))
            PodEventHandler(placer).apply(
                "MODIFIED", gpu_pod(name, memory_mib=mib, model=name, node=passed[0], gpu="0")
            )
    now[0] += 10
    PodEventHandler(placer).apply("DELETED", gpu_pod("b"))
    placer.filter(gpu_pod("big", memory_mib=14000, model="big"), NODES)
    return json.loads(json.dumps(plain(log)))  # type: ignore[no-any-return]


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["placement", *arguments], input=stdin)


def written(folder: Path, log: list[Json]) -> str:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in log))
    return str(path)


def test_a_replay_that_decides_the_same_says_so(tmp_path: Path) -> None:
    result = run("replay", written(tmp_path, small_storm()))
    assert result.exit_code == 0, result.output
    assert "6 of them decisions: all the same again" in result.stdout


def test_a_decision_that_comes_out_otherwise_is_shown_with_its_pod_and_exit_code_1(tmp_path: Path) -> None:
    log = small_storm()
    at = next(number for number, one in enumerate(log) if one["call"] == "filter")
    log[at]["result"]["passed"] = ["n1"]
    result = run("replay", written(tmp_path, log))
    assert result.exit_code == 1
    assert f"record {at + 1} is decided otherwise" in result.stdout
    assert '"name": "a"' in result.stdout
    assert '"passed": ["n1"]' in result.stdout
    assert json.loads(run("replay", "-o", "json", written(tmp_path, log)).stdout)["identical"] is False


def test_another_policy_is_shown_beside_the_logs_own(tmp_path: Path) -> None:
    path = written(tmp_path, small_storm())
    worst, best = json.loads(run("replay", path, "--policy", "BestFit", "-o", "json").stdout)["policies"]
    assert (worst["policy"], best["policy"]) == ("PackedWorstFit", "BestFit")
    assert (worst["arrived"], worst["placed"], worst["placed_before_refusal"], worst["refused"]) == (3, 3, 2, 1)
    assert worst["longest_wait"] == 10.0, "worst fit fills both GPUs a little: the large pod waits for b to go"
    assert (best["placed_before_refusal"], best["refused"], best["longest_wait"]) == (3, 0, 0.0)
    assert best["most_pods_on_a_gpu"] == 2
    assert "PackedWorstFit (as it was)" in run("replay", path, "--policy", "BestFit").stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not a placement log"), ('{"items": []}', "holds no placement log"), ("", "not a placement log")],
)
def test_what_is_no_log_is_said_in_one_line(text: str, words: str) -> None:
    result = run("replay", "-", stdin=text)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_dump_holds_what_placement_reads_and_nothing_of_the_pods_secrets(tmp_path: Path) -> None:
    pod = gpu_pod("a", node="n0", gpu="0")
    pod["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "SECRET"
    pod["spec"]["containers"][0] |= {"env": [{"name": "TOKEN", "value": "SECRET"}], "image": "registry/SECRET"}
    pod["spec"]["nodeSelector"] = {"pool": "gpu"}
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01"}]
    path = tmp_path / "dump.json"
    with HttpFace.serving(gpu_node(), pod) as api:
        result = run("dump", "--kubeconfig", str(api.kubeconfig(tmp_path)), "-o", str(path))
    assert result.exit_code == 0, result.stderr
    assert "no placement log in this dump: no pod of the extender" in result.stderr
    text = path.read_text()
    assert "SECRET" not in text
    assert "nodeSelector" in text
    shown = CliRunner().invoke(app, ["gpus", "--from", str(path), "-o", "json"])
    assert json.loads(shown.stdout)["gpus"][0]["pods"][0]["name"] == "a"
    told = json.loads(CliRunner().invoke(app, ["why", "a", "--from", str(path), "-o", "json"]).stdout)
    assert told["holds"]["since"] == "2026-01-01"


def test_a_dump_brings_a_log_which_why_and_replay_read(tmp_path: Path) -> None:
    log, path = written(tmp_path, small_storm()), tmp_path / "dump.json"
    with HttpFace.serving(gpu_node("n0", gpus=1), gpu_pod("a", node="n0", gpu="0")) as api:
        result = run("dump", "--log", log, "--kubeconfig", str(api.kubeconfig(tmp_path)), "-o", str(path))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "all the same again" in run("replay", str(path)).stdout
    told = CliRunner().invoke(app, ["why", "a", "--from", str(path)]).stdout
    assert "decided   2026-01-01 00:01:41.000 filter: GPU 0 on n0 (idle, 16384 MiB free), before GPU 0 on n1" in told
    assert "bind: GPU 0 of n0" in told


def why(folder: Path, log: list[Json], pod: str, *arguments: str) -> Result:
    """`hetserve why` of a dump with a log, on the nodes of the small storm."""
    path = folder / "dump.json"
    nodes = [gpu_node(name, gpus=1, memory_mib=16384) for name in NODES]
    pods = [gpu_pod(name, memory_mib=14000, model=name) for name in ("a", "b", "big")]
    path.write_text(
        json.dumps(
            {
                "items": [*({"kind": "Node"} | one for one in nodes), *({"kind": "Pod"} | one for one in pods)],
                "log": log,
            }
        )
    )
    return CliRunner().invoke(app, ["why", pod, "--from", str(path), *arguments])


def test_why_words_the_refusals_of_a_log(tmp_path: Path) -> None:
    told = " ".join(why(tmp_path, small_storm(), "big").stdout.split())
    refused = "no GPU with 14000 MiB free; the most free on any eligible GPU is 12384 MiB"
    assert f"2026-01-01 00:01:43.000 filter: refused; 2 nodes: {refused}" in told
    assert "filter: GPU 0 on n1 (idle, 16384 MiB free)" in told


def test_a_log_of_another_version_is_refused_by_name_and_left_out_of_why(tmp_path: Path) -> None:
    log = small_storm()
    log[0]["version"] = 1
    path = written(tmp_path, log)
    words = "the log is of version 1; this hetserve reads 5 and 6: use the one that wrote it"
    for arguments in (["replay", path], ["replay", path, "--policy", "BestFit"]):
        result = run(*arguments)
        assert (result.exit_code, words in result.stderr) == (2, True)
    beside = why(tmp_path, log, "a")
    assert (beside.exit_code, words in beside.stderr, "decided" in beside.stdout) == (0, True, False)
    named = why(tmp_path, log, "a", "--log", path)
    assert (named.exit_code, words in named.stderr) == (2, True)


def test_why_names_a_field_that_a_record_of_a_log_lacks(tmp_path: Path) -> None:
    log = small_storm()
    (number,) = [k for k, one in enumerate(log, start=1) if one["call"] == "filter" and one["t"] == 101]
    del log[number - 1]["result"]["chosen"]["gpus"][0]["freeComputePercent"]
    named = why(tmp_path, log, "a", "--log", written(tmp_path, log))
    words = f"record {number} (filter) has no field 'freeComputePercent': a log of version 6 has it"
    assert (named.exit_code, words in " ".join(named.stderr.split())) == (2, True)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_node()) as api:
        result = run(
            "dump", "--no-log", "--kubeconfig", str(api.kubeconfig(tmp_path)), "-o", str(tmp_path / "no" / "x")
        )
    assert result.exit_code == 2
    assert "cannot be written: No such file or directory" in result.stderr


def test_the_servers_reason_for_a_missing_log_is_reported() -> None:
    with HttpFace.serving() as api:
        api.status = 404
        result = CliRunner().invoke(app, ["placement", "replay", f"http://127.0.0.1:{api.port}/log"])
    assert (result.exit_code, "HTTP Error" in result.stderr) == (2, False)
