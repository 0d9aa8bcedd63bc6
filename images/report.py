"""What the images hold and how large they are: `make images-report`. Exit code 1: a goal is missed.

Writes build/images/COMPONENT.cdx.json, the packages of each image as a CycloneDX bill of materials.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import hetserve
from images.build import tag_of
from images.engines import EngineError, choose
from images.lock import OF_COMPONENTS, ROOT, normalized

MEGABYTE: Final = 1_000_000
GOALS: Final = {"extender": 150 * MEGABYTE, "operator": 500 * MEGABYTE}
"""Bytes that the layer above the base may have."""
_DPKG: Final = "var/lib/dpkg/status"
_METADATA: Final = re.compile(r"/[^/]+\.dist-info/METADATA$")


@dataclass(frozen=True, order=True)
class Package:
    """A package that an image holds. kind: "pypi" or "deb"; licence: as the package names it, empty if it does not."""

    kind: str
    name: str
    version: str
    licence: str = ""


@dataclass(frozen=True)
class Image:
    """What an archive holds. sizes: bytes of the files of each layer, uncompressed, from the lowest."""

    sizes: tuple[int, ...]
    packages: tuple[Package, ...]

    @property
    def own(self) -> int:
        """Bytes above the base: an image is its base, and a layer with one environment."""
        return self.sizes[-1]


def read(archive: Path) -> Image:
    """The image of an archive as `docker save` writes it. A later list of Debian packages replaces an earlier one."""
    sizes: list[int] = []
    found: dict[tuple[str, str], list[Package]] = {}
    with tarfile.open(archive) as file:
        (described,) = json.loads(_manifest(file, archive))
        for name in described["Layers"]:
            with tarfile.open(fileobj=file.extractfile(name)) as layer:
                members = [member for member in layer if member.size]
                sizes.append(sum(member.size for member in members))
                for path, text in _lists(layer, members):
                    found[path] = [_distribution(text)] if path[0] == "pypi" else [*_debian(text)]
    return Image(tuple(sizes), tuple(sorted(package for listed in found.values() for package in listed)))


def _manifest(file: tarfile.TarFile, archive: Path) -> bytes:
    found = file.extractfile("manifest.json") if "manifest.json" in file.getnames() else None
    if found is None:
        raise ValueError(f"{archive}: has no manifest.json, so it is no image that `docker save` wrote")
    return found.read()


def _lists(layer: tarfile.TarFile, members: list[tarfile.TarInfo]) -> Iterator[tuple[tuple[str, str], str]]:
    """((kind, path), text) of each file that names packages."""
    for member in members:
        path = member.name.removeprefix("./")
        kind = "pypi" if _METADATA.search(f"/{path}") else "deb" if path == _DPKG else ""
        content = layer.extractfile(member) if kind else None
        if content is not None:
            yield (kind, path), content.read().decode(errors="replace")


def _distribution(metadata: str) -> Package:
    headers = HeaderParser().parsestr(metadata, headersonly=True)
    licence = headers.get("License-Expression") or headers.get("License") or ""
    return Package("pypi", str(headers["Name"]), str(headers["Version"]), licence.strip().partition("\n")[0])


def _debian(status: str) -> Iterator[Package]:
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            yield Package("deb", fields["Package"], fields["Version"])


def bill_of_materials(component: str, image: Image) -> dict[str, Any]:
    """CycloneDX 1.6 of an image; no time and no serial number, so that the same image has the same bill."""
    named = {"type": "container", "name": f"hetserve/{component}", "version": hetserve.__version__}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**named, "bom-ref": tag_of(component)}},
        "components": [_component(package) for package in image.packages],
    }


def _component(package: Package) -> dict[str, Any]:
    space = {"pypi": f"pkg:pypi/{normalized(package.name)}", "deb": f"pkg:deb/debian/{package.name}"}[package.kind]
    url = f"{space}@{quote(package.version, safe='.-_~')}"
    made = {"type": "library", "bom-ref": url, "name": package.name, "version": package.version, "purl": url}
    return {**made, "licenses": [{"license": {"name": package.licence}}]} if package.licence else made


def main() -> int:
    """Prints sizes, writes the bills, and says what is missed."""
    folder = ROOT / "build" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    missed = []
    for component in OF_COMPONENTS:
        try:
            with tempfile.TemporaryDirectory() as place:
                archive = Path(place) / "image.tar"
                choose(os.environ.get("ENGINE") or None).save(tag_of(component), archive)
                image = read(archive)
        except EngineError as error:
            sys.stderr.write(f"Error: {error}; the images are built by `make images`\n")
            return 1
        bill = json.dumps(bill_of_materials(component, image), indent=2)
        (folder / f"{component}.cdx.json").write_text(bill + "\n", encoding="utf-8")
        print(f"{component:9} {image.own / MEGABYTE:7.1f} MB of {sum(image.sizes) / MEGABYTE:.1f} above the base")
        if image.own >= GOALS.get(component, sys.maxsize):
            missed.append(f"{component}: the goal above the base is under {GOALS[component] // MEGABYTE} MB")
    print("\n".join(missed) or "every goal is kept")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
