"""What somebody is told who has installed hetserve without an extra: what to install, in a line."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from dataclasses import dataclass

import pytest

from harness import limits
from testing.data import REPOSITORY

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


SLIM = f"""
import json, os, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OF_EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
import hetserve.cli.capacity.services, hetserve.cli.output.plots, hetserve.planning.registry, numpy  # for all, once

for number, (module, function, *arguments) in enumerate(json.loads(sys.argv[1])):
    child = os.fork()
    if not child:
        for stream, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(f"{{number}}.{{name}}", os.O_CREAT | os.O_WRONLY), stream)
        sys.argv = [module, *arguments]
        code = f"from {{module}} import {{function}}; {{function}}()"
        exec(code, {{"__name__": "__main__"}})
        sys.exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""An interpreter that has none of what the extras bring; each command runs in a copy of it."""


@dataclass(frozen=True, slots=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def slim(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Done]:
    """What each console script of the distribution says there, by its command."""
    folder = tmp_path_factory.mktemp("slim")
    asked = [command for command, _ in COMMANDS.values()] + [("hetserve", *arguments) for arguments in WITHOUT]
    calls = [[*SCRIPTS[script].split(":"), *arguments] for script, *arguments in asked]
    command = [sys.executable, "-c", SLIM, json.dumps(calls)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=limits.COMMAND)
    codes = map(int, ran.stdout.split())
    return {
        words: Done(code, *((folder / f"{number}.{name}").read_text() for name in ("stdout", "stderr")))
        for number, (words, code) in enumerate(zip(asked, codes, strict=True))
    }


COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "the operator": (("hetserve-operator", "--help"), "operator"),
    "the extender": (("hetserve-extender", "--help"), "extender"),
    "the twin": (("hetserve-twin", "--help"), "twin"),
    "the router": (("hetserve-router", "--help"), "router"),
    "the worker": (("hetserve-worker", "--help"), "worker"),
    "a cluster": (("hetserve", "gpus"), "cluster"),
    "a watch": (("hetserve", "gpus", "--watch"), "cluster"),
    "a picture": (("hetserve", "plan", SAMPLE, "--planner", "kairos", "--plot", "a.png"), "plot"),
    "a plan": (("hetserve", "plan", SAMPLE), "planning"),
    "the integer program": (("hetserve", "plan", SAMPLE, "--planner", "ilp"), "planning"),
    "a simulation": (("hetserve", "simulate", SAMPLE, "--counts", "g4dn.xlarge=1", "--rate", "1"), "planning"),
    "a comparison": (("hetserve", "compare", SAMPLE), "planning"),
    "the Bayesian search": (("hetserve", "search", SAMPLE, "--method", "random,bayesian"), "search"),
}
WITHOUT = (("plan", SAMPLE, "--planner", "kairos"), ("why", "--help"), ("queue", "--help"))


@pytest.mark.parametrize("case", COMMANDS)
def test_a_missing_extra_is_named_in_a_line(case: str, slim: dict[tuple[str, ...], Done]) -> None:
    command, extra = COMMANDS[case]
    done = slim[command]
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("Error: this needs "), done.stderr
    assert done.stderr.endswith(f"which is not installed: pip install 'hetserve[{extra}]'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", WITHOUT)
def test_what_needs_no_extra_works_without(arguments: tuple[str, ...], slim: dict[tuple[str, ...], Done]) -> None:
    done = slim["hetserve", *arguments]
    assert (done.returncode, done.stderr) == (0, "")
