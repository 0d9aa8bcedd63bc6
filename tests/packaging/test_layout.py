"""The shape of the tree: mistakes here break imports far away from where they are made."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def test_the_operator_folder_does_not_shadow_the_standard_module() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists(), "import collections would fail from the repository root"
    loose = [path for path in tracked("operator/*.py") if path.count("/") == 1]
    tests = [path for path in tracked("operator/**") if Path(path).name.startswith("test_")]
    assert loose == []
    assert tests == []


def test_test_folders_are_no_packages_and_test_files_have_unique_names() -> None:
    files = tracked("tests/**/*.py", "e2e/**/*.py")
    packages = [
        path
        for path in files
        if path.endswith("__init__.py") and not path.startswith(("e2e/harness/", "tests/support/"))
    ]
    names = [Path(path).name for path in files if Path(path).name.startswith("test_")]
    assert packages == []
    assert sorted(names) == sorted(set(names))


def built(form: str, source: Path, into: Path) -> Path:
    """The file that hatchling builds of a source tree: "wheel" or "sdist"."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", form, "-d", str(into)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (file,) = into.glob("*.whl" if form == "wheel" else "*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """That of the tree."""
    return zipfile.ZipFile(built("wheel", ROOT, tmp_path_factory.mktemp("wheel")))


@pytest.mark.deep
def test_the_wheel_holds_every_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    components = {"hetserve_operator", "hetserve_extender", "hetserve_twin", "hetserve_router", "hetserve_worker"}
    assert top == {"hetserve", "hetserve_services", "hetserve_shell", *components}
    for path in tracked(
        *(
            f"{root}/**/*.py"
            for root in ("src", "operator", "scheduler_extender", "shell_kit", "twin", "router", "worker")
        )
    ):
        assert path.split("/", 1)[1] in names


@pytest.mark.deep
def test_the_source_archive_holds_what_the_wheel_is_built_of_and_no_tests(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    with tarfile.open(built("sdist", ROOT, tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    folders = {"src", "operator", "scheduler_extender", "shell_kit", "twin", "router", "worker", "crds"}
    beside = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore", "PKG-INFO"}
    assert {path.split("/")[0] for path in files} == folders | beside
    assert set(tracked(*folders)) - files == set()

    of_the_archive = zipfile.ZipFile(built("wheel", unpacked, tmp_path / unpacked.name))
    assert sorted(of_the_archive.namelist()) == sorted(wheel.namelist())
    assert all(of_the_archive.read(name) == wheel.read(name) for name in wheel.namelist())


def test_make_runs_benchmarks_as_modules() -> None:
    """Run by its path, a file of benchmarks/ finds benchmarks/operator in place of the standard module."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    runs = [line for line in makefile.splitlines() if line.startswith("\t") and "benchmarks" in line]
    assert runs, "the Makefile runs no benchmark"
    assert [line for line in runs if "-m benchmarks." not in line and '-m "benchmarks.' not in line] == []
    named = {name for line in runs for name in re.findall(r"-m benchmarks\.(\w+)", line)}
    there = {path.split("/")[1].removesuffix(".py") for path in tracked("benchmarks/**/*.py", "benchmarks/*.py")}
    assert named - there == set()


def test_the_release_before_can_be_unpacked() -> None:
    (wheel,) = (ROOT / "tests/previous").glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        assert files.testzip() is None
