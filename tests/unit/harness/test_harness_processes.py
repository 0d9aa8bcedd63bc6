"""Processes, ports and state: the harness stops only what it started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.ports import FIRST, Ports
from harness.processes import ProcessRecord, end
from harness.state import ClusterState, StateFolder, sweep

PORTS = Ports.block_from(FIRST)
GONE = ProcessRecord("gone", os.getpid(), "another boot/1")


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_nothing_is_frozen_in_place_of_a_process_that_is_gone(bystander: subprocess.Popen[bytes]) -> None:
    somebody = ProcessRecord("gone", bystander.pid, "another boot/1")
    with pytest.raises(RuntimeError, match="did not follow SIGSTOP"):
        somebody.freeze()
    now = ProcessRecord.of("bystander", bystander.pid)
    assert now is not None
    assert not now.frozen()


def test_a_pid_that_now_belongs_to_somebody_else_is_left_alone(bystander: subprocess.Popen[bytes]) -> None:
    stale = ProcessRecord("ours", bystander.pid, "before the reboot")
    assert not stale.alive()
    end([stale], grace=0)
    assert bystander.poll() is None, "a stale record killed a stranger"


def test_a_stale_pid_file_kills_nobody(tmp_path: Path, bystander: subprocess.Popen[bytes]) -> None:
    folder = StateFolder(tmp_path / "state")
    pids = folder.kwok_cluster / "pids"
    pids.mkdir(parents=True)
    (pids / "etcd.pid").write_text(f"{bystander.pid}\n")
    (pids / "kwok.pid").write_text("")
    assert folder.control_plane() == ()
    folder.destroy()
    assert bystander.poll() is None, "a pid file from before a reboot killed a stranger"
    assert not folder.path.exists()


def test_the_sweep_removes_only_states_whose_owner_is_gone(tmp_path: Path) -> None:
    owners = {"alive": ProcessRecord.of("me", os.getpid()), "dead": GONE, "ownerless": None}
    for name, owner in owners.items():
        StateFolder(tmp_path / name).save(ClusterState(PORTS, owner))
    (tmp_path / "no-state").mkdir()
    assert sweep(tmp_path.iterdir()) == [tmp_path / "dead"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive", "no-state", "ownerless"]
