"""How a component starts and ends: no tracebacks for the user's mistakes, one log on stderr, signals are heard."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from kubernetes.aio.config import ConfigException

from harness import limits
from hetserve_extender.main import main as extender
from hetserve_operator.main import main as operator
from hetserve_shell.process import AT_MOST, log_to_stderr, run_or_exit, settings_or_exit, stop_on_signals
from hetserve_shell.settings import Port, SettingsModel

COMPONENTS = [pytest.param(operator, id="operator"), pytest.param(extender, id="extender")]


class OnePort(SettingsModel):
    """Settings of a component that has only a port."""

    probe_port: Port = 1


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("flag", ["--config", "--kubeconfig", "--host", "--probe-port", "--log-level", "--version"])
def test_both_components_take_the_common_flags(component: click.Command, flag: str) -> None:
    assert f"{flag} " in CliRunner().invoke(component, ["--help"]).output


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_mistake_in_the_settings_ends_a_component_with_the_message(component: click.Command, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("prot: 1")
    result = CliRunner().invoke(component, ["--config", str(path)])
    assert (result.exit_code, result.output) == (1, f"Error: {path}: prot: unknown setting\n")


def test_flags_win_over_the_file_and_flags_not_given_do_not(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("probePort: 2")
    assert settings_or_exit(OnePort, path, {"probe_port": None}).probe_port == 2
    assert settings_or_exit(OnePort, path, {"probe_port": 3}).probe_port == 3
    with pytest.raises(click.ClickException, match=r"^probePort: -1: "):
        settings_or_exit(OnePort, None, {"probe_port": -1})


@pytest.mark.parametrize("error", [ConfigException("no account"), OSError("no port")])
def test_what_keeps_a_component_from_starting_is_said_without_a_traceback(error: Exception) -> None:
    async def serve() -> None:
        raise error

    with pytest.raises(click.ClickException, match=str(error)):
        run_or_exit(asyncio.run, serve())


def test_our_own_mistakes_keep_their_traceback() -> None:
    async def serve() -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        run_or_exit(asyncio.run, serve())


def test_log_lines_have_time_level_and_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])  # logging is set up once per process, and pytest was first
    monkeypatch.setattr(root, "level", root.level)
    log_to_stderr("warning")
    logging.getLogger("a.b").info("quiet")
    logging.getLogger("a.b").warning("loud")
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.endswith(" WARNING a.b: loud\n")
    assert heard.err.count("\n") == 1


def test_what_a_library_logs_in_every_turn_fills_no_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    log_to_stderr("warning")
    for _ in range(1000):
        logging.getLogger("asyncio").error("socket.accept() out of system resource")
    root.handlers[0].close()
    heard = capsys.readouterr().err.splitlines()
    assert len(heard) == AT_MOST + 1
    assert heard[-1].endswith(
        f" ERROR asyncio: {1000 - AT_MOST} more like this were left out: socket.accept() out of system resource"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_asks_for_an_orderly_end(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)  # a signal that nobody hears must fail this test, not end all
    stop = asyncio.Event()
    try:
        stop_on_signals(stop)
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.wait(), limits.ANSWER)
    finally:
        for heard in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(heard)
        signal.signal(number, before)
