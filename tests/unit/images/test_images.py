"""What every image promises, read from the Containerfile, the lock and an archive: no engine is needed."""

from __future__ import annotations

import io
import json
import re
import shlex
import tarfile
import tomllib
from pathlib import Path
from typing import Final

import pytest
from images.build import MADE_OF
from images.environment import KERNELS, STEPS, trim
from images.lock import OF_COMPONENTS, PYTHON, ROOT, of_component, of_the_build
from images.report import Package, bill_of_materials, read
from images.wheels import for_image

TEXT: Final = (ROOT / "Containerfile").read_text(encoding="utf-8")
SCRIPTS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
PLANNING: Final = {"highspy", "llvmlite", "numba", "pulp", "scipy"}
Instruction = tuple[str, str]


def stages() -> dict[str, tuple[str, list[Instruction]]]:
    """By name: what a stage stands on, and its instructions."""
    found: dict[str, tuple[str, list[Instruction]]] = {}
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE))
    for word, rest in re.findall(r"^(\S+) (.*)$", joined, re.MULTILINE):
        if word == "FROM":
            below, _, name = rest.partition(" AS ")
            found[name] = (below, [])
        elif found:
            found[name][1].append((word, rest))
    return found


def of_target(target: str, word: str) -> list[str]:
    """What an instruction says in a target and in the stages that it stands on, from the lowest."""
    below, own = stages().get(target, ("", []))
    return (of_target(below, word) if below else []) + [rest for each, rest in own if each == word]


def pairs(target: str, word: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for rest in of_target(target, word) for pair in shlex.split(rest))


@pytest.mark.parametrize(
    ("target", "script"),
    [(name, f"hetserve-{name}") for name in ("operator", "extender", "router", "worker")] + [("cli", "hetserve")],
)
def test_an_image_runs_its_script_as_a_number_that_is_not_root_and_says_what_it_is(target: str, script: str) -> None:
    assert of_target(target, "USER") == ["65532:65532"], "what the chart's pods run as"
    assert of_target(target, "ENTRYPOINT") == [f'["{script}"]']
    assert script in SCRIPTS
    asked = ("title", "description", "vendor", "licenses", "version", "revision", "created", "base.name")
    labels = pairs(target, "LABEL")
    assert all(labels[f"org.opencontainers.image.{name}"] for name in asked)


@pytest.mark.parametrize("target", OF_COMPONENTS)
def test_an_image_is_its_base_and_one_copied_layer(target: str) -> None:
    assert of_target(target, "RUN") == [], "what a command writes differs from build to build"
    assert of_target(target, "COPY") == [f"--from={target}-environment /opt/hetserve /opt/hetserve"]


@pytest.mark.parametrize("target", ["operator", "cli"])
def test_kernels_are_compiled_for_the_processor_that_they_run_on(target: str) -> None:
    running = pairs(target, "ENV")
    assert running["NUMBA_CACHE_DIR"] == f"/opt/hetserve/{KERNELS}"
    assert running["NUMBA_CPU_NAME"] == pairs(f"{target}-environment", "ENV")["NUMBA_CPU_NAME"] == "generic"


def test_the_build_has_pinned_ground_known_steps_and_nothing_that_its_revision_does_not_count() -> None:
    (base,) = re.findall(r"^ARG BASE=(.*)$", TEXT, re.MULTILINE)
    assert re.fullmatch(rf"docker\.io/library/python:{re.escape(PYTHON)}\.\d+-slim-\w+", base)
    steps = re.findall(r"python3 -m images\.environment (\S+) (\S+) \S+", TEXT)
    assert {step for step, _ in steps} == STEPS.keys()
    assert {component for _, component in steps} - {"all"} == OF_COMPONENTS.keys()
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*)$", TEXT, re.MULTILINE) for word in line.split()[:-1]}
    sources = {word for word in copied if not word.startswith("build/wheel")}
    assert [one for one in sources if not any(Path(one).is_relative_to(part) for part in MADE_OF)] == []
    kept = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert [one for one in sources if not any(Path(one).is_relative_to(part) for part in kept)] == []


@pytest.mark.parametrize("component", OF_COMPONENTS)
def test_an_image_installs_what_its_component_needs_once_and_by_hash(component: str) -> None:
    pins = of_component(component)
    held = [pin.name for pin in pins]
    assert set(held) & PLANNING == {"extender": set(), "worker": {"scipy"}, "router": {"numba", "llvmlite"}}.get(
        component, PLANNING
    )
    assert set(held) & {"pytest", "mypy", "ruff", "hatchling", "uv", "hypothesis", "matplotlib"} == set()
    own = {"scikit-learn"} if component == "worker" else {"kubernetes"}
    assert set(held) & {"scikit-learn", "kubernetes"} == own, "a job runs hetserve"
    assert {"click", "numpy", "pydantic", "pyyaml", "rich"} <= set(held)
    assert [pin.name for pin in pins if not re.search(r"--hash=sha256:[0-9a-f]{64}$", pin.text)] == []
    for machine in ("x86_64", "aarch64"):
        assert sorted(pin.name for pin in for_image(pins, machine)) == sorted(set(held))
    assert {"hatchling", "pathspec", "pluggy"} <= {pin.name for pin in of_the_build()}


def test_what_no_component_imports_is_trimmed_and_the_rest_is_kept(tmp_path: Path) -> None:
    kept = ["aiohttp/tests/a.py", "kubernetes/client/models/__init__.py", "pulp/solverdir/cbc/linux/arm64/cbc"]
    trimmed = ["scipy/tests/a.py", "kubernetes/client/models/v1_pod.py", "pulp/solverdir/cbc/linux/i64/cbc"]
    for name in kept + trimmed:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    trim(tmp_path, "aarch64")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == kept


def packed(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return made.getvalue()


def test_the_bill_names_every_package_and_the_own_layer_is_the_last(tmp_path: Path) -> None:
    status = (
        b"Package: libc6\nStatus: install ok installed\nVersion: 2\n\nPackage: gone\nStatus: deinstall ok\nVersion: 1"
    )
    newer = b"Package: bash\nStatus: install ok installed\nVersion: 5\n"
    metadata = b"Name: Some.Name\nVersion: 1.0+local\nLicense-Expression: MIT\n\nName: of the text\n"
    layers = [
        {"var/lib/dpkg/status": status},
        {"./var/lib/dpkg/status": newer},
        {"opt/hetserve/some_name-1.0.dist-info/METADATA": metadata, "opt/hetserve/a.py": b"y" * 50},
    ]
    files = {f"{number}.tar": packed(layer) for number, layer in enumerate(layers)}
    described = json.dumps([{"Layers": list(files)}]).encode()
    (tmp_path / "image.tar").write_bytes(packed({**files, "manifest.json": described}))
    image = read(tmp_path / "image.tar")
    assert image.own == len(metadata) + 50
    assert image.packages == (Package("deb", "bash", "5"), Package("pypi", "Some.Name", "1.0+local", "MIT"))
    found = bill_of_materials("extender", image)["components"]
    assert [each["purl"] for each in found] == ["pkg:deb/debian/bash@5", "pkg:pypi/some-name@1.0%2Blocal"]
