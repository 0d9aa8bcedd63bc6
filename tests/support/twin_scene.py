"""Services, pods and traces as the load twin gets them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hetserve.base.units import QPS, Seconds
from hetserve.demand import BatchMix
from hetserve.demand.trace import LoadTrace
from hetserve_services.facts import ReadyPod, ServiceFacts
from hetserve_twin.engine import LoadTwin, TracedLoad
from testing import planning

TYPES: Mapping[str, int] = {"fast": 10, "slow": 20}
"""Milliseconds of a query of one item, by type."""


def trace(*points: tuple[float, float]) -> LoadTrace:
    """Times [s] and rates [queries/s]."""
    return LoadTrace(tuple(Seconds(at) for at, _ in points), tuple(QPS(rate) for _, rate in points))


def facts(name: str = "s", **fields: Any) -> ServiceFacts:
    """A service of the model of its name with the types `fast` and `slow`, and an SLO of 0.1 s."""
    times = fields.pop("times", TYPES)
    spec = fields.pop("profile", {})
    profiles = {
        kind: planning.model_profile(name, kind, **{"latency": {"table": [{"batch": 1, "mean": f"{ms}ms"}]}, **spec})
        for kind, ms in times.items()
    }
    given: dict[str, Any] = {"slo": Seconds(0.1), "mix": BatchMix.single(), **fields}
    return ServiceFacts("team", name, name, profiles=profiles, **given)


def pod(name: str, service: str = "s", kind: str = "fast", *gpus: str) -> ReadyPod:
    """A pod on these GPUs of the node n0; without one on none."""
    return ReadyPod(f"uid-{name}", name, ("team", service), kind, tuple(("n0", gpu) for gpu in gpus))


def twin_of(loads: Mapping[str, TracedLoad], **rules: Any) -> LoadTwin:
    """A twin of these services of the namespace team. Policy `fcfs`: the quickest to compile."""
    return LoadTwin({("team", name): load for name, load in loads.items()}, **{"policy": "fcfs", **rules})


def playing(rate: float, pods: Iterable[ReadyPod] = (), *, load: TracedLoad | None = None, **rules: Any) -> LoadTwin:
    """A twin of the service s with these pods, at second 0."""
    twin = twin_of({"s": load or TracedLoad(trace((0, rate)))}, **rules)
    twin.declare([facts()])
    twin.stand(pods)
    return twin
