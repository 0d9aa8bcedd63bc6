"""Finding and building the control plane's binaries."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from harness import gobuild, tools
from harness.gobuild import Compiler, ToolError
from harness.pins import (
    ETCD,
    HELM,
    KUBERNETES,
    KUBERNETES_VERSIONS,
    cache_folder,
    is_version,
    version_of,
)


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HETSERVE_TOOLS_DIR", raising=False)
    monkeypatch.delenv("KUBERNETES", raising=False)
    monkeypatch.setenv("HETSERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def test_each_version_of_kubernetes_has_a_module_of_that_version() -> None:
    for minor, module in KUBERNETES_VERSIONS.items():
        assert version_of(module).startswith(f"v{minor}.")
        assert module.binaries == KUBERNETES.binaries
        assert f"module hetserve.io/e2e/tools/{module.name}\n" in (module.folder / "go.mod").read_text()


@pytest.mark.parametrize(
    ("output", "version", "same"),
    [
        ("Client Version: v1.35.4\nKustomize Version: v5.7.1", "v1.35.4", True),
        ("etcd Version: 3.7.3\nGo Version: go1.26.8", "v3.7.3", True),
        ("kwok version v0.8.0 go1.26.8 (linux/amd64)", "v0.8.0", True),
        ("v4.3.0+gabcdef1", "v4.3.0", True),
        ("Client Version: v1.35.4-dispatcher", "v1.35.4", False),
        ("Client Version: v1.35.40", "v1.35.4", False),
        ("Client Version: v11.35.4", "v1.35.4", False),
        ("", "v1.35.4", False),
    ],
)
def test_only_exactly_the_pinned_version_is_reused(output: str, version: str, same: bool) -> None:
    assert is_version(output, version) is same


def test_without_go_the_error_names_what_to_install_or_to_set() -> None:
    with pytest.raises(ToolError, match=r"no Go on PATH: install Go 1\.26 .* or set HETSERVE_TOOLS_DIR"):
        tools.provide((HELM,))


@pytest.mark.parametrize("asked", ["1.34", "v1.35", "1.35.4", "latest"])
def test_a_version_of_kubernetes_that_the_harness_does_not_run_is_refused_with_those_that_it_runs(
    asked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBERNETES", asked)
    assert tools.main(["kubernetes"]) == 1
    refusal = f"tools: KUBERNETES={asked} is none of those that the harness runs: 1.37, 1.36, 1.35\n"
    assert capsys.readouterr().err == refusal
    with pytest.raises(ToolError, match=r"1\.37, 1\.36, 1\.35"):
        tools.find()


def fake_go(tmp_path: Path, script: str) -> Compiler:
    path = tmp_path / "fake-go"
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    path.chmod(0o755)
    return Compiler(str(path), "go1.26.8", "linux/amd64")


# arguments: build -trimpath -buildvcs=false -ldflags FLAGS -o DIR/ tool


def test_a_build_honours_go_sum_and_fetches_no_toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    variables = '"$GOFLAGS $GOTOOLCHAIN $CGO_ENABLED $GOWORK"'
    compiler = fake_go(tmp_path, f'echo {variables} > "$(dirname "$0")/env"; touch "$7/server"')
    gobuild.build(ETCD, cache_folder(), compiler, heading="", out=io.StringIO())
    assert (tmp_path / "env").read_text() == "-mod=readonly local 0 off\n"
