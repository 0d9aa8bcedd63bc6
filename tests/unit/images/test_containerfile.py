"""What every image promises, read from the Containerfile: no engine is needed."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Final

import pytest
from images.build import base_of
from images.environment import KERNELS, STEPS
from images.lock import OF_COMPONENTS, PYTHON, ROOT

TEXT: Final = (ROOT / "Containerfile").read_text(encoding="utf-8")
IGNORED: Final = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
SCRIPTS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
Instruction = tuple[str, str]


def stages() -> dict[str, tuple[str, list[Instruction]]]:
    """By name: what a stage stands on, and its instructions."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE))
    found: dict[str, tuple[str, list[Instruction]]] = {}
    name = ""
    for line in filter(None, joined.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            below, _, name = rest.partition(" AS ")
            found[name] = (below, [])
        elif name:
            found[name][1].append((word, rest))
    return found


def of_target(target: str) -> list[Instruction]:
    """The instructions of a target and of the stages that it stands on, from the lowest."""
    found: list[Instruction] = []
    while target in stages():
        target, own = stages()[target]
        found = own + found
    return found


def pairs(target: str, word: str) -> dict[str, str]:
    given = [rest for each, rest in of_target(target) if each == word]
    return dict(pair.split("=", 1) for rest in given for pair in shlex.split(rest))


def test_there_is_a_target_for_each_component() -> None:
    assert OF_COMPONENTS.keys() <= stages().keys()
    assert all(stages()[target][0] == "runtime" for target in OF_COMPONENTS)


@pytest.mark.parametrize("target", OF_COMPONENTS)
def test_an_image_runs_as_a_number_that_is_not_root(target: str) -> None:
    (user,) = [rest for word, rest in of_target(target) if word == "USER"]
    assert user == "65532:65532", "what the chart's pods run as"


@pytest.mark.parametrize("target", OF_COMPONENTS)
def test_an_image_says_what_it_is(target: str) -> None:
    labels = pairs(target, "LABEL")
    asked = ("title", "description", "vendor", "licenses", "version", "revision", "created")
    assert labels.keys() >= {f"org.opencontainers.image.{name}" for name in asked}
    assert all(labels.values())


@pytest.mark.parametrize(
    ("target", "script"), [("operator", "hetserve-operator"), ("extender", "hetserve-extender"), ("cli", "hetserve")]
)
def test_the_entry_point_is_a_script_of_the_distribution(target: str, script: str) -> None:
    (entry,) = [rest for word, rest in of_target(target) if word == "ENTRYPOINT"]
    assert entry == f'["{script}"]'
    assert script in SCRIPTS


@pytest.mark.parametrize("target", OF_COMPONENTS)
def test_an_image_is_filled_by_copies_alone(target: str) -> None:
    words = [word for word, _ in of_target(target)]
    assert "RUN" not in words, "what a command writes differs from build to build"
    assert [rest for word, rest in of_target(target) if word == "COPY"] == [
        f"--from={target}-environment /opt/hetserve /opt/hetserve"
    ]


@pytest.mark.parametrize("target", ["operator", "cli"])
def test_kernels_are_compiled_for_the_processor_that_they_run_on(target: str) -> None:
    running = pairs(target, "ENV")
    assert running["NUMBA_CACHE_DIR"] == f"/opt/hetserve/{KERNELS}"
    assert running["NUMBA_CPU_NAME"] == pairs(f"{target}-environment", "ENV")["NUMBA_CPU_NAME"] == "generic"


def test_the_build_has_no_step_that_there_is_not() -> None:
    steps = re.findall(r"python3 -m images\.environment (\S+) (\S+) \S+", TEXT)
    assert {step for step, _ in steps} == STEPS.keys()
    assert {component for _, component in steps} - {"all"} == OF_COMPONENTS.keys()


def test_the_default_base_is_pinned_and_has_the_python_of_the_wheels() -> None:
    assert re.fullmatch(rf"docker\.io/library/python:{re.escape(PYTHON)}\.\d+-slim-\w+", base_of(TEXT))


def test_the_context_holds_what_is_copied_and_nothing_else() -> None:
    copied = {
        path.rstrip("/")
        for _, (_, instructions) in stages().items()
        for word, rest in instructions
        if word == "COPY" and not rest.startswith("--from")
        for path in rest.split()[:-1]
    }
    copied = {"images" if path.startswith("images/") else path for path in copied}
    kept = {line[1:] for line in IGNORED if line.startswith("!")} - {"Containerfile"}
    assert {path.replace("wheel[s]", "wheels") for path in copied} == kept
    assert IGNORED[0] == "*"
