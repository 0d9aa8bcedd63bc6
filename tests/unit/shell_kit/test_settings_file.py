"""A settings file that says nothing is refused: a component with every default would do the wrong work in silence."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from hetserve_extender.main import main as extender
from hetserve_operator.main import main as operator
from hetserve_shell.settings import Port, SettingsError, SettingsModel, load_settings


class OnePort(SettingsModel):
    """Settings of a component that has only a port."""

    probe_port: Port = 1


def refusal(path: Path) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings(OnePort, path, {"probe_port": 3})
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("", "nothing"),
        ("\n  \n", "nothing"),
        ("# probePort: 2\n", "nothing"),
        ("---\n...\n", "nothing"),
        ("null", "nothing"),
        ("~", "nothing"),
        ("[]", "a list"),
        ("- probePort: 2", "a list"),
        ("probePort 2", "a text"),
        ("''", "a text"),
        ("0", "0"),
        ("false", "False"),
        ("2.5", "2.5"),
    ],
)
def test_a_file_without_a_mapping_is_refused_with_what_is_right(tmp_path: Path, text: str, held: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    right = "settings are a mapping such as logLevel: info ({} for the defaults)"
    assert refusal(path) == f"{path}: {right}, the file holds {held}"


@pytest.mark.parametrize("component", [pytest.param(operator, id="operator"), pytest.param(extender, id="extender")])
def test_a_component_does_not_start_on_an_empty_file(component: click.Command, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.touch()
    result = CliRunner().invoke(component, ["--config", str(path), "--kubeconfig", str(tmp_path / "absent")])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {path}: settings are a mapping")


def test_a_mapping_without_keys_asks_for_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("{}")
    assert load_settings(OnePort, path, {}).probe_port == 1


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("probePort: 2\nprobePort: 3\n")
    assert "key 'probePort' is there twice" in refusal(path)


def test_bytes_that_are_no_text_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"probePort: \xff")
    assert refusal(path) == f"{path}: cannot be read: it is not UTF-8 text"


def test_several_documents_and_a_file_without_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("probePort: 2\n---\nprobePort: 3\n")
    assert refusal(path) == f"{path}: settings are one mapping, the file holds 2 documents"
    assert refusal(Path("/dev/zero")).startswith("/dev/zero: cannot be read: it is a device")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[\n" * 3000 + "]" * 3000, "nested too deeply"),
        ('{"a":' * 3000 + "1" + "}" * 3000, "nested too deeply"),
        ("probePort: !!map [1]", "expected a mapping, but found a sequence"),
    ],
    ids=["deep YAML", "deep JSON", "a mapping that is a list"],
)
def test_what_no_settings_are_made_of_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    assert refusal(path).startswith(f"{path}: {words}")
