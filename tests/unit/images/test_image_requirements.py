"""What of the lock each image installs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from images.lock import OF_COMPONENTS, ROOT, Pin, brings_planning, closure, of_component, of_the_build, pins, wanted
from images.wheels import for_image

PLANNING = {"highspy", "llvmlite", "numba", "pulp", "scipy"}
PROJECT = {
    "name": "Its.Name",
    "dependencies": ["click>=8"],
    "optional-dependencies": {"a": ["its-name[b]", "left"], "b": ["Right_Hand[fast]>=1 ; python_version < '4'"]},
}
LOCK = """\
click==8.5 \\
    --hash=sha256:aa
    # via its-name (pyproject.toml)
deep==1 ; sys_platform == 'linux' \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via other, right-hand
left==1 \\
    --hash=sha256:dd
    # via its-name (pyproject.toml)
other==1 \\
    --hash=sha256:ee
    # via left, its-name (pyproject.toml)
right-hand==1 \\
    --hash=sha256:ff
    # via its-name (pyproject.toml)
"""


def names(found: list[Pin]) -> list[str]:
    return [pin.name for pin in found]


@pytest.mark.parametrize(
    ("component", "plans"), [("operator", True), ("extender", False), ("cli", True)], ids=OF_COMPONENTS
)
def test_solvers_and_the_compiler_are_where_something_plans(component: str, plans: bool) -> None:
    held = set(names(of_component(component)))
    assert held & PLANNING == (PLANNING if plans else set())
    assert brings_planning(component) == plans


@pytest.mark.parametrize("component", OF_COMPONENTS)
def test_no_image_holds_a_tool_of_developers(component: str) -> None:
    held = set(names(of_component(component)))
    assert held & {"pytest", "mypy", "ruff", "hatchling", "uv", "hypothesis", "matplotlib", "scikit-learn"} == set()
    assert {"click", "kubernetes", "numpy", "pydantic", "pyyaml", "rich"} <= held, "the lift-gates job runs hetserve"


def test_what_is_needed_comes_with_what_needs_it() -> None:
    found = closure(pins(LOCK), wanted(PROJECT, ["b"]))
    assert names(found) == ["click", "deep", "right-hand"]
    assert found[1].text == "deep==1 ; sys_platform == 'linux' \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc"


def test_an_extra_brings_the_projects_own_extras_that_it_names() -> None:
    assert wanted(PROJECT, ["a"]) == {"click", "left", "right-hand"}
    assert names(closure(pins(LOCK), wanted(PROJECT, ["a"]))) == ["click", "deep", "left", "other", "right-hand"]


def test_every_requirement_of_an_image_has_hashes_and_is_the_locks_own() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for component in OF_COMPONENTS:
        for pin in of_component(component):
            assert re.search(r"--hash=sha256:[0-9a-f]{64}$", pin.text), pin.name
            assert pin.text in lock


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_an_image_installs_one_version_of_each(machine: str) -> None:
    for component in OF_COMPONENTS:
        found = names(for_image(of_component(component), machine))
        assert sorted(set(found)) == sorted(found)
        assert set(found) == set(names(of_component(component)))


def test_the_build_system_is_locked() -> None:
    assert {"hatchling", "pathspec", "pluggy"} <= set(names(of_the_build()))


@pytest.mark.parametrize(
    ("lock", "words"),
    [
        ("click==8.5 \\\n    --hash=sha256:aa\n", "click names nothing that needs it: run make lock"),
        ("--index-url x\nclick==8.5\n    # via a\n", "'--index-url x' is no pinned requirement: run make lock"),
    ],
)
def test_a_lock_that_cannot_be_followed_is_refused(lock: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        pins(lock)


def test_what_is_unknown_is_named_with_what_there_is() -> None:
    with pytest.raises(ValueError, match="component 'router' has no image; there are: operator, extender, cli"):
        of_component("router")
    with pytest.raises(ValueError, match="the project has no extra 'c'; there are: a, b"):
        wanted(PROJECT, ["c"])
    with pytest.raises(ValueError, match=r"requirements\.lock has no missing: run make lock"):
        closure(pins(LOCK), ["missing"])


def test_requirements_are_read_from_the_folder_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "requirements.lock").write_text(LOCK)
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["left"]\n[project]\nname = "its-name"\ndependencies = ["click"]\n'
        '[project.optional-dependencies]\nextender = ["right-hand"]\n'
    )
    assert names(of_component("extender", tmp_path)) == ["click", "deep", "right-hand"]
    assert names(of_the_build(tmp_path)) == ["deep", "left", "other"]
