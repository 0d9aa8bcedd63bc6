"""docs/reference/metrics.md: each metric as the component that serves it describes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from harness.reference_docs import NOTE, table
from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.observe.metrics import Metrics, QueueFigures
from hetserve_operator.metrics import Hideable, OperatorMetrics
from hetserve_router.front import Front
from hetserve_router.observed import RouterCollector
from hetserve_services.figures import InstanceFigures
from hetserve_twin.engine import LoadTwin
from hetserve_twin.twin import TwinCollector
from testing.cluster import gpu_node, gpu_pod

_INTRO: Final = (
    "As the components describe them, at `/metrics` of their probe ports. [Metrics](../metrics.md) has the values of "
    "labels\nand queries. Histograms come with `_bucket`, `_sum` and `_count`, counters with `_created`.\n"
)
_OF_THE_TWIN: Final = "hetserve_twin_"


@dataclass(frozen=True, slots=True, order=True)
class MetricDoc:
    """A metric; its words are those of HELP."""

    name: str
    type: str
    labels: tuple[str, ...]
    words: str


def metrics_page() -> str:
    """The Markdown page of all metrics, by component."""
    parts = [f"{NOTE}# Metrics by component\n", _INTRO]
    for component, metrics in described().items():
        rows = [(f"`{one.name}`", one.type, ", ".join(one.labels), one.words) for one in sorted(metrics)]
        parts.append(f"## {component}\n\n" + table(("Metric", "Type", "Labels", "What it is"), rows))
    return "\n".join(parts)


def described() -> dict[str, list[MetricDoc]]:
    """Every metric by the component that serves it."""
    serving = list(_of_families(TwinCollector(LoadTwin({}), list, float).describe()))
    router = _of_families(RouterCollector("", Front({}, (), bool), {}, InstanceFigures()).describe())
    return {
        "Extender": asyncio.run(_of_the_extender()),
        "Operator": list(_of_registry(OperatorMetrics().registry)),
        "Serving metrics": [one for one in serving if not one.name.startswith(_OF_THE_TWIN)],
        "Router": [one for one in router if one.name not in {known.name for known in serving}],
        "Load twin": [one for one in serving if one.name.startswith(_OF_THE_TWIN)],
    }


async def _of_the_extender() -> list[MetricDoc]:
    """Of its registry, and of the ledger, which is written without one; a pod is in it, so that no metric is absent."""
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).replace([gpu_node()])
    PodEventHandler(placer).replace([gpu_pod("a", node="n0", gpu="0")])
    metrics = Metrics(placer)
    found = {one.name: one for one in _of_registry(metrics.registry)}
    for family in text_string_to_metric_families((await metrics.text()).decode()):
        if {family.name, f"{family.name}_total"} & found.keys() or family.name.endswith("_created"):
            continue
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels)
        found[family.name] = MetricDoc(family.name, family.type, tuple(labels), _sentence(family.documentation))
    return list(found.values())


def _of_registry(registry: CollectorRegistry) -> Iterator[MetricDoc]:
    """Of a registry's counters, gauges and histograms, also while they have no sample."""
    for collector in registry._collector_to_names:
        if isinstance(collector, QueueFigures):
            yield from _of_families(collector.collect())
        elif isinstance(collector, Hideable):
            yield from _of_registry(collector.registry)
        else:
            (family,) = collector.describe()  # type: ignore[attr-defined]
            yield _doc(family, collector._labelnames)  # type: ignore[attr-defined]


def _of_families(families: Iterable[Any]) -> Iterator[MetricDoc]:
    """Of metric families as a collector makes them."""
    for family in families:
        yield _doc(family, getattr(family, "_labelnames", ()))


def _doc(family: Any, labels: Iterable[str]) -> MetricDoc:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return MetricDoc(name, family.type, tuple(labels), _sentence(family.documentation))


def _sentence(words: str) -> str:
    return words.removesuffix(".") + "."
