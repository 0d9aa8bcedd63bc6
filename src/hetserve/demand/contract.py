"""Serving metrics, of the queries of a service: names, labels and bucket bounds (docs/metrics.md).

The load twin and a router export it, and the demand of services is read from it. A query is counted once with outcome
`received`, when it arrives, and once with `served` or `dropped`, when it ends; so arrivals are known also while nothing
is Ready. What is counted before a query has an instance has no label of an instance; Prometheus holds an empty label
for one that is not there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from hetserve.base.units import Seconds

REQUESTS: Final = "hetserve_requests_total"
"""Counter of queries, by outcome."""
DURATION: Final = "hetserve_request_duration_seconds"
"""Histogram of the seconds from a query's arrival to its answer; only of those served."""
BATCH_SIZE: Final = "hetserve_request_batch_size"
"""Histogram of the items of a query, counted when it arrives."""
IN_FLIGHT: Final = "hetserve_requests_in_flight"
"""Gauge of queries without an end: on an instance, or waiting for one."""
BUSY: Final = "hetserve_instance_busy_seconds_total"
"""Counter of the seconds in which an instance served a query."""

NAMESPACE: Final = "namespace"
SERVICE: Final = "service"
MODEL: Final = "model"
INSTANCE_TYPE: Final = "instance_type"
POD: Final = "pod"
OUTCOME: Final = "outcome"
BOUND: Final = "le"

SERVICE_LABELS: Final = (NAMESPACE, SERVICE, MODEL)
INSTANCE_LABELS: Final = (*SERVICE_LABELS, INSTANCE_TYPE, POD)
"""Labels of every metric of the contract; the last two are empty for what belongs to no instance."""


class Outcome(StrEnum):
    """Value of the label outcome. Sums over outcomes mean nothing: a query is received, and then served or dropped.

    RECEIVED: it arrived; the instance's labels are empty. SERVED: it was answered, in time or late. DROPPED: it ended
    without an answer; the instance's labels are empty where it had none.
    """

    RECEIVED = "received"
    SERVED = "served"
    DROPPED = "dropped"


GPU_UTILISATION: Final = "DCGM_FI_DEV_GPU_UTIL"
"""Gauge: percent of the time in which the GPU was busy."""
GPU_MEMORY_USED: Final = "DCGM_FI_DEV_FB_USED"
"""Gauge, MiB."""
GPU_MEMORY_FREE: Final = "DCGM_FI_DEV_FB_FREE"
"""Gauge, MiB."""
GPU_LABELS: Final = ("gpu", "UUID", "device", "modelName", "Hostname")
"""As NVIDIA's DCGM exporter names them: per device, so they cannot tell apart who shares a GPU."""

POWERS: Final = tuple(2**k for k in range(11))
"""1 to 1024: bounds of every service's batch sizes."""
DURATIONS: Final = tuple(Seconds(step * 10**power) for power in range(-3, 3) for step in (1, 2, 5))
"""1 ms to 500 s: bounds of every service's durations, beside its SLO."""


def batch_bounds(thresholds: Iterable[int]) -> tuple[int, ...]:
    """Upper bounds of the batch sizes of a service, rising: every power of two up to 1024 and the thresholds.

    thresholds: batch sizes [items] at which instances differ, such as those of the profiles' tables. A mix read from
    the buckets has no size but these; a query that is larger than all of them is in +Inf alone. Raises ValueError for
    one below 1.
    """
    given = set(thresholds)
    wrong = min(given, default=1)
    if wrong < 1:
        raise ValueError(f"threshold batch {wrong}: must be at least 1")
    return tuple(sorted({*POWERS, *given}))


def latency_bounds(slo: Seconds) -> tuple[Seconds, ...]:
    """Upper bounds of the durations [s] of a service, rising: the fixed ones and its SLO.

    The bucket of the SLO counts the queries in time, so that attainment is exact. Raises ValueError for an SLO that is
    not positive and finite.
    """
    if not (math.isfinite(slo) and slo > 0):
        raise ValueError(f"slo {slo}: must be a positive number of seconds")
    return tuple(sorted({*DURATIONS, slo}))


def bound_label(bound: float) -> str:
    """The label `le` of a bound, as clients and Prometheus 3 write it: 0.35, 1.0, 1e+06, +Inf."""
    if bound == math.inf:
        return "+Inf"
    text = repr(float(bound))
    whole, _, fraction = text.partition(".")
    if bound > 0 and len(whole) > 6 and fraction:
        digits = f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0").rstrip(".")
        return f"{digits}e+{len(whole) - 1:02d}"
    return text
