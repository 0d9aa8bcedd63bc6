"""Batch-size mixes as they are declared: distributions, or text: `mixture`, `normal:165,16`, `lognormal:5.1,0.2`, a CSV
file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from statistics import NormalDist
from typing import Final

from hetserve.api.inference_service import InferenceService
from hetserve.api.service.load import BatchDistribution
from hetserve.base.csv_rows import read_columns
from hetserve.base.units import number_or_nan, parse_number
from hetserve.demand.mix import BatchMix, kairos_mixture

MOST_BATCHES: Final = 1000
"""Different batch sizes of an expanded mix, as many as a manifest may list."""
# Not drawn once in a billion queries.
_NEGLIGIBLE: Final = 1e-12
_LARGEST_LOG: Final = 100.0


def declared_mix(service: InferenceService) -> BatchMix:
    """The mix of batch sizes that a service declares; none: single-item queries."""
    load = service.spec.load
    if load is None or not load.declares_a_mix:
        return BatchMix.single()
    if load.batch_distribution is not None:
        return expanded(load.batch_distribution)
    return BatchMix.of((entry.batch, entry.weight) for entry in load.batch_sizes)


@lru_cache(maxsize=1024)
def expanded(distribution: BatchDistribution) -> BatchMix:
    """The distribution over whole batches. Where they would be too many, neighbours count as the largest of them."""
    mean = float(distribution.mean or 1)
    if distribution.type == "Fixed":
        return BatchMix.single(int(mean))
    least, most = distribution.min or 1, distribution.max or 1
    if distribution.type == "Uniform":
        return BatchMix.of((last, last - first + 1.0) for first, last in _groups(least, most))
    deviation = float(distribution.standard_deviation or 1)
    if distribution.type == "Normal":
        return BatchMix.of(bell_shares(NormalDist(mean, deviation), least, most, logarithmic=False))
    # The logarithm's variance and mean, of a log-normal variable with this mean and deviation.
    variance = math.log1p((deviation / mean) ** 2)
    logs = NormalDist(math.log(mean) - variance / 2, math.sqrt(variance))
    return BatchMix.of(bell_shares(logs, least, most, logarithmic=True))


def bell_shares(bell: NormalDist, least: int, most: int, *, logarithmic: bool) -> list[tuple[int, float]]:
    """Weights of the batches from `least` to `most`, each of what rounds to it. Those next to nothing are left out.

    bell: of the batch, or of its natural logarithm.
    """

    def up_to(size: float) -> float:
        return bell.cdf(math.log(size) if logarithmic else size)

    def at(share: float) -> float:
        size = bell.inv_cdf(share)
        return math.exp(min(size, _LARGEST_LOG)) if logarithmic else size

    first, last = max(least, math.floor(at(_NEGLIGIBLE))), min(most, math.ceil(at(1 - _NEGLIGIBLE)))
    shares = ((end, up_to(end + 0.5) - up_to(start - 0.5)) for start, end in _groups(first, last))
    return [(batch, share) for batch, share in shares if share > _NEGLIGIBLE]


def _groups(first: int, last: int) -> list[tuple[int, int]]:
    """The whole numbers from first to last in at most MOST_BATCHES runs of neighbours."""
    width = max(1, -(-(last - first + 1) // MOST_BATCHES))
    return [(start, min(start + width - 1, last)) for start in range(first, last + 1, width)]


MOST_BYTES: Final = 16 << 20
LARGEST_BATCH: Final = 1000
"""Kairos limits queries to 1000 items (section 5.1)."""

_FORMS: Final = "mixture, normal:MEAN,SD, lognormal:MU,SIGMA or the path of a CSV file"
_BATCH_COLUMNS: Final = ("batch", "batch_bin")
_WEIGHT_COLUMNS: Final = ("weight", "share", "probability")


def parse_batches(text: str, largest: int = LARGEST_BATCH) -> BatchMix:
    """Mix of batch sizes from its text form; normal ones are cut off below 1 and above `largest`.

    A file has a column `batch` and optionally `weight` (share, probability); without weights, each line is one query.
    Raises ValueError, naming the text, or file, line, column and value; UnreadableError.
    """
    name, _, rest = text.partition(":")
    if text == "mixture":
        return kairos_mixture()
    if name in {"normal", "lognormal"}:
        return _bell(text, rest, largest, logarithmic=name == "lognormal")
    path = Path(text)
    if not path.exists() or path.is_dir():
        raise ValueError(f"batches {text!r}: no such file; write {_FORMS}")
    rows = _read(path)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{path}: the mix of batch sizes is empty")
    return BatchMix.of(chain([first], rows))


def _bell(text: str, numbers: str, largest: int, *, logarithmic: bool) -> BatchMix:
    try:
        centre, width = (parse_number(part) for part in numbers.split(","))
    except ValueError:
        raise ValueError(f"batches {text!r}: need two numbers, for example {text.partition(':')[0]}:165,16") from None
    if not (math.isfinite(centre) and math.isfinite(width) and width > 0):
        raise ValueError(f"batches {text!r}: the mean must be finite and the deviation a positive number")
    kept = bell_shares(NormalDist(centre, width), 1, largest, logarithmic=logarithmic)
    if not kept:
        raise ValueError(f"batches {text!r}: no batch size between 1 and {largest} has any weight")
    return BatchMix.of(kept)


def _read(path: Path) -> Iterator[tuple[int, float]]:
    for where, (batch, *weight) in read_columns(path, MOST_BYTES, _BATCH_COLUMNS, _WEIGHT_COLUMNS):
        share = _number(where, *weight[0]) if weight else 1.0
        if share != 0:
            yield whole_number(where, *batch), share


def _number(where: str, column: str, text: str | None) -> float:
    value = number_or_nan(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"{where}, column {column}: {text!r} is not a number of at least 0")
    return value


def whole_number(where: str, column: str, text: str | None) -> int:
    """A whole number of at least 1. Raises ValueError, naming the place and the value."""
    value = number_or_nan(text)
    if not (1 <= value < math.inf and value.is_integer()):
        raise ValueError(f"{where}, column {column}: {text!r} is not a whole number of at least 1")
    return int(value)
