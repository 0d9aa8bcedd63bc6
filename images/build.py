"""Builds the images: `make images`, or `python -m images.build operator`.

    ENGINE    docker, podman or buildah; default: the first that answers
    BASE      an image with Python 3.11 and pip; `debian`: made from Debian packages; default: that of the Containerfile
    REGISTRY  prefix of the tags; default: localhost

An image is REGISTRY/hetserve/COMPONENT:VERSION. What requirements.lock names is fetched on this machine: the build
needs no network.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from subprocess import CalledProcessError
from typing import Final

import hetserve
from images import debian
from images.engines import Engine, EngineError, choose
from images.lock import OF_COMPONENTS, ROOT
from images.wheels import fetch

_WITHOUT_A_REPOSITORY: Final = 1_577_836_800
MADE_OF: Final = (
    *("Containerfile", ".dockerignore", "images", "pyproject.toml", "requirements.lock", "README.md", "LICENSE"),
    *("src", "operator", "scheduler_extender", "shell_kit", "twin", "router", "worker", "manifests/samples"),
)
"""What images are made of. A commit that touches none of it makes the same images, whose layers the engine has."""


def tag_of(component: str, environment: Mapping[str, str] = os.environ) -> str:
    """Full name of a component's image."""
    return f"{environment.get('REGISTRY') or 'localhost'}/hetserve/{component}:{hetserve.__version__}"


def epoch() -> int:
    """Seconds since 1970 of what is built: the commit's, as `revision` has it."""
    said = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct", "--", *MADE_OF)
    return int(said) if said else _WITHOUT_A_REPOSITORY


def revision() -> str:
    """The last commit that changed what images are made of, with `-dirty` if files of that differ from it."""
    commit = _git("log", "-1", "--format=%H", "--", *MADE_OF)
    if not commit:
        return "unknown"
    changed = _git("status", "--porcelain", "--untracked-files=all", "--", *MADE_OF)
    return f"{commit}-dirty" if changed else commit


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def arguments_of(engine: Engine, base: str | None) -> dict[str, str]:
    """Arguments of the Containerfile. base: None for its own default, "debian" for one from packages."""
    moment = epoch()
    made = {
        "SOURCE_DATE_EPOCH": str(moment),
        "PIP_NO_INDEX": "1",
        "VERSION": hetserve.__version__,
        "REVISION": revision(),
        "CREATED": datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if base == "debian":
        made |= {"BASE": debian.provide(engine, "base"), "BUILD_BASE": debian.provide(engine, "build-base")}
    elif base:
        made["BASE"] = base
    return made


def build(components: list[str], *options: str) -> list[str]:
    """Builds images and returns their tags. Raises EngineError, or CalledProcessError where pip fetches nothing.

    options: flags of the engine, whose cache keeps the layers of what has not changed.
    """
    engine = choose(os.environ.get("ENGINE") or None)
    fetch(platform.machine())
    for component in components:
        # Anew for each: files may change while another image is built.
        arguments = arguments_of(engine, os.environ.get("BASE") or None)
        options_of_it = ("--target", component, "--network", "none", *options)
        engine.build(ROOT / "Containerfile", ROOT, tag_of(component), arguments, *options_of_it, epoch=epoch())
    return [tag_of(component) for component in components]


def main(words: list[str]) -> int:
    """Command line: components and flags of the engine, such as `--no-cache`."""
    components = [word for word in words if not word.startswith("-")]
    unknown = set(components) - OF_COMPONENTS.keys()
    if unknown:
        sys.stderr.write(f"Error: no image {', '.join(sorted(unknown))}; there are: {', '.join(OF_COMPONENTS)}\n")
        return 2
    try:
        tags = build(components or list(OF_COMPONENTS), *(word for word in words if word.startswith("-")))
    except (EngineError, CalledProcessError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    print("\n".join(tags))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
