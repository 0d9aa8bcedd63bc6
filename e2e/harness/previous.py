"""The release before this one: its chart, and images of its wheel over the dependencies of today's images."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from images import build
from images.engines import Engine

from harness.components import ROOT

FOLDER: Final = ROOT / "tests" / "previous"


def _only(pattern: str) -> Path:
    (found,) = FOLDER.glob(pattern)
    return found


CHART: Final = _only("hetserve-*.tgz")
WHEEL: Final = _only("hetserve-*.whl")
IN_PODS: Final = ("operator", "extender")
"""Components whose images ran in a cluster then."""
VERSION: Final = re.sub(r"^hetserve-([^-]+)-.*$", r"\1", WHEEL.name)
"""Of the wheel, and the tag of its images."""


def tag_of(component: str) -> str:
    """Full name of a component's image."""
    return f"{build.tag_of(component).rpartition(':')[0]}:{VERSION}"


def build_images(engine: Engine, components: tuple[str, ...]) -> list[str]:
    """Builds the images over today's, which are there, and returns their tags. Raises EngineError."""
    for component in components:
        over = {"IMAGE": build.tag_of(component)}
        options = ("--network", "none")
        engine.build(FOLDER / "Containerfile", FOLDER, tag_of(component), over, *options, epoch=build.epoch())
    return [tag_of(component) for component in components]


def image_values() -> dict[str, Any]:
    """Values of the chart that name these images."""
    made: dict[str, Any] = {}
    for component in IN_PODS:
        repository, _, tag = tag_of(component).rpartition(":")
        made[component] = {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"}}
    return made
