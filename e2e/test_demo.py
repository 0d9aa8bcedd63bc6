"""`make demo`: everything Ready and shown; again it changes nothing and repairs; `make demo-down` leaves nothing.

`make demo-load`: a load is played, followed, summed up and drawn.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import limits
from harness.components import ROOT
from harness.demo import ASKED, QUERY
from harness.processes import command_line
from harness.reaper import dismiss, watch
from harness.tools import Toolset
from harness.waiting import Unmet, wait_until

SAMPLE = ROOT / "manifests" / "samples" / "hetsev.yaml"
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(limits.LONG_TEST)]


@pytest.fixture
def state(state_root: Path, toolset: Toolset) -> Iterator[Path]:
    path = state_root / f"demo-{os.getpid()}"
    reaper = watch(path)
    yield path
    dismiss(reaper)


def demo(state: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HETSERVE_DEMO_DIR": str(state), "PYTHONPATH": str(ROOT / "e2e")}
    arguments = [sys.executable, "-m", "harness.demo", *command]
    return subprocess.run(
        arguments, env=env, cwd=ROOT, check=False, capture_output=True, text=True, timeout=limits.SESSION
    )


def kubectl(state: Path, *arguments: str) -> str:
    """The very command that the demo tells its user."""
    env = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}
    program = state / "bin" / "kubectl"
    return subprocess.run([program, *arguments], env=env, check=True, capture_output=True, text=True).stdout


def asked_by_curl(state: Path) -> str:
    """What the command that the demo shows gets."""
    command = ["curl", "-K", str(state / "curlrc"), "--json", f"@{QUERY}", ASKED]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=limits.ANSWER).stdout


def uids_of_pods(state: Path) -> list[str]:
    return sorted(kubectl(state, "get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.uid}").split())


def wait_for_tried_plans(state: Path) -> None:
    """Waits until all that runs is what tried plans say: on a slow machine the demo shows untried ones, which go."""
    within = f"--timeout={limits.CROWD:.0f}s"
    kubectl(state, "wait", "--for=jsonpath={.status.plan.tried}=true", "hisvc", "--all", within)

    def only_planned() -> bool | Unmet:
        services = json.loads(kubectl(state, "get", "hisvc", "-o", "json"))["items"]
        planned = sum(each["count"] for one in services for each in one["status"]["plan"]["counts"])
        there = len(uids_of_pods(state))
        return there == planned or Unmet(f"{there} pods, {planned} planned")

    wait_until(only_planned, limits.ROLLOUT, "the pods of the tried plans alone")
    kubectl(state, "wait", "--for=condition=Ready", "hisvc", "--all", within)


def assert_plans_hold_together(state: Path) -> None:
    """What the operator has planned, played on these nodes: all SLOs hold, and nobody is slower than promised."""
    nodes = state / "nodes.yaml"
    nodes.write_text(kubectl(state, "get", "nodes", "-o", "yaml"))
    arguments = ["simulate", str(SAMPLE), "--together", "--nodes", str(nodes), "--queries", "10000", "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "hetserve.cli", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=limits.COMMAND,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    services = json.loads(done.stdout)["items"]
    assert [one["holds"] for one in services] == [True] * 4
    assert [one["withinMaxSlowdown"] for one in services] == [True] * 4
    running = json.loads(kubectl(state, "get", "hisvc", "-o", "json"))["items"]
    plans = {one["metadata"]["name"]: one["status"]["plan"]["counts"] for one in running}
    for one in services:
        played = {name: count for name, count in one["counts"].items() if count}
        assert {each["instanceType"]: each["count"] for each in plans[one["service"]]} == played


def assert_components_follow(state: Path) -> None:
    """A command acts once, and says why it cannot again. The extender is left killed."""
    for command, component, now in (
        ("freeze", "operator", "is frozen"),
        ("thaw", "operator", "runs"),
        ("start", "prometheus", "runs"),
        ("kill", "etcd", "does not run"),
        ("start", "etcd", "runs"),
        ("kill", "extender", "does not run"),
    ):
        done = demo(state, command, component)
        assert (done.returncode, done.stdout) == (0, f"{component} {now}\n"), done.stderr
    again = demo(state, "kill", "extender")
    assert (again.returncode, again.stderr) == (1, "demo: extender does not run: there is nothing to kill\n")
    shown = demo(state, "status")
    assert shown.returncode == 0, shown.stderr
    assert "Queues: unknown, the extender does not run" in shown.stdout
    assert "operator runs, extender does not run, scheduler runs, router runs, prometheus runs" in shown.stdout


def test_the_demo_shows_its_services_repairs_itself_and_leaves_nothing(state: Path) -> None:
    first = demo(state, "up")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "6 of 6 services are Ready" in first.stdout
    assert "1xg4dn.xlarge + 13xr5n.large" in first.stdout
    assert re.search(r"hetsev-t4: \d+ pods on 20 GPUs \(1\.\d+ per GPU\)", first.stdout), first.stdout
    assert f"{ASKED}: labels [0], by digits-t3-half-" in first.stdout
    assert json.loads(asked_by_curl(state))["outputs"][0] == {
        "name": "labels",
        "shape": [1],
        "datatype": "INT64",
        "data": [0],
    }
    listed = kubectl(state, "get", "hisvc")
    header = listed.splitlines()[0].split()
    assert header == ["NAME", "MODEL", "SLO", "READY", "PLAN", "QPS", "COST/H", "REASON", "AGE"]
    assert kubectl(state, "wait", "--for=condition=Ready", "hisvc", "--all").count("condition met") == 6

    wait_for_tried_plans(state)
    before = uids_of_pods(state)
    assert_components_follow(state)
    again = demo(state, "up")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "the control plane runs already" in again.stdout
    assert uids_of_pods(state) == before, "showing the demo again replaced running pods"

    assert demo(state, "down").returncode == 0
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    assert [line for pid in pids if f"{state}/" in (line := command_line(pid))] == []
    assert not state.exists()
    assert demo(state, "status").returncode == 1


@pytest.mark.deep
def test_the_plans_of_the_demo_hold_together(state: Path) -> None:
    first = demo(state, "up")
    assert first.returncode == 0, first.stdout + first.stderr
    wait_for_tried_plans(state)
    assert_plans_hold_together(state)
    assert demo(state, "down").returncode == 0


def load_command(out: Path, trace: Path) -> list[str]:
    return ["load", "--speed", "1", "--load", str(trace), "--out", str(out)]


def interrupted(state: Path, until: str, *command: str) -> tuple[int, str]:
    """Exit code and output of a play that gets Ctrl-C once it shows a line with these words."""
    env = {**os.environ, "HETSERVE_DEMO_DIR": str(state), "PYTHONPATH": str(ROOT / "e2e"), "PYTHONUNBUFFERED": "1"}
    arguments = [sys.executable, "-m", "harness.demo", *command]
    # Where the tests run in the background, a shell has all below them ignore Ctrl-C.
    with subprocess.Popen(
        arguments,
        env=env,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  (one thread)
    ) as playing:
        assert playing.stdout is not None
        said = ""
        for line in playing.stdout:
            said += line
            if until in line:
                break
        playing.send_signal(signal.SIGINT)
        said += playing.stdout.read()
        return playing.wait(timeout=limits.ROLLOUT), said


def assert_drawn(out: Path, *, complete: bool) -> None:
    """Picture and figures are whole, and tell a load that was followed upwards."""
    seen = json.loads(out.with_suffix(".json").read_text())
    assert out.read_text().rstrip().endswith("</svg>")
    assert seen["complete"] is complete
    actions = {one["action"] for one in seen["decisions"]}
    assert "ScaleUp" in actions
    assert "ScaleDown" not in actions
    assert seen["ended"] > 0
    assert 0 < seen["spent"] <= seen["mostHourly"] * seen["traceHours"]


@pytest.fixture
def rising(tmp_path: Path) -> Path:
    """A load of which more instances are needed soon, and until its end."""
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,qps\n0,8\n2,30\n300,30\n")
    return trace


@pytest.mark.deep
def test_a_load_is_played_and_followed_and_ctrl_c_draws_it_and_ends_it_clean(
    state: Path, rising: Path, tmp_path: Path
) -> None:
    out = tmp_path / "play.svg"
    code, said = interrupted(state, "ScaleUp", *load_command(out, rising))
    assert code == 130, said
    assert "interrupted at 00:00 of the trace" in said
    assert "trace.csv was played until 00:00" in said
    assert_drawn(out, complete=False)
    assert "twin does not run" in demo(state, "status").stdout
    assert demo(state, "down").returncode == 0
    assert not state.exists()


@pytest.mark.deep
def test_a_load_that_is_played_to_its_end_is_carried_at_its_end(state: Path, tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.csv", tmp_path / "play.svg"
    trace.write_text("time_s,qps\n0,8\n5,30\n60,30\n")
    done = demo(state, *load_command(out, trace))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trace.csv was played to its end, 60 s" in done.stdout
    assert_drawn(out, complete=True)
    moments = json.loads(out.with_suffix(".json").read_text())["moments"]
    holds = [moment["readyHold"] for moment in moments if moment["readyHold"] is not None]
    assert holds[0] < 30 < holds[-1]
    assert demo(state, "down").returncode == 0


def test_what_a_switched_off_machine_left_is_cleared_away(state: Path) -> None:
    state.mkdir(parents=True)
    (state / "kubeconfig").write_text("left by a machine that was switched off")
    done = demo(state, "down")
    assert (done.returncode, done.stdout) == (0, "the demo is stopped and its state removed\n")
    assert demo(state, "down").stdout == "no demo runs here\n"


def test_what_does_not_exist_is_refused_with_what_does(state: Path) -> None:
    assert demo(state, "freeze", "operator").stderr == "demo: no demo runs here; `make demo` starts one\n"
    refused = demo(state, "freeze", "printer")
    assert refused.returncode == 2
    assert "'operator', 'extender', 'scheduler', 'router', 'prometheus', 'twin', 'apiserver', 'etcd'" in refused.stderr
    refused = demo(state, "sideways")
    assert refused.returncode == 2
    for command in ("up", "load", "status", "down", "stop", "start", "kill", "freeze", "thaw"):
        assert command in refused.stderr
