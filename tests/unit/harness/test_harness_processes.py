"""Processes, ports and state: the harness stops only what it started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import cluster, ports
from harness.ports import FIRST, PortBlock, Ports
from harness.processes import ProcessRecord, end, spawn, tail
from harness.state import ClusterState, StateFolder, sweep

PORTS = Ports.block_from(FIRST)
GONE = ProcessRecord("gone", os.getpid(), "another boot/1")


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def idle(tmp_path: Path, name: str = "idle", first: str = "pass") -> ProcessRecord:
    program = f"import signal, sys; {first}; print('up', flush=True); signal.pause()"
    record = spawn(name, [sys.executable, "-c", program], tmp_path / "logs" / f"{name}.log")
    while tail(tmp_path / "logs" / f"{name}.log") != "up":
        assert record.alive()
    return record


def test_a_frozen_process_lives_and_does_nothing_until_it_is_thawed(tmp_path: Path) -> None:
    record = idle(tmp_path)
    assert not record.frozen()
    record.freeze()
    record.freeze()
    assert record.frozen()
    assert record.alive()
    record.thaw()
    assert not record.frozen()
    end([record], grace=0)
    assert not record.frozen()
    with pytest.raises(RuntimeError, match=r"idle \(\d+\) did not follow SIGSTOP"):
        record.freeze()


def test_a_frozen_process_still_ends_in_order(tmp_path: Path) -> None:
    record = idle(tmp_path)
    record.freeze()
    assert end([record], grace=10) == []
    assert not record.alive()


def test_nothing_is_frozen_in_place_of_a_process_that_is_gone(bystander: subprocess.Popen[bytes]) -> None:
    somebody = ProcessRecord("gone", bystander.pid, "another boot/1")
    with pytest.raises(RuntimeError, match="did not follow SIGSTOP"):
        somebody.freeze()
    now = ProcessRecord.of("bystander", bystander.pid)
    assert now is not None
    assert not now.frozen()


def test_a_process_ends_on_sigterm_and_is_not_reported_as_killed(tmp_path: Path) -> None:
    record = idle(tmp_path)
    assert record.alive()
    assert end([record], grace=10) == []
    assert not record.alive()


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    record = idle(tmp_path, "deaf", "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    assert end([record], grace=0.1) == ["deaf"]
    assert not record.alive()


@pytest.mark.skipif(sys.platform != "linux", reason="threads are read from /proc")
def test_a_process_whose_first_thread_ended_lives_while_others_do(tmp_path: Path) -> None:
    program = (
        "import ctypes, os, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)  # ends this thread alone"
    )
    record = spawn("first-thread-ended", [sys.executable, "-c", program], tmp_path / "logs" / "first.log")

    def first_thread_ended() -> bool:
        return Path(f"/proc/{record.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

    while not first_thread_ended():
        assert record.alive()
    assert record.alive()
    end([record], grace=0)
    assert not record.alive()


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


def test_destroying_a_state_stops_its_components_and_removes_it(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    record = idle(tmp_path)
    folder.save(ClusterState(PORTS).with_process(record))
    folder.destroy()
    assert not record.alive()
    assert not folder.path.exists()
    folder.destroy()


def test_a_state_survives_its_way_through_the_disk(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    state = ClusterState(PORTS, owner=GONE).with_process(GONE)
    folder.save(state)
    assert folder.load() == state
    newer = ProcessRecord("gone", 1, "later")
    assert state.with_process(newer).processes == (newer,)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ports": {"etcd": 1}}'])
def test_a_broken_state_file_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert StateFolder(tmp_path).load() is None


def test_the_sweep_removes_only_states_whose_owner_is_gone(tmp_path: Path) -> None:
    owners = {"alive": ProcessRecord.of("me", os.getpid()), "dead": GONE, "ownerless": None}
    for name, owner in owners.items():
        StateFolder(tmp_path / name).save(ClusterState(PORTS, owner))
    (tmp_path / "no-state").mkdir()
    assert sweep(tmp_path.iterdir()) == [tmp_path / "dead"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive", "no-state", "ownerless"]


@pytest.fixture
def own_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range apart from that of real clusters, which start beside these tests."""
    first = ports.LAST + os.getpid() % 50 * ports.BLOCK
    monkeypatch.setattr(ports, "FIRST", first)
    monkeypatch.setattr(ports, "LAST", first + 3 * ports.BLOCK)


@pytest.mark.usefixtures("own_ports")
def test_two_claims_get_different_ports_and_a_released_block_is_free_again(tmp_path: Path) -> None:
    first, second = PortBlock.claim(tmp_path), PortBlock.claim(tmp_path)
    assert not set(first.ports.all()) & set(second.ports.all())
    first.release()
    third = PortBlock.claim(tmp_path)
    assert third.ports == first.ports
    for claim in (second, third):
        claim.release()


@pytest.mark.usefixtures("own_ports")
def test_when_every_block_is_claimed_the_error_names_the_range(tmp_path: Path) -> None:
    claims = [PortBlock.claim(tmp_path) for _ in range(3)]
    with pytest.raises(OSError, match=f"no {ports.BLOCK} free ports in a row between {ports.FIRST} and"):
        PortBlock.claim(tmp_path)
    for claim in claims:
        claim.release()


@pytest.mark.usefixtures("own_ports")
def test_a_block_with_a_port_in_use_is_passed_over(tmp_path: Path) -> None:
    claim = PortBlock.claim(tmp_path)
    claim.release()
    with socket.socket() as server:
        server.bind(("127.0.0.1", claim.ports.extender_probe))
        server.listen()
        other = PortBlock.claim(tmp_path)
        assert other.ports != claim.ports
        other.release()


def test_a_tail_is_the_end_of_a_log_and_empty_without_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log) == ""
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    assert tail(log, 2) == "line 998\nline 999"


@pytest.mark.parametrize(("name", "least"), [("apiserver", 60.0), ("etcd", 60.0), ("operator", 5.0)])
def test_whoever_is_stopped_has_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch, name: str, least: float) -> None:
    """The API server answers what is under way for a minute."""
    graces: list[float] = []
    monkeypatch.setattr(cluster, "end", lambda _records, grace: graces.append(grace))
    stopped = object.__new__(cluster.Cluster)
    monkeypatch.setattr(stopped, "_process", lambda _name: None)
    stopped.stop_component(name)
    assert graces[0] >= least
