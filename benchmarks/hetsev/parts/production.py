"""Section 6.1: two image classifiers under a daily course with a spike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from benchmarks.hetsev.parts.playing import played
from benchmarks.hetsev.plots import over_time
from benchmarks.hetsev.results import OURS, against, comparison, goals
from benchmarks.hetsev.scale import Scale
from benchmarks.reporting import Json

from hetserve.dispatch.kernel import Floats

TITLE: Final = "Production workload (section 6.1)"
SHOWN: Final = ("kubernetes", "ilp-exclusive-count", "hetsev", OURS[0])
_WINDOW: Final = 8
"""Steps over which "up to" is read: 120 s, as the paper averages rates."""
_PUBLISHED: Final = {"throughput": "2.21 x", "GPU use": "2.56 x", "response time": "2.3 x"}
_SECONDS: Final = 90.0
_WORDS: Final = """ResNet50 60 % and Inception-v3 40 % of 200 to 1000 queries/s over 6000 s, a spike from 3500 s on;
{seeds} seeds. A client sends its next query when it has the answer to the last one, so what waits is not sent:
throughput is the number of clients / (time to think + response time), and the two say one thing twice. Their ratios
agree where clients hardly think, as the paper's do; ours think for most of a second, so response times differ by far
more than throughputs. At the spike whole GPUs for each instance
are too few, whatever the controller: two different tenants a GPU do 1.74 times the work of one here, and that is most
of what sharing can bring. *Up to* is read as the greatest ratio of averages over 120 s, on the first seed.
"""


def measure(scale: Scale) -> Json:
    return played("production", scale, SHOWN) | {"quick": scale.quick}


def describe(data: Json) -> str:
    figures, courses = data["figures"], data["courses"]
    rows: list[tuple[str, str, str, bool | None]] = [
        (f"`{name}` over `kubernetes`, {what}: up to", f"{published} published for `hetsev`", f"{value:.2f} x", None)
        for name in ("hetsev", OURS[0])
        for (what, published), value in zip(
            _PUBLISHED.items(), up_to(courses["kubernetes"], courses[name]), strict=True
        )
    ]
    for rival in ("kubernetes", "ilp-exclusive-count", "hetsev"):
        more = against(figures, OURS[0], rival, lambda one: one["throughput"])
        rows.append((f"`{OURS[0]}` over `{rival}`, mean throughput", "", more.text(".3f", " x"), None))
    seconds = data["seconds"]
    rows.append(
        ("all controllers, one seed, processor time", f"< {_SECONDS:g} s", f"{seconds:.0f} s", seconds < _SECONDS)
    )
    plot = "" if data["quick"] else over_time("production", courses)
    return "\n".join((_WORDS.format(seeds=data["seeds"]), comparison(figures), plot, goals(rows)))


def up_to(below: Json, above: Json) -> list[float]:
    """Greatest ratios of 120 s averages: throughput, GPU use, and response time the other way round."""
    throughput = [_averages(np.sum(list(course["answered"].values()), axis=0)) for course in (below, above)]
    use, response = ([_averages(course[name]) for course in (below, above)] for name in ("gpu_use", "response"))
    return [float(np.nanmax(a / b)) for b, a in (throughput, use, response[::-1])]


def _averages(values: Sequence[float | None]) -> Floats:
    kept: Floats = np.array([np.nan if value is None else value for value in values], np.float64)
    whole = len(kept) // _WINDOW * _WINDOW
    averages: Floats = np.nanmean(kept[:whole].reshape(-1, _WINDOW), axis=1)
    return averages
