"""Every command refuses devices, pipes and oversized files at once, with exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import hetserve.base.files
from harness import limits
from hetserve.base.files import UnreadableError, read_bytes
from hetserve.cli.app import app
from testing.data import REPOSITORY

SAMPLE = REPOSITORY / "manifests" / "samples" / "rm2.yaml"
READERS: dict[str, tuple[tuple[str, ...], int]] = {
    "manifests": (("plan", "{}"), 4),
    "samples": (("profile", "fit", "{}", "--model", "m", "--instance-type", "t"), 16),
    "batches": (("simulate", str(SAMPLE), "--rate", "5", "--batches", "{}"), 16),
    "arrivals": (("simulate", str(SAMPLE), "--arrivals", "{}"), 128),
    "a dump": (("gpus", "--from", "{}"), 1024),
    "a log": (("placement", "replay", "{}"), 1024),
    "a kubeconfig": (("gpus", "--kubeconfig", "{}"), 4),
}
"""Command, and the MiB that it reads at most."""


def run(reader: str, path: object) -> Result:
    command = [part.format(path) for part in READERS[reader][0]]
    return CliRunner().invoke(app, command, catch_exceptions=False)


def refused(result: Result, words: str) -> None:
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.timeout(limits.TEST)
def test_a_device_is_refused(reader: str) -> None:
    refused(run(reader, "/dev/zero"), "it is no file" if reader == "a kubeconfig" else "it is a device")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.timeout(limits.TEST)
def test_a_file_too_large_is_refused_before_it_is_in_memory(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate((READERS[reader][1] << 20) + 1)  # sparse: it takes no room
    refused(run(reader, path), f"it is larger than the {READERS[reader][1]} MiB")


@pytest.mark.parametrize("reader", sorted(READERS.keys() - {"a kubeconfig"}))
@pytest.mark.timeout(limits.TEST)
def test_a_pipe_that_nobody_writes_to_is_given_up(reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hetserve.base.files, "WRITER_WITHIN", 0.05)
    os.mkfifo(tmp_path / "pipe")
    refused(run(reader, tmp_path / "pipe"), "nobody has written to this pipe within 0.05 s")


def test_a_pipe_that_is_written_to_late_and_in_parts_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    content = SAMPLE.read_bytes() * 30  # more than a pipe holds

    def write() -> None:
        with (tmp_path / "pipe").open("wb") as pipe:
            for start in range(0, len(content), 10_000):
                pipe.write(content[start : start + 10_000])
                pipe.flush()

    writer = threading.Thread(target=write)
    writer.start()
    assert read_bytes(str(tmp_path / "pipe"), 1 << 20) == content
    writer.join()


def test_what_a_shell_puts_in_the_place_of_a_file_is_read() -> None:
    script = f"{sys.executable} -m hetserve.cli plan <(cat {SAMPLE}) --planner kairos"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1xg4dn.xlarge+13xr5n.large" in done.stdout


def test_standard_input_without_an_end_is_cut_off() -> None:
    with Path("/dev/zero").open("rb") as endless:
        command = [sys.executable, "-m", "hetserve.cli", "plan", "-"]
        done = subprocess.run(
            command, stdin=endless, capture_output=True, text=True, check=False, timeout=limits.COMMAND
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("Error: stdin: cannot be read: it is larger than the 4 MiB that are read of such an input\n")


@pytest.mark.parametrize(
    ("stdin", "words"),
    [("<&-", "stdin: cannot be read: it is closed"), ("</dev/null", "no InferenceService in stdin")],
)
def test_standard_input_that_is_closed_or_empty_is_named(stdin: str, words: str) -> None:
    script = f"{sys.executable} -m hetserve.cli plan - {stdin}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {words}\n")


def test_a_file_as_large_as_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    assert read_bytes(str(path), 1000) == b"x" * 1000
    with pytest.raises(UnreadableError, match="larger"):
        read_bytes(str(path), 999)
