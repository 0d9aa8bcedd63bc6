"""Sizes, packages and goals of images, from archives as engines write them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from images.archive import Image, Layer, Package, read
from images.build import base_of
from images.engines import Engine, EngineError
from images.report import GOALS, base_image, bill_of_materials, misses, packages, size

from stub_machine import program

INSTALLED = "Package: libc6\nStatus: install ok installed\nVersion: 2.36\n"
STATUS = INSTALLED + "\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n"
METADATA = "Metadata-Version: 2.4\nName: Some.Name\nVersion: 1.0+local\nLicense-Expression: MIT\n\nName: of the text\n"
SITE = "opt/hetserve/lib/python3.11/site-packages"


def packed(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            file.addfile(member, io.BytesIO(content.encode()))
    return made.getvalue()


def archive(path: Path, *layers: dict[str, str], user: str = "65532:65532") -> Path:
    """An image's archive; layers: text by name."""
    contents = [packed(files) for files in layers]
    digests = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in contents]
    configuration = json.dumps({"config": {"User": user}, "rootfs": {"diff_ids": digests}})
    named: dict[str, bytes | str] = {f"{number}.tar": content for number, content in enumerate(contents)}
    described = [{"Config": "abc.json", "RepoTags": ["localhost/hetserve/extender:1"], "Layers": list(named)}]
    with tarfile.open(path, "w") as file:
        for name, content in (named | {"abc.json": configuration, "manifest.json": json.dumps(described)}).items():
            raw = content if isinstance(content, bytes) else content.encode()
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            file.addfile(member, io.BytesIO(raw))
    return path


BASE = {"var/lib/dpkg/status": STATUS, "usr/bin/python3": "x" * 100}
OWN = {f"{SITE}/some_name-1.0.dist-info/METADATA": METADATA, f"{SITE}/some_name.py": "y" * 50}


def image(**changes: Any) -> Image:
    given = {"tag": "t", "digest": "d", "configuration": {"User": "65532"}, "layers": ()}
    return Image(**{**given, **changes})


def test_own_layers_are_those_above_the_base(tmp_path: Path) -> None:
    base, whole = read(archive(tmp_path / "base.tar", BASE)), read(archive(tmp_path / "whole.tar", BASE, OWN))
    assert size(whole.own(base.layers)) == len(METADATA) + 50
    assert size(base.layers) == len(STATUS) + 100
    assert size(whole.layers) == size(base.layers) + len(METADATA) + 50


def test_an_image_on_another_base_is_not_compared(tmp_path: Path) -> None:
    other = read(archive(tmp_path / "other.tar", {"a": "b"}))
    with pytest.raises(ValueError, match="does not stand on the base"):
        read(archive(tmp_path / "whole.tar", BASE, OWN)).own(other.layers)


def test_packages_of_both_kinds_are_found(tmp_path: Path) -> None:
    whole = read(archive(tmp_path / "whole.tar", BASE, OWN))
    assert packages(whole) == [Package("deb", "libc6", "2.36"), Package("pypi", "Some.Name", "1.0+local", "MIT")]


def test_a_later_list_of_debian_packages_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    later = {"./var/lib/dpkg/status": "Package: bash\nStatus: install ok installed\nVersion: 5\n"}
    assert packages(read(archive(tmp_path / "whole.tar", BASE, later))) == [Package("deb", "bash", "5")]


def test_the_bill_names_every_package_by_its_url(tmp_path: Path) -> None:
    bill = bill_of_materials("extender", read(archive(tmp_path / "whole.tar", BASE, OWN)))
    assert [each["purl"] for each in bill["components"]] == [
        "pkg:deb/debian/libc6@2.36",
        "pkg:pypi/some-name@1.0%2Blocal",
    ]
    assert [each.get("licenses") for each in bill["components"]] == [None, [{"license": {"name": "MIT"}}]]
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")


@pytest.mark.parametrize(("taken", "kept"), [(GOALS["extender"] - 1, True), (GOALS["extender"], False)])
def test_an_image_as_large_as_its_goal_misses_it(taken: int, kept: bool) -> None:
    found = misses("extender", image(), (Layer("a", taken - 5), Layer("b", 5)))
    assert found == ([] if kept else ["extender: own layers have 150.0 MB, the goal is under 150 MB"])


def test_a_solver_in_the_extender_is_a_miss_wherever_it_lies() -> None:
    held = Layer("a", 1, (Package("pypi", "PuLP", "3"), Package("deb", "numba", "1"), Package("pypi", "scipy", "1")))
    assert misses("extender", image(layers=(held,)), ()) == ["extender: holds pulp, scipy, which it does not import"]
    assert misses("operator", image(layers=(held,)), ()) == []


@pytest.mark.parametrize(("user", "named"), [("", "root"), ("0:0", "0"), ("root", "root"), ("nobody", "nobody")])
def test_an_image_that_could_run_as_root_is_a_miss(user: str, named: str) -> None:
    words = f"cli: runs as {named}; runAsNonRoot needs a number that is not 0"
    assert misses("cli", image(configuration={"User": user}), ()) == [words]


def test_a_file_that_is_no_image_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(packed({"manifest.json": "[]"}))
    with pytest.raises(ValueError, match=r"a\.tar is no archive of one image"):
        read(path)


def test_the_base_is_read_from_the_containerfile() -> None:
    assert base_of("# ARG BASE=no\nARG BASE=a/b:1\nFROM x\n") == "a/b:1"
    with pytest.raises(ValueError, match="has no ARG BASE="):
        base_of("FROM x\n")


@dataclass(frozen=True)
class Stub(Engine):
    """An engine without a program. registry: what can be pulled; store: what it has."""

    name: str = "stub"
    registry: Mapping[str, dict[str, str]] = field(default_factory=dict)
    store: dict[str, dict[str, str]] = field(default_factory=dict)

    def has(self, tag: str) -> bool:
        return tag in self.store

    def pull(self, tag: str) -> None:
        if tag not in self.registry:
            raise EngineError(f"this failed: stub pull {tag}")
        self.store[tag] = self.registry[tag]

    def save(self, tag: str, path: Path) -> None:
        archive(path, self.store[tag])


def test_a_base_that_buildkit_kept_to_itself_is_pulled() -> None:
    engine = Stub(registry={"python:3.11": BASE})
    assert size(base_image(engine, "python:3.11").layers) == len(STATUS) + 100
    assert engine.has("python:3.11")


def test_a_base_that_the_engine_has_is_not_pulled_as_its_name_may_mean_another_by_now() -> None:
    engine = Stub(registry={"python:3.11": OWN}, store={"python:3.11": BASE})
    assert size(base_image(engine, "python:3.11").layers) == len(STATUS) + 100


def test_a_base_that_cannot_be_pulled_is_named() -> None:
    with pytest.raises(EngineError, match=r"stub pull python:3\.11"):
        base_image(Stub(), "python:3.11")


def test_docker_is_asked_to_pull_and_to_say_if_it_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path / "docker", '[ "$*" = "pull --quiet python:3.11" ]')
    Engine("docker").pull("python:3.11")
    with pytest.raises(EngineError, match=r"this failed: docker pull --quiet python:3\.12"):
        Engine("docker").pull("python:3.12")
