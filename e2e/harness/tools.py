"""Finds the control plane's binaries: given by the user, in the cache, on PATH, or built now.

`python -m harness.tools [MODULE...]` builds what is missing and prints where each binary lies. KUBERNETES=1.35 in the
environment takes that version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from harness import limits
from harness.gobuild import Compiler, ToolError, build, built, expected_seconds
from harness.pins import (
    CONTROL_PLANE,
    EVERY_MODULE,
    KUBERNETES,
    KUBERNETES_VERSIONS,
    Binary,
    Module,
    cache_folder,
    is_version,
    version_of,
)


@dataclass(frozen=True, slots=True)
class Toolset:
    """Path of every binary."""

    paths: Mapping[str, Path]

    def __getitem__(self, name: str) -> str:
        """Raises ToolError for a binary that nobody built."""
        if name not in self.paths:
            raise ToolError(f"{name} is not built yet: run `make tools` first")
        return str(self.paths[name])


def chosen(module: Module, environ: Mapping[str, str] = os.environ) -> Module:
    """The module; of Kubernetes the version that KUBERNETES names, such as ``1.35``. Raises ToolError."""
    asked = environ.get("KUBERNETES")
    if module is not KUBERNETES or not asked:
        return module
    if asked not in KUBERNETES_VERSIONS:
        raise ToolError(f"KUBERNETES={asked} is none of those that the harness runs: {', '.join(KUBERNETES_VERSIONS)}")
    return KUBERNETES_VERSIONS[asked]


def find(modules: Sequence[Module] = CONTROL_PLANE) -> Toolset | None:
    """None if something must be built."""
    paths, missing = _gather(modules)
    return None if missing else Toolset(paths)


def provide(modules: Sequence[Module] = CONTROL_PLANE, out: TextIO = sys.stderr) -> Toolset:
    """Builds missing ones. Raises ToolError."""
    paths, missing = _gather(modules)
    if not missing:
        return Toolset(paths)
    compiler = Compiler.found()
    total = sum(expected_seconds(module) for module in missing) / 60
    print(
        f"building {len(missing)} of {len(modules)} parts of the control plane into {cache_folder()}, once: "
        f"about {total:.0f} min when nothing is built yet",
        file=out,
        flush=True,
    )
    for number, module in enumerate(missing, start=1):
        heading = f"[{number}/{len(missing)}]"
        folder = build(module, cache_folder(), compiler, heading=heading, out=out)
        paths.update({binary.name: folder / binary.name for binary in module.binaries})
    return Toolset(paths)


def _gather(modules: Sequence[Module]) -> tuple[dict[str, Path], list[Module]]:
    """Existing binaries, and missing modules."""
    modules = [chosen(module) for module in modules]
    if given := os.environ.get("HETSERVE_TOOLS_DIR"):
        return _given(Path(given).expanduser(), modules), []
    try:
        compiler: Compiler | None = Compiler.found()
    except ToolError:
        compiler = None
    paths: dict[str, Path] = {}
    missing: list[Module] = []
    for module in modules:
        found = (built(module, cache_folder(), compiler) if compiler else None) or _on_path(module)
        if found is None:
            missing.append(module)
        elif isinstance(found, Path):
            paths.update({binary.name: found / binary.name for binary in module.binaries})
        else:
            paths.update(found)
    return paths, missing


def _given(folder: Path, modules: Sequence[Module]) -> dict[str, Path]:
    """Binaries of the user's folder; raises ToolError."""
    paths = {binary.name: folder / binary.name for module in modules for binary in module.binaries}
    absent = sorted(name for name, path in paths.items() if not os.access(path, os.X_OK))
    if absent:
        raise ToolError(
            f"HETSERVE_TOOLS_DIR={folder} holds no executable {', '.join(absent)}; add what is missing, or unset "
            "the variable to have everything built"
        )
    return paths


def _on_path(module: Module) -> dict[str, Path] | None:
    """On PATH, all in exactly the pinned version."""
    paths: dict[str, Path] = {}
    for binary in module.binaries:
        program = shutil.which(binary.name)
        if program is None or not is_version(_said_version(program, binary), version_of(module)):
            return None
        paths[binary.name] = Path(program)
    return paths


def _said_version(program: str, binary: Binary) -> str:
    try:
        said = subprocess.run(
            [program, *binary.version_args], check=False, capture_output=True, text=True, timeout=limits.COMMAND
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout


def main(arguments: Sequence[str]) -> int:
    unknown = sorted(set(arguments) - set(EVERY_MODULE))
    if unknown:
        print(f"no module {', '.join(unknown)}; there are {', '.join(EVERY_MODULE)}", file=sys.stderr)
        return 2
    modules = [EVERY_MODULE[name] for name in arguments] or list(EVERY_MODULE.values())
    try:
        tools = provide(modules)
    except ToolError as error:
        print(f"tools: {error}", file=sys.stderr)
        return 1
    for name, path in sorted(tools.paths.items()):
        print(f"{name:24} {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
