"""The lock keeps the bounds of pyproject.toml on every Python and platform, not only on those of this run."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import distributions
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PEERS: Final = (ROOT / "peers.lock").read_text(encoding="utf-8")
PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: Final = PYPROJECT["project"]

PLATFORMS: Final = {
    "linux": ("posix", "Linux", ("x86_64", "aarch64")),
    "darwin": ("posix", "Darwin", ("x86_64", "arm64")),
    "win32": ("nt", "Windows", ("AMD64", "ARM64")),
}
"""By sys.platform: os.name, platform.system() and the machines."""
ENVIRONMENTS: Final = [
    {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "platform_python_implementation": "CPython",
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": name,
        "os_name": os_name,
        "platform_system": system,
        "platform_machine": machine,
        "platform_release": "",
        "platform_version": "",
        "extra": "",
    }
    for python, (name, (os_name, system, machines)) in product(("3.11", "3.12", "3.13", "3.14"), PLATFORMS.items())
    for machine in machines
]
"""What markers may ask for, of every CPython and platform that the lock is for."""


def spoken(environment: dict[str, str]) -> str:
    return " ".join(environment[key] for key in ("python_version", "sys_platform", "platform_machine"))


def applies(requirement: Requirement, environment: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(environment)


@cache
def pins_of(lock: str) -> list[Requirement]:
    return [Requirement(line) for line in re.findall(r"^(\w.*?) *\\$", lock, re.MULTILINE)]


def version_of(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    assert specifier.operator == "=="
    return specifier.version


def locked(lock: str, environment: dict[str, str]) -> dict[str, list[str]]:
    """Versions by name that are installed in an environment."""
    versions: dict[str, list[str]] = {}
    for pin in pins_of(lock):
        if applies(pin, environment):
            versions.setdefault(canonicalize_name(pin.name), []).append(version_of(pin))
    return versions


def unmet(bounds: Iterable[Requirement], versions: dict[str, list[str]], environment: dict[str, str]) -> list[str]:
    """Bounds that not exactly one pin meets there, each with what is locked."""
    found = []
    for bound in bounds:
        pinned = versions.get(canonicalize_name(bound.name), [])
        met = len(pinned) == 1 and bound.specifier.contains(pinned[0], prereleases=True)
        if not met and applies(bound, environment):
            found.append(f"{bound} is locked at {pinned or 'nothing'}")
    return found


class Installed(NamedTuple):
    """A pin that this environment holds."""

    pin: Requirement
    needs: list[Requirement]
    pythons: SpecifierSet


@cache
def installed() -> list[Installed]:
    here = {canonicalize_name(one.name): one for one in distributions()}
    found = []
    for pin in pins_of(LOCK):
        one = here.get(canonicalize_name(pin.name))
        if one is not None and one.version == version_of(pin):
            needs = [Requirement(text) for text in one.requires or ()]
            pythons = SpecifierSet(str(one.metadata.json.get("requires_python", "")))
            found.append(Installed(pin, needs, pythons))
    return found


def test_every_bound_of_the_project_is_met_by_exactly_one_pin() -> None:
    bounds = PROJECT["dependencies"] + [text for extra in PROJECT["optional-dependencies"].values() for text in extra]
    of_others = [bound for bound in map(Requirement, bounds) if bound.name != PROJECT["name"]]
    for environment in ENVIRONMENTS:
        assert unmet(of_others, locked(LOCK, environment), environment) == [], spoken(environment)


def test_every_peer_is_locked_within_its_bound_on_linux() -> None:
    """Envoy has no build for every platform."""
    bounds = [Requirement(text) for text in PYPROJECT["dependency-groups"]["peers"]]
    for environment in (each for each in ENVIRONMENTS if each["sys_platform"] == "linux"):
        assert unmet(bounds, locked(PEERS, environment), environment) == [], spoken(environment)


def test_what_the_locked_need_of_each_other_is_locked() -> None:
    """What pip check finds, of every environment; read from those of the pins that are installed here."""
    for environment in ENVIRONMENTS:
        versions, python = locked(LOCK, environment), environment["python_full_version"]
        here = [one for one in installed() if applies(one.pin, environment)]
        assert len(here) > 50
        broken = {str(one.pin): unmet(one.needs, versions, environment) for one in here}
        assert {pin: words for pin, words in broken.items() if words} == {}, spoken(environment)
        assert [str(one.pin) for one in here if not one.pythons.contains(python)] == [], spoken(environment)


def test_a_pin_outside_its_bound_is_seen_whatever_python_runs() -> None:
    lock = "pulp==3.3.2 ; python_full_version < '3.12' \\\npulp==4.2.0 ; python_full_version >= '3.12' \\\n"
    bounds = [Requirement("pulp>=3.3.2,<4")]
    found = {spoken(each): unmet(bounds, locked(lock, each), each) for each in ENVIRONMENTS}
    assert {python: words for python, words in found.items() if words} == {
        python: ["pulp<4,>=3.3.2 is locked at ['4.2.0']"] for python in found if not python.startswith("3.11")
    }


def test_a_bound_with_two_pins_or_none_is_seen() -> None:
    lock = "numpy==2.4 \\\nnumpy==2.5 ; python_full_version >= '3.12' \\\n"
    bounds = [Requirement("numpy>=2"), Requirement("colorama; sys_platform == 'win32'")]
    found = {spoken(each): unmet(bounds, locked(lock, each), each) for each in ENVIRONMENTS}
    assert found["3.11 linux x86_64"] == []
    assert found["3.13 darwin arm64"] == ["numpy>=2 is locked at ['2.4', '2.5']"]
    assert found["3.11 win32 AMD64"] == ['colorama; sys_platform == "win32" is locked at nothing']


@pytest.mark.parametrize(("lock", "least"), [(LOCK, 50), (PEERS, 20)], ids=["project", "peers"])
def test_every_pin_has_a_hash_and_the_lock_names_no_address(lock: str, least: int) -> None:
    blocks = re.split(r"\n(?=\w)", lock.strip())
    assert len(blocks) == len(pins_of(lock)) > least
    assert "://" not in lock
    assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block] == []
