"""Weights of a learned policy: a network, and the model and fleet that it was trained for, by name."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetserve.base.files import read_text
from hetserve.dispatch.joining.interface import VariantModel

Floats = NDArray[np.float64]

BINS: Final = 10
"""Bins of deadlines that the network sees."""
MOST_BYTES: Final = 16 << 20
MOST_ITEMS: Final = 1 << 20
"""Of a size."""
_MOST_SECONDS: Final = 1e12
SHIPPED: Final = ("fang-rl-p2.json", "fang-rl-g2-p2.json")
"""Sets that come with the package: of Fang et al.'s single GPU, and of their cluster."""


class Network(NamedTuple):
    """One hidden layer: inner [input, neuron], inner_bias [neuron], outer [neuron, action], outer_bias [action]."""

    inner: Floats
    inner_bias: Floats
    outer: Floats
    outer_bias: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PolicyWeights:
    """A network and what its inputs and actions mean.

    Inputs: bins of deadlines, all that waits, arrival rate; whether the type is this one, by type; remaining time of
    each instance, by type. Actions: sizes for each variant, variant by variant; the last: wait. fleet: instances of
    each type, in the order of the inputs. variants: by name. seed: of the training. slo, hard: the deadlines that it is
    for [s].
    """

    fleet: Mapping[str, int]
    variants: tuple[str, ...]
    sizes: tuple[int, ...]
    seed: int
    network: Network
    slo: float
    hard: float

    def __post_init__(self) -> None:
        self._check_names()
        inputs, actions = self.inputs_of(self.fleet), len(self.sizes) * len(self.variants) + 1
        hidden = self.network.inner.shape[-1] if self.network.inner.ndim else 1
        shapes = ((inputs, hidden), (hidden,), (hidden, actions), (actions,))
        for name, array, shape in zip(Network._fields, self.network, shapes, strict=True):
            if array.shape != shape:
                raise ValueError(f"network.{name}: shape {_times(array.shape)}: must be {_times(shape)} for this "
                                 f"fleet, these variants and sizes")  # fmt: skip
            if not np.isfinite(array).all():
                raise ValueError(f"network.{name}: {array[~np.isfinite(array)][0]}: must be finite")

    def _check_names(self) -> None:
        if not self.fleet or min(self.fleet.values()) < 1:
            raise ValueError(f"fleet {dict(self.fleet)}: need at least one instance of each type")
        if not self.variants or len(set(self.variants)) < len(self.variants):
            raise ValueError(f"variants {list(self.variants)}: need at least one, each once")
        rising = list(self.sizes) == sorted(set(self.sizes))
        if not (self.sizes and rising and self.sizes[0] >= 1 and self.sizes[-1] <= MOST_ITEMS):
            sizes = reprlib.repr(list(self.sizes))
            raise ValueError(f"sizes {sizes}: need at least one, at least 1 item, rising, at most {MOST_ITEMS} items")
        if self.seed < 0:
            raise ValueError(f"seed {self.seed}: must be at least 0")
        if not 0 < self.slo <= self.hard < math.inf:
            raise ValueError(f"sloSeconds {self.slo}, deadlineSeconds {self.hard}: must be above 0, the SLO no later")

    @staticmethod
    def inputs_of(fleet: Mapping[str, int]) -> int:
        """Inputs of a network for this fleet."""
        return BINS + 2 + len(fleet) + sum(fleet.values())

    def misfit(self, model: VariantModel, counts: Mapping[str, int] | None = None) -> str:
        """Why the weights are not for these; empty: they are. counts: instances by type, None: not known yet."""
        variants, hard = [one.name for one in model.variants], model.slo + model.grace
        if set(model.types) != set(self.fleet):
            return f"trained for the types {', '.join(self.fleet)}, not {', '.join(model.types)}"
        if set(variants) != set(self.variants):
            return f"trained for the variants {', '.join(self.variants)}, not {', '.join(variants)}"
        if counts is not None and any(counts.get(name, 0) != number for name, number in self.fleet.items()):
            return f"trained for {_counted(self.fleet)}, not {_counted(counts)}"
        for what, own, asked in (("an SLO", self.slo, model.slo), ("a hard deadline", self.hard, hard)):
            if not math.isclose(own, asked):
                return f"trained for {what} of {own:g} s, not {asked:g} s"
        return ""

    def as_json(self) -> dict[str, Any]:
        return {
            "policy": "fang-rl",
            "seed": self.seed,
            "fleet": dict(self.fleet),
            "variants": list(self.variants),
            "sizes": list(self.sizes),
            "sloSeconds": self.slo,
            "deadlineSeconds": self.hard,
            "network": {name: array.tolist() for name, array in self.network._asdict().items()},
        }


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a number"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items() if number)


def read_weights(text: str, where: str) -> PolicyWeights:
    """Weights from their JSON. where: for errors. Raises ValueError, with field, value and what would be right."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{where}: no JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{where}: no weights: lists are nested too deep; write them by hetserve train") from None
    fields = ("policy", "seed", "fleet", "variants", "sizes", "sloSeconds", "deadlineSeconds", "network")
    if not isinstance(found, dict) or (missing := [name for name in fields if name not in found]):
        raise ValueError(f"{where}: lacks {', '.join(missing) if isinstance(found, dict) else 'an object'}")
    if found["policy"] != "fang-rl":
        raise ValueError(f"{where}: policy {found['policy']!r}: must be fang-rl")
    try:
        return PolicyWeights(
            {name: _whole(number, f"fleet.{name}") for name, number in _fleet(found["fleet"]).items()},
            tuple(map(str, _list(found["variants"], "variants", "names"))),
            tuple(_whole(size, "sizes") for size in _list(found["sizes"], "sizes", "whole numbers")),
            _whole(found["seed"], "seed"),
            Network._make(_array(found["network"], name) for name in Network._fields),
            _seconds(found["sloSeconds"], "sloSeconds"),
            _seconds(found["deadlineSeconds"], "deadlineSeconds"),
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} {reprlib.repr(value)}: must be a whole number")  # noqa: TRY004  as of all else
    return value


def _fleet(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        found = reprlib.repr(value)
        raise ValueError(f'fleet {found}: must be instances by type, like {{"p2.xlarge": 1}}')  # noqa: TRY004
    return value


def _list(value: Any, name: str, of: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} {reprlib.repr(value)}: must be a list of {of}")  # noqa: TRY004
    return value


def _seconds(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST_SECONDS:
        raise ValueError(f"{name} {value!r:.40}: must be seconds, a number above 0")
    return float(value)


def _array(network: Any, name: str) -> Floats:
    if not isinstance(network, dict) or name not in network:
        raise ValueError(f"network lacks {name}")
    try:
        return np.array(network[name], np.float64)
    except OverflowError:
        raise ValueError(f"network.{name}: a number is beyond 1.8e308: must be finite") from None
    except (ValueError, TypeError):
        raise ValueError(f"network.{name}: must be numbers, in rows of one length") from None


def load_weights(path: str) -> PolicyWeights:
    """Weights from a file. Raises ValueError, with the file, UnreadableError."""
    return read_weights(read_text(path, MOST_BYTES), path)


@cache
def shipped_weights() -> tuple[PolicyWeights, ...]:
    """The sets that come with the package."""
    folder = files(__package__) / "trained"
    return tuple(read_weights((folder / name).read_text(encoding="utf-8"), name) for name in SHIPPED)
