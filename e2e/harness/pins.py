"""Binaries of the control plane; the go.mod below e2e/tools pin versions."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

TOOLS_ROOT: Final = Path(__file__).resolve().parents[1] / "tools"
STRIPPED: Final = "-s -w"


@dataclass(frozen=True, slots=True)
class Binary:
    """Name, version arguments, name of Go's build."""

    name: str
    version_args: tuple[str, ...] = ("--version",)
    built_as: str = ""

    @property
    def go_name(self) -> str:
        return self.built_as or self.name


@dataclass(frozen=True, slots=True)
class Module:
    """A pinned Go module below e2e/tools.

    stamps: the linker's -X settings with `{version}`, `{major}`, `{minor}`. cold_seconds: of a build on four cores.
    tags: Go's build tags.
    """

    name: str
    path: str
    binaries: tuple[Binary, ...]
    cold_seconds: int
    stamps: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return TOOLS_ROOT / self.name


# Without these stamps kwokctl takes the control plane for an ancient one.
KUBERNETES: Final = Module(
    "kubernetes",
    "k8s.io/kubernetes",
    (
        Binary("kube-apiserver"),
        Binary("kube-controller-manager"),
        Binary("kube-scheduler"),
        Binary("kubectl", ("version", "--client")),
    ),
    cold_seconds=132,
    stamps=tuple(
        f"{package}.{setting}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for setting in ("gitVersion={version}", "gitMajor={major}", "gitMinor={minor}", "gitTreeState=clean")
    ),
)
KUBERNETES_VERSIONS: Final[Mapping[str, Module]] = {
    "1.37": KUBERNETES,
    "1.36": replace(KUBERNETES, name="kubernetes-1.36"),
    "1.35": replace(KUBERNETES, name="kubernetes-1.35"),
}
"""Those that the harness runs, the default first."""
ETCD: Final = Module("etcd", "go.etcd.io/etcd/server/v3", (Binary("etcd", built_as="server"),), cold_seconds=24)
KWOK: Final = Module("kwok", "sigs.k8s.io/kwok", (Binary("kwok"), Binary("kwokctl")), cold_seconds=41)
HELM: Final = Module(
    "helm",
    "helm.sh/helm/v4",
    (Binary("helm", ("version", "--short")),),
    cold_seconds=46,
    stamps=("helm.sh/helm/v4/internal/version.version={version}",),
)
# The tag leaves targets out that clouds name (files and HTTP stay), and most of the build with them.
PROMETHEUS: Final = Module(
    "prometheus",
    "github.com/prometheus/prometheus",
    (Binary("prometheus"), Binary("promtool")),
    cold_seconds=60,
    stamps=("github.com/prometheus/common/version.Version={version}",),
    tags=("remove_all_sd",),
)

ACTIONLINT: Final = Module(
    "actionlint",
    "github.com/rhysd/actionlint",
    (Binary("actionlint", ("-version",)),),
    cold_seconds=10,
    stamps=("github.com/rhysd/actionlint.version={version}",),
)

CONTROL_PLANE: Final = (ETCD, KWOK, HELM, KUBERNETES)
"""For every cluster, the quickest to build first."""
EVERY_MODULE: Final[Mapping[str, Module]] = {m.name: m for m in (*CONTROL_PLANE, PROMETHEUS, ACTIONLINT)}
"""With Prometheus, which clusters run whose services follow their load, and the linter of the workflows."""


def pinned_version(go_mod: str, path: str) -> str:
    """Version of the module `path` in a go.mod: ``v1.35.4``. Raises ValueError."""
    match = re.search(rf"^(?:require\s+|\s+){re.escape(path)} (v\S+)", go_mod, re.MULTILINE)
    if match is None:
        raise ValueError(f"go.mod requires no {path}; add it by `go get -tool` in its folder below e2e/tools")
    return match[1]


def version_of(module: Module) -> str:
    return pinned_version((module.folder / "go.mod").read_text(), module.path)


def linker_flags(module: Module, version: str) -> str:
    """-ldflags: no symbols, and the release's version stamps."""
    major, minor = version.removeprefix("v").split(".")[:2]
    stamps = (stamp.format(version=version, major=major, minor=minor) for stamp in module.stamps)
    return " ".join([STRIPPED, *(f"-X {stamp}" for stamp in stamps)])


def cache_key(module: Module, go_version: str, platform: str) -> str:
    """Changes exactly when the built binaries would."""
    version = version_of(module)
    digest = hashlib.sha256()
    for part in (
        (module.folder / "go.mod").read_bytes(),
        (module.folder / "go.sum").read_bytes(),
        linker_flags(module, version).encode(),
        go_version.encode(),
        platform.encode(),
        *(tag.encode() for tag in module.tags),
    ):
        digest.update(len(part).to_bytes(8, "big") + part)
    return f"{module.name}-{version}-{digest.hexdigest()[:16]}"


def is_version(output: str, version: str) -> bool:
    """Whether a version output names exactly `version`."""
    bare = re.escape(version.removeprefix("v"))
    return re.search(rf"(?<![\w.+-])v?{bare}(?![\w.-])", output) is not None


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """HETSERVE_CACHE, else the user's cache directory."""
    if chosen := environ.get("HETSERVE_CACHE"):
        return Path(chosen).expanduser() / "tools"
    base = environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "hetserve" / "tools"
