"""Published batch-size generators as exact distributions, so that a plan depends on no sample drawn from them."""

from __future__ import annotations

from math import log
from statistics import NormalDist
from typing import Final

from hetserve.demand.mix import BatchMix

_DRAWS: Final = 99
_LOG_NORMAL: Final = NormalDist(5.1, 0.2)


def kairos_mixture() -> BatchMix:
    """Batch sizes of Kairos's public artifact, every batch rounded up to a multiple of 10 (10 to 1000).

    Of 99 draws 8 are uniform on 1..99, 22 on 200..599, 5 on 600..999 (integers), and 64 log-normal(5.1, 0.2);
    where that leaves 100..200 it is replaced by a uniform integer of 190..199, which makes bin 200 heavy.
    Source: generator of boringlee24/hpdc23-kairos, which replays the trace of DeepRecSys.
    """
    bins = dict.fromkeys(range(10, 1001, 10), 0.0)
    for draws, low, high in ((8, 1, 99), (22, 200, 599), (5, 600, 999)):
        _add_uniform(bins, draws / _DRAWS, low, high)
    kept = 0.0
    for top in range(110, 201, 10):
        share = _LOG_NORMAL.cdf(log(top)) - _LOG_NORMAL.cdf(log(top - 10))
        bins[top] += 64 / _DRAWS * share
        kept += share
    _add_uniform(bins, 64 / _DRAWS * (1 - kept), 190, 199)
    return BatchMix.of(bins.items())


def _add_uniform(bins: dict[int, float], share: float, low: int, high: int) -> None:
    for batch in range(low, high + 1):
        bins[-(-batch // 10) * 10] += share / (high - low + 1)
