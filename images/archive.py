"""Reads an image from the archive that an engine writes: its layers, its configuration, the packages in it."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Final

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
class Layer:
    """One layer. digest: of its content, as the image's configuration names it; size: bytes of its files."""

    digest: str
    size: int
    packages: tuple[Package, ...] = ()


@dataclass(frozen=True)
class Image:
    """An image as an archive holds it; configuration: user, labels, variables, entry point."""

    tag: str
    digest: str
    configuration: dict[str, Any]
    layers: tuple[Layer, ...]

    def own(self, base: Sequence[Layer]) -> tuple[Layer, ...]:
        """The layers above those of its base. Raises ValueError if it does not stand on them."""
        below = [layer.digest for layer in base]
        if [layer.digest for layer in self.layers[: len(below)]] != below:
            raise ValueError(f"{self.tag} does not stand on the base that it is compared with: build it again")
        return self.layers[len(below) :]


def read(archive: Path) -> Image:
    """The one image of an archive. Raises ValueError for a file that is no such archive."""
    with tarfile.open(archive) as file:
        try:
            (described,) = json.loads(_content(file, "manifest.json"))
            configuration = _content(file, described["Config"])
            layers = described["Layers"]
        except (KeyError, ValueError) as error:
            raise ValueError(f"{archive} is no archive of one image: {error}") from error
        parsed = json.loads(configuration)
        digests = parsed["rootfs"]["diff_ids"]
        read_layers = tuple(_layer(file, name, digest) for name, digest in zip(layers, digests, strict=True))
    name = Path(described["Config"]).name.removesuffix(".json")
    return Image((described.get("RepoTags") or [name])[0], name, parsed["config"], read_layers)


def _content(file: tarfile.TarFile, name: str) -> bytes:
    member = file.extractfile(name)
    if member is None:
        raise ValueError(f"{name} is no file")
    return member.read()


def _layer(file: tarfile.TarFile, name: str, digest: str) -> Layer:
    packages: list[Package] = []
    size = 0
    with tarfile.open(fileobj=file.extractfile(name)) as files:
        for member in files:
            size += member.size
            if member.isfile() and _METADATA.search(f"/{member.name}"):
                packages.append(_distribution(_content_of(files, member)))
            elif member.isfile() and member.name.removeprefix("./") == _DPKG:
                packages += _debian(_content_of(files, member))
    return Layer(digest, size, tuple(sorted(packages)))


def _content_of(files: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    content = files.extractfile(member)
    assert content is not None  # noqa: S101  a regular file
    return content.read().decode(errors="replace")


def _distribution(metadata: str) -> Package:
    headers = HeaderParser().parsestr(metadata, headersonly=True)
    licence = headers.get("License-Expression") or headers.get("License") or ""
    return Package("pypi", str(headers["Name"]), str(headers["Version"]), licence.strip().partition("\n")[0])


def _debian(status: str) -> Iterator[Package]:
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            yield Package("deb", fields["Package"], fields["Version"])
