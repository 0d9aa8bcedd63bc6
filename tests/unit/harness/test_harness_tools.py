"""Finding and building the control plane's binaries."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness import gobuild, tools
from harness.gobuild import Compiler, ToolError
from harness.pins import (
    ETCD,
    EVERY_MODULE,
    HELM,
    KUBERNETES,
    KUBERNETES_VERSIONS,
    PROMETHEUS,
    Binary,
    Module,
    cache_folder,
    cache_key,
    is_version,
    linker_flags,
    pinned_version,
    version_of,
)

COMPILER = Compiler("/usr/bin/false", "go1.26.8", "linux/amd64")


def program(folder: Path, name: str, says: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HETSERVE_TOOLS_DIR", raising=False)
    monkeypatch.delenv("KUBERNETES", raising=False)
    monkeypatch.setenv("HETSERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def test_the_pinned_versions_are_those_of_the_go_mod_files() -> None:
    assert {module.name: version_of(module) for module in EVERY_MODULE.values()} == {
        "etcd": "v3.7.3",
        "kwok": "v0.8.0",
        "helm": "v4.3.0",
        "kubernetes": "v1.37.2",
        "prometheus": "v0.313.5",
        "actionlint": "v1.7.12",
    }


def test_each_version_of_kubernetes_has_a_module_of_that_version() -> None:
    for minor, module in KUBERNETES_VERSIONS.items():
        assert version_of(module).startswith(f"v{minor}.")
        assert module.binaries == KUBERNETES.binaries
        assert f"module hetserve.io/e2e/tools/{module.name}\n" in (module.folder / "go.mod").read_text()


@pytest.mark.parametrize(
    "text", ["require k8s.io/kubernetes v1.35.4\n", "require (\n\tk8s.io/kubernetes v1.35.4 // indirect\n)\n"]
)
def test_a_version_is_found_in_both_forms_of_a_requirement(text: str) -> None:
    assert pinned_version(text, "k8s.io/kubernetes") == "v1.35.4"


def test_a_replaced_or_similar_module_is_not_taken_for_the_pinned_one() -> None:
    text = "require (\n\tk8s.io/apiserver v1.0.0\n)\nreplace k8s.io/api => k8s.io/api v9.9.9\n"
    with pytest.raises(ValueError, match=r"go\.mod requires no k8s\.io/api"):
        pinned_version(text, "k8s.io/api")


def test_kubernetes_is_stamped_with_its_version_in_every_package_that_prints_one() -> None:
    flags = linker_flags(KUBERNETES, "v1.35.4")
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert f"-X {package}.gitVersion=v1.35.4" in flags
        assert f"-X {package}.gitMajor=1" in flags
        assert f"-X {package}.gitMinor=35" in flags


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


def test_the_cache_key_changes_with_the_compiler_and_the_platform() -> None:
    keys = {
        cache_key(ETCD, version, platform)
        for version in ("go1.26.0", "go1.26.8")
        for platform in ("linux/amd64", "linux/arm64")
    }
    assert len(keys) == 4
    assert all(key.startswith("etcd-v3.7.3-") for key in keys)


def test_the_cache_key_changes_with_the_build_tags() -> None:
    untagged = replace(PROMETHEUS, tags=())
    assert cache_key(PROMETHEUS, "go1.26.8", "linux/amd64") != cache_key(untagged, "go1.26.8", "linux/amd64")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HETSERVE_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a/tools"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/hetserve/tools"),
    ],
)
def test_the_cache_lies_where_the_user_says(environ: dict[str, str], expected: str) -> None:
    assert cache_folder(environ) == Path(expected)


def test_a_folder_given_by_the_user_wins_over_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETSERVE_TOOLS_DIR", str(tmp_path / "given"))
    own = program(tmp_path / "given", "etcd", "etcd Version: 0.0.1")
    program(tmp_path / "bin", "etcd", "etcd Version: 3.7.3")
    assert tools.provide((ETCD,)).paths == {"etcd": own}


def test_a_given_folder_without_a_binary_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETSERVE_TOOLS_DIR", str(tmp_path / "given"))
    program(tmp_path / "given", "kube-apiserver")
    with pytest.raises(ToolError, match="kube-controller-manager, kube-scheduler, kubectl; add what is missing"):
        tools.provide((KUBERNETES,))


def test_a_binary_on_path_is_used_when_its_version_is_the_pinned_one(tmp_path: Path) -> None:
    found = program(tmp_path / "bin", "etcd", "etcd Version: 3.7.3")
    assert tools.provide((ETCD,)).paths == {"etcd": found}


@pytest.mark.parametrize("says", ["etcd Version: 3.5.0", ""])
def test_a_binary_on_path_of_another_version_is_not_used(tmp_path: Path, says: str) -> None:
    program(tmp_path / "bin", "etcd", says)
    assert tools.find((ETCD,)) is None


def test_without_go_the_error_names_what_to_install_or_to_set() -> None:
    with pytest.raises(ToolError, match=r"no Go on PATH: install Go 1\.26 .* or set HETSERVE_TOOLS_DIR"):
        tools.provide((HELM,))


def test_an_old_go_is_refused_by_its_version(tmp_path: Path) -> None:
    program(tmp_path / "bin", "go", "go1.25.9\nlinux\namd64")
    with pytest.raises(ToolError, match=r"is go1\.25\.9, too old"):
        Compiler.found()


@pytest.mark.parametrize("asked", [*KUBERNETES_VERSIONS, ""])
def test_another_version_of_kubernetes_is_found_where_it_is_asked_for_and_nothing_else_changes(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "go", "go1.26.8\nlinux\namd64")
    for module in (*KUBERNETES_VERSIONS.values(), ETCD):
        for binary in module.binaries:
            program(cache_folder() / cache_key(module, "go1.26.8", "linux/amd64"), binary.name)
    monkeypatch.setenv("KUBERNETES", asked)
    found = tools.find((ETCD, KUBERNETES))
    assert found is not None
    version = version_of(KUBERNETES_VERSIONS[asked or "1.37"])
    assert {f"-{version}-" in found[binary.name] for binary in KUBERNETES.binaries} == {True}
    assert f"/etcd-{version_of(ETCD)}-" in found["etcd"]


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


def test_what_is_built_once_is_found_again_without_a_build(tmp_path: Path) -> None:
    program(tmp_path / "bin", "go", "go1.26.8\nlinux\namd64")
    folder = cache_folder() / cache_key(ETCD, "go1.26.8", "linux/amd64")
    binary = program(folder, "etcd")
    assert tools.provide((ETCD,)).paths == {"etcd": binary}


def fake_go(tmp_path: Path, script: str) -> Compiler:
    path = tmp_path / "fake-go"
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    path.chmod(0o755)
    return Compiler(str(path), "go1.26.8", "linux/amd64")


# arguments: build -trimpath -buildvcs=false -ldflags FLAGS -o DIR/ tool
BUILDS_A_SERVER = 'echo "$@" >> "$(dirname "$0")/calls"; echo "built" > "$7/server"'


def test_a_build_puts_the_binary_under_its_own_name_and_runs_once(tmp_path: Path) -> None:
    compiler, out = fake_go(tmp_path, BUILDS_A_SERVER), io.StringIO()
    for _ in range(2):
        folder = gobuild.build(ETCD, cache_folder(), compiler, heading="[1/1]", out=out)
        assert [path.name for path in folder.iterdir()] == ["etcd"]
    assert (tmp_path / "calls").read_text().count("\n") == 1
    assert "[1/1] building etcd v3.7.3 (about " in out.getvalue()
    assert "[1/1] built etcd in " in out.getvalue()


def test_a_build_gets_the_tags_of_its_module(tmp_path: Path) -> None:
    compiler = fake_go(
        tmp_path,
        'echo "$@" >> "$(dirname "$0")/calls"; for name in prometheus promtool; do echo "built" > "$9/$name"; done',
    )
    gobuild.build(PROMETHEUS, cache_folder(), compiler, heading="", out=io.StringIO())
    assert " -tags remove_all_sd " in (tmp_path / "calls").read_text()


def test_a_binary_that_nobody_built_is_named() -> None:
    with pytest.raises(ToolError, match="prometheus is not built yet: run `make tools` first"):
        tools.Toolset({})["prometheus"]


def test_a_failed_build_shows_the_end_of_its_log_keeps_it_and_leaves_no_half_result(tmp_path: Path) -> None:
    compiler = fake_go(tmp_path, 'echo "checksum mismatch"; touch "$7/server"; exit 1')
    with pytest.raises(ToolError, match=r"building etcd v3\.7\.3 failed \(whole log: .*\):\nchecksum mismatch"):
        gobuild.build(ETCD, cache_folder(), compiler, heading="[1/1]", out=io.StringIO())
    left = sorted(path.suffix for path in cache_folder().iterdir())
    assert left == [".lock", ".log"]
    assert gobuild.built(ETCD, cache_folder(), compiler) is None


def test_a_build_honours_go_sum_and_fetches_no_toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    variables = '"$GOFLAGS $GOTOOLCHAIN $CGO_ENABLED $GOWORK"'
    compiler = fake_go(tmp_path, f'echo {variables} > "$(dirname "$0")/env"; touch "$7/server"')
    gobuild.build(ETCD, cache_folder(), compiler, heading="", out=io.StringIO())
    assert (tmp_path / "env").read_text() == "-mod=readonly local 0 off\n"


def test_an_unknown_module_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert tools.main(["docker"]) == 2
    assert "no module docker; there are etcd, kwok, helm, kubernetes, prometheus" in capsys.readouterr().err


def test_fewer_cores_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module("m", "example.org/m", (Binary("m"),), cold_seconds=100)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert gobuild.expected_seconds(module) == 200
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert gobuild.expected_seconds(module) == 100
