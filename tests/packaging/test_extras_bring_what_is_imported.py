"""Each component starts where its own extra is installed and no other: as in its image."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache

import pytest
from images.lock import wanted
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness import limits
from testing.data import REPOSITORY

COMPONENTS = {name: f"hetserve_{name}" for name in ("operator", "extender", "twin", "router", "worker")}


def installed_with(extra: str) -> set[str]:
    """Distributions that `hetserve[extra]` brings, with all that they need."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    left = [(name, "") for name in wanted(project, [extra])]
    seen: set[tuple[str, str]] = set()
    while left:
        found = left.pop()
        if found not in seen:
            seen.add(found)
            left += _needed(*found)
    return {"hetserve", *(name for name, _ in seen)}


def _needed(name: str, extra: str) -> Iterator[tuple[str, str]]:
    try:
        texts = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return  # of another platform
    for requirement in map(Requirement, texts):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            needed = canonicalize_name(requirement.name)
            yield from ((needed, each) for each in ("", *requirement.extras))


owners = cache(importlib.metadata.packages_distributions)


def others(extra: str) -> set[str]:
    """Top-level modules that only distributions bring which `hetserve[extra]` does not."""
    there = installed_with(extra)
    return {module for module, names in owners().items() if there.isdisjoint(map(canonicalize_name, names))}


def import_all(package: str, absent: set[str]) -> subprocess.CompletedProcess[str]:
    """Imports every module of a package in an interpreter that lacks some modules."""
    script = f"""
        import importlib, pkgutil, sys

        ABSENT = {absent!r}

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ABSENT:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

        sys.meta_path.insert(0, Missing())
        package = importlib.import_module({package!r})
        names = [each.name for each in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
        assert names
        for name in names:
            if not name.endswith("__main__"):
                importlib.import_module(name)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=limits.COMMAND)


@pytest.mark.deep
@pytest.mark.parametrize("extra", COMPONENTS)
def test_a_component_imports_only_what_its_extra_brings(extra: str) -> None:
    absent = others(extra)
    assert "pytest" in absent
    done = import_all(COMPONENTS[extra], absent)
    assert done.returncode == 0, done.stderr[-2000:]
