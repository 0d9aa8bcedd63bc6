"""The controllers that are compared, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.hetsev.policy import Controller
from benchmarks.hetsev.scene import Scene

CONTROLLERS: Final[Mapping[str, Callable[[Scene], Controller]]] = {}
