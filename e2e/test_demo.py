"""`make demo`: everything Ready and shown; again it changes nothing and repairs; `make demo-down` leaves nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.components import ROOT
from harness.processes import command_line
from harness.reaper import dismiss, watch
from harness.tools import Toolset

SAMPLE = ROOT / "manifests" / "samples" / "hetsev.yaml"
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture
def state(state_root: Path, toolset: Toolset) -> Iterator[Path]:
    path = state_root / f"demo-{os.getpid()}"
    reaper = watch(path)
    yield path
    dismiss(reaper)


def demo(state: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HETSERVE_DEMO_DIR": str(state), "PYTHONPATH": str(ROOT / "e2e")}
    arguments = [sys.executable, "-m", "harness.demo", *command]
    return subprocess.run(arguments, env=env, cwd=ROOT, check=False, capture_output=True, text=True, timeout=200)


def kubectl(state: Path, *arguments: str) -> str:
    """The very command that the demo tells its user."""
    env = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}
    program = state / "bin" / "kubectl"
    return subprocess.run([program, *arguments], env=env, check=True, capture_output=True, text=True).stdout


def uids_of_pods(state: Path) -> list[str]:
    return sorted(kubectl(state, "get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.uid}").split())


def assert_plans_hold_together(state: Path) -> None:
    """What the operator has planned, played on these nodes: all SLOs hold, and nobody is slower than promised."""
    nodes = state / "nodes.yaml"
    nodes.write_text(kubectl(state, "get", "nodes", "-o", "yaml"))
    arguments = ["simulate", str(SAMPLE), "--together", "--nodes", str(nodes), "--queries", "10000", "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "hetserve.cli", *arguments], check=False, capture_output=True, text=True, timeout=120
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
    assert "operator runs, extender does not run, scheduler runs, prometheus runs" in shown.stdout


def test_the_demo_shows_its_services_repairs_itself_and_leaves_nothing(state: Path) -> None:
    first = demo(state, "up")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "5 of 5 services are Ready" in first.stdout
    assert "1xg4dn.xlarge + 13xr5n.large" in first.stdout
    assert re.search(r"hetsev-t4: \d+ pods on 20 GPUs \(1\.\d+ per GPU\)", first.stdout), first.stdout
    listed = kubectl(state, "get", "hisvc")
    header = listed.splitlines()[0].split()
    assert header == ["NAME", "READY", "OBJECTIVE", "PLAN", "QPS", "COST/H", "REASON", "AGE"]
    assert kubectl(state, "wait", "--for=condition=Ready", "hisvc", "--all").count("condition met") == 5

    assert_plans_hold_together(state)

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
    assert "'operator', 'extender', 'scheduler', 'prometheus', 'twin', 'apiserver', 'etcd'" in refused.stderr
    refused = demo(state, "sideways")
    assert refused.returncode == 2
    for command in ("up", "status", "down", "stop", "start", "kill", "freeze", "thaw"):
        assert command in refused.stderr
