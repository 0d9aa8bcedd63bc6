"""Settings: documented defaults, flags on top, and messages that name the key."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hetserve.api.names import SYSTEM_NAMESPACE
from hetserve.placement.placer import Mode
from hetserve.placement.pods.requests import PolicyName
from hetserve.placement.queues.rounds import QueueSettings, Weights
from hetserve_extender.main import main
from hetserve_extender.settings import Settings
from hetserve_shell.settings import SettingsError, load_settings

EVERYTHING = """\
host: 127.0.0.1
port: 1
probePort: 2
reservationTimeout: 1m30s
mode: score
policy: BestFit
scheduler: {leaseName: a, leaseNamespace: b, host: me, healthUrl: "https://127.0.0.1:1/livez"}
queue: {queues: auto, weights: equal, beta: 3, unschedulableAfter: 5s, debounce: 10ms}
logLevel: debug
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def test_defaults_are_those_of_the_chart() -> None:
    settings = load_settings(Settings, None, {})
    assert settings.host == "0.0.0.0"  # noqa: S104
    assert (settings.port, settings.probe_port, settings.log_level) == (8888, 8889, "info")
    assert settings.hold == 30.0
    assert (settings.mode, settings.policy) == (Mode.DECIDE, PolicyName("PackedWorstFit"))
    assert settings.queue.core == QueueSettings(queues=4, beta=8, weights=Weights.HETSEV)
    scheduler = settings.scheduler
    assert (scheduler.lease_namespace, scheduler.lease_name) == (SYSTEM_NAMESPACE, "hetserve-scheduler")
    assert (scheduler.host, scheduler.health_url) == ("", "")
    assert (settings.queue.unschedulable_after, settings.queue.debounce) == (30.0, 0.05)


def test_every_key_is_read_and_a_flag_wins(tmp_path: Path) -> None:
    settings = load_settings(Settings, _file(tmp_path, EVERYTHING), {"port": 7, "probe_port": None, "host": None})
    assert (settings.host, settings.port, settings.probe_port) == ("127.0.0.1", 7, 2)
    assert settings.hold == 90.0
    assert (settings.mode, settings.policy) == (Mode.SCORE, PolicyName("BestFit"))
    scheduler = settings.scheduler
    assert (scheduler.lease_name, scheduler.lease_namespace, scheduler.host) == ("a", "b", "me")
    assert scheduler.health_url == "https://127.0.0.1:1/livez"
    assert settings.beside("other").scheduler.host == "other"
    assert settings.queue.core == QueueSettings(queues="auto", beta=3, weights=Weights.EQUAL)
    assert settings.queue.debounce == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot: 1", "prot: unknown setting"),
        ("queue: {betta: 1}", "queue.betta: unknown setting"),
        ("queue: {beta: 0}", "queue.beta: 0: "),
        ("queue: {queues: 65}", "queue.queues"),
        ("mode: guess", "mode: 'guess': "),
        ("policy: worstfit", "policy: 'worstfit': "),
        ("leaderElection: {leaseName: a}", "leaderElection: unknown setting"),
        ("scheduler: {leaseNamespace: ''}", "scheduler.leaseNamespace: '': "),
        ("port: 99999", "port: 99999: "),
        ("reservationTimeout: 30", "reservationTimeout: 30: a duration is a text such as 50ms or 30s"),
        ("reservationTimeout: soon", "reservationTimeout: 'soon': 'soon' is not a duration"),
        ("logLevel: loud", "logLevel: 'loud': "),
        ("[]x", "settings.yaml: "),
        ("- 1", "settings are a mapping such as logLevel: info"),
    ],
)
def test_a_bad_file_is_refused_by_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        load_settings(Settings, _file(tmp_path, text), {})
    assert words in str(refusal.value)


def test_the_command_ends_with_the_message_and_not_with_a_traceback(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--config", str(_file(tmp_path, "prot: 1"))])
    assert result.exit_code == 1
    assert result.output.endswith("settings.yaml: prot: unknown setting\n")
    result = CliRunner().invoke(main, ["--config", str(tmp_path / "absent.yaml")])
    assert result.exit_code == 1
    assert "absent.yaml" in result.output
    result = CliRunner().invoke(main, ["--kubeconfig", str(tmp_path / "absent")])
    assert result.exit_code == 1
    assert "absent does not exist" in result.output
