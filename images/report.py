"""What the images hold and how large they are: `make images-report`. Exit code 1: a goal is missed.

Writes build/images/COMPONENT.cdx.json, the packages of each image as a CycloneDX bill of materials.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import hetserve
from images.archive import Image, Layer, Package, read
from images.build import arguments_of, base_named, tag_of
from images.engines import Engine, EngineError, choose
from images.lock import OF_COMPONENTS, ROOT, normalized

MEGABYTE: Final = 1_000_000
GOALS: Final = {"extender": 150 * MEGABYTE, "operator": 500 * MEGABYTE}
"""Bytes that the layers above the base may have."""
_FOREIGN: Final = {"extender": frozenset({"highspy", "llvmlite", "numba", "pulp", "scipy"})}
"""Distributions that a component does not import."""


def size(layers: Iterable[Layer]) -> int:
    """Bytes of all files of the layers, uncompressed."""
    return sum(layer.size for layer in layers)


def misses(component: str, image: Image, own: Iterable[Layer]) -> list[str]:
    """What a component's image should not be, each in a line."""
    found = []
    goal = GOALS.get(component)
    taken = size(own)
    if goal is not None and taken >= goal:
        found.append(f"{component}: own layers have {taken / MEGABYTE:.1f} MB, the goal is under {goal // MEGABYTE} MB")
    held = {normalized(package.name) for package in packages(image) if package.kind == "pypi"}
    foreign = sorted(_FOREIGN.get(component, frozenset()) & held)
    if foreign:
        found.append(f"{component}: holds {', '.join(foreign)}, which it does not import")
    user = str(image.configuration.get("User", "")).partition(":")[0]
    if not user.isdigit() or int(user) == 0:
        found.append(f"{component}: runs as {user or 'root'}; runAsNonRoot needs a number that is not 0")
    return found


def packages(image: Image) -> list[Package]:
    """What an image holds; a list of a later layer takes the place of one below."""
    lists = [layer.packages for layer in image.layers]
    debian = [[each for each in held if each.kind == "deb"] for held in lists]
    newest = next((held for held in reversed(debian) if held), [])
    return sorted({*newest, *(each for held in lists for each in held if each.kind == "pypi")})


def bill_of_materials(component: str, image: Image) -> dict[str, Any]:
    """CycloneDX 1.6 of an image; no time and no serial number, so that the same image has the same bill."""
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": image.tag,
                "name": f"hetserve/{component}",
                "version": hetserve.__version__,
            }
        },
        "components": [_component(package) for package in packages(image)],
    }


def _component(package: Package) -> dict[str, Any]:
    space = {"pypi": f"pkg:pypi/{normalized(package.name)}", "deb": f"pkg:deb/debian/{package.name}"}[package.kind]
    url = f"{space}@{quote(package.version, safe='.-_~')}"
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": url,
        "name": package.name,
        "version": package.version,
        "purl": url,
    }
    if package.licence:
        made["licenses"] = [{"license": {"name": package.licence}}]
    return made


def _image(engine: Engine, tag: str) -> Image:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "image.tar"
        engine.save(tag, archive)
        return read(archive)


def base_image(engine: Engine, tag: str) -> Image:
    """The image that others stand on, pulled where the engine lacks it. Raises EngineError."""
    # BuildKit builds upon a base without putting it into the engine's store.
    if not engine.has(tag):
        engine.pull(tag)
    return _image(engine, tag)


def main() -> int:
    """Prints sizes, writes the bills, and says what is missed."""
    try:
        engine = choose(os.environ.get("ENGINE") or None)
        base = base_image(engine, base_named(arguments_of(engine, os.environ.get("BASE") or None)))
        images = {component: _image(engine, tag_of(component)) for component in OF_COMPONENTS}
    except EngineError as error:
        sys.stderr.write(f"Error: {error}; the images are built by `make images`\n")
        return 1
    folder = ROOT / "build" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    print(f"base      {size(base.layers) / MEGABYTE:7.1f} MB")
    missed = []
    for component, image in images.items():
        own = image.own(base.layers)
        count = sum(package.kind == "pypi" for package in packages(image))
        print(f"{component:9} {size(own) / MEGABYTE:7.1f} MB own layers, {count} distributions, {image.digest[:19]}")
        bill = json.dumps(bill_of_materials(component, image), indent=2)
        (folder / f"{component}.cdx.json").write_text(bill + "\n", encoding="utf-8")
        missed += misses(component, image, own)
    print("\n".join(missed) or "every goal is kept")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
