"""The shape of the tree: mistakes here break imports far away from where they are made."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

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
    packages = [path for path in files if path.endswith("__init__.py") and not path.startswith("e2e/harness/")]
    names = [Path(path).name for path in files if Path(path).name.startswith("test_")]
    assert packages == []
    assert sorted(names) == sorted(set(names))


def test_the_import_contracts_are_kept() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_wheel_holds_every_package_and_nothing_else(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"hetserve", "hetserve_operator", "hetserve_extender", "hetserve_shell"}
    for path in tracked("src/**/*.py", "operator/**/*.py", "scheduler_extender/**/*.py", "shell_kit/**/*.py"):
        assert path.split("/", 1)[1] in names


def test_the_lock_has_a_hash_for_every_requirement_and_names_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    requirements = re.findall(r"^[a-z0-9][a-z0-9._-]*==", lock, flags=re.MULTILINE)
    assert len(requirements) > 50
    assert "://" not in lock
    for block in re.split(r"\n(?=[a-z0-9])", lock.strip()):
        assert "--hash=sha256:" in block, block.splitlines()[0]


def test_every_direct_requirement_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [r for extra in project["optional-dependencies"].values() for r in extra]
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE))
    for requirement in wanted:
        name = re.split(r"[<>=!~;\[ ]", requirement)[0].lower().replace("_", "-")
        assert name in locked
