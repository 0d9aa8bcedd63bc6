"""The container engines that build images: docker, podman and buildah."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ENGINES: Final = ("docker", "podman", "buildah")
"""In the order in which they are tried."""
_IDENTITY: Final = {"buildah": "{{.FromImageID}}"}
"""Field of `inspect`, where it is not `.Id`."""


class EngineError(Exception):
    """No engine answers, or one failed; the message says what to do."""


@dataclass(frozen=True)
class Engine:
    """One engine's command line. name: in ENGINES."""

    name: str

    def build(
        self, file: Path, context: Path, tag: str, arguments: Mapping[str, str], *options: str, epoch: int | None = None
    ) -> None:
        """Builds an image. Raises EngineError with the command that failed.

        arguments: of the build (`--build-arg`). options: more of the engine's flags. epoch: seconds since
        1970 that podman and buildah give the image and its files, so that equal builds have equal digests.
        """
        command = [self.name, "build", "--file", str(file), "--tag", tag, *options]
        if epoch is not None and self.name != "docker":
            command += ["--timestamp", str(epoch)]
        if self.name == "buildah":
            command.append("--layers")
        for name, value in arguments.items():
            command += ["--build-arg", f"{name}={value}"]
        _run([*command, str(context)])

    def has(self, tag: str) -> bool:
        """Whether the engine holds an image."""
        done = subprocess.run([self.name, "inspect", "--type=image", tag], capture_output=True, check=False)
        return done.returncode == 0

    def identity(self, tag: str) -> str:
        """What names the content of an image that the engine holds. Raises EngineError."""
        command = [self.name, "inspect", "--type=image", "--format", _IDENTITY.get(self.name, "{{.Id}}"), tag]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EngineError(f"this failed: {' '.join(command)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def save(self, tag: str, archive: Path) -> None:
        """Writes an image as an archive that `docker load` and `kind load image-archive` read."""
        archive.unlink(missing_ok=True)
        if self.name == "buildah":
            _run([self.name, "push", "--quiet", tag, f"docker-archive:{archive}:{tag}"])
        else:
            _run([self.name, "save", "--output", str(archive), tag])

    def save_all(self, tags: Sequence[str], folder: Path) -> list[Path]:
        """Writes images as archives into a folder; docker's, in one, holds a layer that several have once."""
        if self.name == "docker":
            _run([self.name, "save", "--output", str(folder / "images.tar"), *tags])
            return [folder / "images.tar"]
        archives = [folder / f"image-{number}.tar" for number in range(len(tags))]
        for tag, archive in zip(tags, archives, strict=True):
            self.save(tag, archive)
        return archives


def choose(wanted: str | None = None) -> Engine:
    """The engine that is asked for, or the first that answers. Raises EngineError if none does."""
    if wanted is not None and wanted not in ENGINES:
        raise EngineError(f"ENGINE={wanted}: not one of {', '.join(ENGINES)}")
    for name in (wanted,) if wanted else ENGINES:
        if _answers(name):
            return Engine(name)
    tried = wanted or ", ".join(ENGINES)
    raise EngineError(f"no container engine answers (tried {tried}): start docker, or install podman or buildah")


def _answers(name: str) -> bool:
    if shutil.which(name) is None:
        return False
    return subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0


def _run(command: Sequence[str]) -> None:
    environment = {"BUILDAH_FORMAT": "oci", **os.environ}
    if subprocess.run(command, env=environment, check=False).returncode:
        raise EngineError(f"this failed: {' '.join(command)}")
