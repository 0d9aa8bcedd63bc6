"""Looks at a play: one question to Prometheus, the service's pods and its status."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar

import httpx

from harness.cluster import Cluster
from harness.kube import ApiError, Manifest
from harness.load.seen import Instances, Moment, Queries, Told
from harness.prometheus import Prometheus, QueryError
from hetserve.api.names import LABEL_INSTANCE_TYPE
from hetserve.base.units import Seconds
from hetserve.demand.contract import DURATION, REQUESTS, bound_label
from hetserve.planning.plan import read_counts, summary

T = TypeVar("T")
_WHAT: Final = "what"
_NO_ANSWER: Final = (httpx.TransportError, ApiError, QueryError, ValueError, KeyError)


@dataclass(frozen=True, slots=True)
class Questions:
    """What Prometheus is asked of a service. slo, window (of the load): seconds."""

    namespace: str
    service: str
    slo: Seconds
    window: Seconds

    def together(self, elapsed: float) -> str:
        """One PromQL with an answer for each figure, told apart by a label. elapsed: seconds since the play's begin.

        Counters of pods that are gone count with the last that was seen of them: the twin began at zero.
        """
        mine = f'namespace="{self.namespace}",service="{self.service}"'
        since = f"[{max(round(elapsed * 1e3), 1)}ms]"

        def last(name: str, labels: str) -> str:
            return f"sum(last_over_time({name}{{{mine},{labels}}}{since}))"

        asked = {
            "rate": f"max(hetserve_twin_target_qps{{{mine}}})",
            "load": f'sum(rate({REQUESTS}{{{mine},outcome="received"}}[{self.window:g}s]))',
            "cost": f"max(hetserve_service_running_cost_dollars_per_hour{{{mine}}})",
            "lag": "max(hetserve_twin_lag_seconds)",
            "received": last(REQUESTS, 'outcome="received"'),
            "ended": last(REQUESTS, 'outcome=~"served|dropped"'),
            "in_time": last(f"{DURATION}_bucket", f'le="{bound_label(self.slo)}"'),
        }
        return " or ".join(f'label_replace({query}, "{_WHAT}", "{name}", "", "")' for name, query in asked.items())


class Looker:
    """began: of the play, Unix seconds."""

    def __init__(
        self, cluster: Cluster, questions: Questions, began: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._cluster, self._questions = cluster, questions
        self._prometheus, self._began, self._clock = Prometheus(cluster), began, clock

    def look(self) -> tuple[Moment, list[Told]]:
        """What is seen now, and the decisions that the status tells; what does not answer is not known."""
        at = self._clock() - self._began
        figures = _answer(lambda: self._figures(at)) or {}
        namespace, name = self._questions.namespace, self._questions.service
        pods = _answer(lambda: self._cluster.service_pods(name, namespace))
        status = _answer(lambda: self._cluster.get("inferenceservices", name, namespace).get("status", {})) or {}
        seen = replace(moment_of(at, figures), planned_for=_planned_for(status))
        instances = None if pods is None else instances_of(pods)
        return replace(seen, instances=instances), told_of(status, self._began)

    def seconds_since(self, moment: Moment) -> float:
        return self._clock() - self._began - moment.at

    def _figures(self, at: float) -> Mapping[str, float]:
        samples = self._prometheus.query(self._questions.together(at))
        return {sample.labels[_WHAT]: sample.value for sample in samples}


def moment_of(at: float, figures: Mapping[str, float]) -> Moment:
    """What Prometheus said at a second of the play; an answer that is not there, or is NaN, is not known."""
    known = {name: value for name, value in figures.items() if value == value}  # noqa: PLR0124
    counted = ("received", "ended", "in_time")
    cost = known.get("cost")
    return Moment(
        at,
        rate=known.get("rate"),
        load=known.get("load"),
        cost=None if cost is None else round(cost * 1e6),
        queries=Queries(*(known[name] for name in counted)) if known.keys() >= set(counted) else None,
        lag=known.get("lag"),
    )


def instances_of(pods: Iterable[Manifest]) -> dict[str, Instances]:
    """Pods by instance type: Ready, launching, and leaving where they are being deleted."""
    counted = Counter((pod["metadata"]["labels"][LABEL_INSTANCE_TYPE], _stage(pod)) for pod in pods)
    kinds = sorted({kind for kind, _ in counted})
    return {kind: Instances(*(counted[kind, stage] for stage in ("ready", "launching", "leaving"))) for kind in kinds}


def _stage(pod: Manifest) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "leaving"
    conditions = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions", ())}
    return "ready" if conditions.get("Ready") == "True" else "launching"


def told_of(status: Manifest, began: float) -> list[Told]:
    """Decisions of a status since the play began [Unix seconds], the oldest first."""
    entries: list[dict[str, Any]] = status.get("lastDecisions") or []
    told = [
        Told(
            datetime.fromisoformat(entry["time"]).timestamp() - began,
            entry["action"],
            entry["reason"],
            summary(read_counts(entry.get("from"))),
            summary(read_counts(entry.get("to"))),
            entry["message"],
        )
        for entry in reversed(entries)
    ]
    # A decision's time is in whole seconds.
    return [replace(one, at=max(one.at, 0.0)) for one in told if one.at > -1 and one.action != "FirstPlan"]


def _planned_for(status: Manifest) -> float | None:
    with suppress(KeyError, TypeError, ValueError):
        return float(status["plan"]["load"])
    return None


def _answer(ask: Callable[[], T]) -> T | None:
    """None: there is none."""
    try:
        return ask()
    except _NO_ANSWER:
        return None
