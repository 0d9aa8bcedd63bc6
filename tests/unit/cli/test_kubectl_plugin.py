"""`kubectl hetserve` is the same command line, and shells complete both."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness import limits
from hetserve.cli.app import COMMANDS, app, completions
from testing.data import REPOSITORY

SCRIPTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]


def installed(folder: Path, script: str) -> Path:
    """The console script of that name, as an installer writes it."""
    module, _, function = SCRIPTS[script].partition(":")
    path = folder / script
    path.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
    path.chmod(0o755)
    return path


def run(command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **env}, check=False, timeout=limits.COMMAND
    )


def words(*arguments: str) -> list[str]:
    return [line.partition("\t")[0] for line in completions(arguments).splitlines()]


def test_kubectl_completes_commands_options_and_choices() -> None:
    assert words("") == [*COMMANDS, ":4"]
    assert words("w") == ["wait", "why", ":4"]
    assert words("wait", "--time") == ["--timeout", ":4"]
    assert words("gpus", "-o", "j") == ["json", ":4"]
    assert words("completion", "") == ["bash", "zsh", "fish", ":4"]
    assert "wait\tWait until SERVICE is Ready, or Stalled" in completions(["wai"])


def test_no_words_at_all_complete_as_an_empty_one() -> None:
    assert words() == words("")


def test_the_plugin_says_its_name_in_usage_and_its_completion_answers_kubectl(tmp_path: Path) -> None:
    plugin, complete = (str(installed(tmp_path, name)) for name in ("kubectl-hetserve", "kubectl_complete-hetserve"))
    said = run([plugin, "wait", "--help"])
    assert (said.returncode, said.stdout.splitlines()[0]) == (0, "Usage: kubectl hetserve wait [OPTIONS] SERVICE")
    assert run([complete, "wai"]).stdout.splitlines()[-1] == ":4"
    assert run([plugin, "nothing"]).returncode == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_hetserve(shell: str) -> None:
    done = CliRunner().invoke(app, ["completion", shell])
    assert done.exit_code == 0, done.output
    assert f"_HETSERVE_COMPLETE={shell}_complete" in done.stdout


def test_bash_takes_the_script_and_completes_by_it(tmp_path: Path) -> None:
    installed(tmp_path, "hetserve")
    script = """
    source <(hetserve completion bash)
    COMP_WORDS=(hetserve wa) COMP_CWORD=1
    _hetserve_completion hetserve
    echo "${COMPREPLY[@]}"
    """
    path: Mapping[str, str] = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = run(["bash", "-c", script], **path)
    assert (done.stdout, done.stderr) == ("wait\n", "")


def test_another_shell_is_refused_with_those_there_are() -> None:
    done = CliRunner().invoke(app, ["completion", "tcsh"])
    assert done.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr
