"""HetSev's four models on GPUs of one type, at loads in instances of a model alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.hetsev.assumptions import given
from benchmarks.sharing.manifests import Asked, GpuKind, Model, manifests

from hetserve.api.manifests import Manifests
from hetserve.serving.services import MEASURED_AT

KINDS: Final = ("v100", "t4")
LEVELS: Final = (0.3, 0.6, 0.9, 1.2, 1.8, 2.4)
MIXED: Final = ((0.6, 0.9, 1.8, 2.4), (2.4, 1.8, 0.9, 0.6))
PEAK: Final = 1.2
COURSE: Final = (0.3, 0.3, 0.6, 1.0, 1.0, 1.0, 0.6, 0.3)
"""Of a load with a peak as in HetSev's section 6.3: shares of the peak, at equal distances of time."""
SATURATION: Final = 0.8
"""Of a service that follows its load: what it is planned to be used to."""

Case = tuple[tuple[float, float, float, float], bool]
"""Load of each model, and whether it changes."""


def cases(row: str) -> Iterator[Case]:
    """Of a row: `fixed`, `in step`, `out of step`."""
    if row == "fixed":
        yield from (((level,) * 4, False) for level in LEVELS)
        yield from ((levels, False) for levels in MIXED)
        return
    behind = 0 if row == "in step" else len(COURSE) // 4
    for at in range(len(COURSE)):
        a, b, c, d = (round(PEAK * COURSE[(at + k * behind) % len(COURSE)], 6) for k in range(4))
        yield (a, b, c, d), True


ROWS: Final = ("fixed", "in step", "out of step")


def four(kind: str, loads: Sequence[float], *, follows: bool) -> Manifests:
    """Services of the four. loads: of each, in instances alone; planned for load / .8 where they change."""
    assumed = given()
    models = [_model(name, kind) for name in assumed.models]
    room = SATURATION if follows else 1.0
    asked = [
        Asked(load * assumed.rate(model.name, kind) / room, assumed.models[model.name].slo, "98", follows)
        for model, load in zip(models, loads, strict=True)
    ]
    return manifests(models, asked, [GpuKind(kind, assumed.gpus[kind].memory_mib)])


def _model(name: str, kind: str) -> Model:
    assumed = given()
    own = assumed.models[name]
    factors = {
        other.name: (
            other.batch,
            1 + assumed.coefficient(name, other.name) * (own.batch * other.batch) ** 0.5 / MEASURED_AT,
        )
        for other in assumed.models.values()
        if other.name != name
    }
    return Model(
        name,
        {kind: {own.batch: own.latency[kind]}},
        own.memory_mib,
        own.share,
        factors,
        variation=str(assumed.variation),
    )
