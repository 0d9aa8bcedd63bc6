"""What somebody is told who has installed hetserve without an extra: what to install, in a line."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from harness import limits
from hetserve.testing.data import REPOSITORY

SAMPLE = str(REPOSITORY / "manifests" / "samples" / "rm2.yaml")
SCRIPTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
PLANNING = {"highspy", "llvmlite", "numba", "pulp", "scipy"}
OF_EXTRAS = PLANNING | {
    *(
        "aiohttp",
        "h2",
        "hpack",
        "httptools",
        "hyperframe",
        "kubernetes",
        "matplotlib",
        "orjson",
        "prometheus_client",
        "sklearn",
    ),
    *("prometheus_client", "sklearn", "threadpoolctl", "urllib3", "uvloop"),
}


@pytest.fixture
def slim(tmp_path: Path) -> Path:
    """A folder whose sitecustomize makes an interpreter that has none of what the extras bring."""
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent(f"""
        import sys

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {OF_EXTRAS!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

        sys.meta_path.insert(0, Missing())
        """)
    )
    return tmp_path


def run(slim: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a console script of the distribution says there."""
    module, _, function = SCRIPTS[script].partition(":")
    path = os.pathsep.join([str(slim), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", f"from {module} import {function}; {function}()", *arguments]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=limits.COMMAND)


COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "the operator": (("hetserve-operator", "--help"), "operator"),
    "the extender": (("hetserve-extender", "--help"), "extender"),
    "the twin": (("hetserve-twin", "--help"), "twin"),
    "a cluster": (("hetserve", "gpus"), "cluster"),
    "a watch": (("hetserve", "gpus", "--watch"), "cluster"),
    "a picture": (("hetserve", "plan", SAMPLE, "--planner", "kairos", "--plot", "a.png"), "plot"),
    "a plan": (("hetserve", "plan", SAMPLE), "planning"),
    "the integer program": (("hetserve", "plan", SAMPLE, "--planner", "ilp"), "planning"),
    "a simulation": (("hetserve", "simulate", SAMPLE, "--counts", "g4dn.xlarge=1", "--rate", "1"), "planning"),
    "a comparison": (("hetserve", "compare", SAMPLE), "planning"),
    "the Bayesian search": (("hetserve", "search", SAMPLE, "--method", "random,bayesian"), "search"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_missing_extra_is_named_in_a_line(case: str, slim: Path) -> None:
    (script, *arguments), extra = COMMANDS[case]
    done = run(slim, script, *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("Error: this needs "), done.stderr
    assert done.stderr.endswith(f"which is not installed: pip install 'hetserve[{extra}]'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [("plan", SAMPLE, "--planner", "kairos"), ("why", "--help"), ("queue", "--help")])
def test_what_needs_no_extra_works_without(arguments: tuple[str, ...], slim: Path) -> None:
    done = run(slim, "hetserve", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
