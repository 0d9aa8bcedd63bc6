"""Draws the demo's services, GPUs and queues from plain objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from string import ascii_uppercase
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.nodes import INSTANCE_TYPE_LABEL
from harness.view import GpuHolder
from hetserve.api.names import GFD_COUNT, GFD_MEMORY, GFD_PRODUCT
from hetserve.objects.gpu_sharing import booked_percent

BAR: Final = 44
COMPUTE_BAR: Final = 20
WHOLE: Final = 100
COLOURS: Final = ("cyan", "magenta", "green", "yellow", "blue", "red", "bright_cyan", "bright_magenta")
FIGURE: Final = {"MaxThroughput": "bound", "MinCost": "capacity"}
"""What the queries/s of a plan are that was not tried."""


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU of a pool (instance type): MiB and holders."""

    pool: str
    node: str
    gpu: str
    product: str
    memory: int
    holders: tuple[GpuHolder, ...]

    @property
    def free(self) -> int:
        return self.memory - sum(holder.mib for holder in self.holders)

    def compute(self, holder: GpuHolder) -> int | None:
        """Percent; all for who holds all of the memory, None for others that declare none. On terms: of what it
        tolerates, what it takes alone.
        """
        if holder.terms is not None:
            return -(-WHOLE * holder.terms.share // holder.terms.tolerance)
        return WHOLE if holder.compute is None and holder.mib >= self.memory else holder.compute

    @property
    def booked(self) -> int:
        """Percent of compute."""
        tenants = [tenant for holder in self.holders if (tenant := holder.tenant) is not None]
        if tenants and len(tenants) == len(self.holders):
            return booked_percent(tenants)
        return sum(self.compute(holder) or 0 for holder in self.holders)

    @property
    def free_compute(self) -> int | None:
        """Percent; None: nobody knows."""
        known = all(self.compute(holder) is not None for holder in self.holders)
        return WHOLE - self.booked if known else None


def gpu_rows(
    nodes: Iterable[Mapping[str, Any]], holders: Mapping[tuple[str, str], Sequence[GpuHolder]]
) -> list[GpuRow]:
    """Every GPU of the nodes' labels, with its holders."""
    rows = []
    for node in nodes:
        labels, name = node["metadata"].get("labels", {}), node["metadata"]["name"]
        for index in range(int(labels.get(GFD_COUNT, 0))):
            held = sorted(holders.get((name, str(index)), ()), key=lambda holder: (holder.model, holder.pod))
            product, memory = labels[GFD_PRODUCT], int(labels[GFD_MEMORY])
            pool = labels.get(INSTANCE_TYPE_LABEL, product)
            rows.append(GpuRow(pool, name, str(index), product, memory, tuple(held)))
    return rows


def services_table(services: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = Table("SERVICE", "READY", "OBJECTIVE", "SLO", "PLAN", "QPS", "$/H", "REASON", title="Services", box=None)
    why = []
    for service in services:
        spec, plan = service["spec"], service.get("status", {}).get("plan") or {}
        slo = spec["slo"]
        what = "holds" if plan.get("tried") else FIGURE.get(spec["objective"], "")
        figure = f"{what} {plan.get('qps', '-')}"
        mixed = plan.get("summary", "-").replace("+", " + ")
        table.add_row(
            service["metadata"]["name"],
            ready_of(service).get("status", "Unknown"),
            spec["objective"],
            f"{slo.get('percentile', '99')} % in {slo['latency']}",
            f"{mixed} (provisional)" if is_provisional(service) else mixed,
            figure,
            plan.get("hourlyCost", "-"),
            ready_of(service).get("reason", "-"),
        )
        if plan:
            why.append(Text.assemble((f"{service['metadata']['name']}: ", "bold"), plan.get("verdict", "")))
    return Group(table, Text(), Text("Why these plans", style="italic"), *why)


def is_provisional(service: Mapping[str, Any]) -> bool:
    """Whether the plan in force is a quick answer, until the tried one is worked out."""
    return (service.get("status", {}).get("plan") or {}).get("provisional") is True


def ready_of(service: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ready of the current generation."""
    status = service.get("status", {})
    if status.get("observedGeneration") != service["metadata"]["generation"]:
        return {}
    conditions = status.get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


def gpu_picture(rows: Sequence[GpuRow]) -> RenderableType:
    """Two bars per GPU, of memory and of compute, with a letter per model."""
    models = sorted({holder.model for row in rows for holder in row.holders})
    letters = {model: ascii_uppercase[number % 26] for number, model in enumerate(models)}
    styles = {model: COLOURS[number % len(COLOURS)] for number, model in enumerate(models)}
    largest = max((row.memory for row in rows), default=1)
    table = Table("NODE", "GPU", "PRODUCT", "MEMORY", title="GPUs", box=None)
    table.add_column("FREE MIB", justify="right")
    table.add_column("COMPUTE")
    table.add_column("FREE %", justify="right")
    table.add_column("HELD, MIB/%")
    for row in rows:
        held = [(holder.model, _cells(holder.mib, largest, BAR)) for holder in row.holders]
        memory = _bar(held, _cells(row.memory, largest, BAR), letters, styles)
        booked = [(holder.model, _cells(row.compute(holder) or 0, WHOLE, COMPUTE_BAR)) for holder in row.holders]
        compute = _bar(booked, COMPUTE_BAR, letters, styles, "?" if row.free_compute is None else "·")
        free = "-" if row.free_compute is None else str(row.free_compute)
        table.add_row(row.node, row.gpu, row.product, memory, str(row.free), compute, free, _held(row, letters))
    legend = Text("  ").join(Text(f"{letters[model]} = {model}", styles[model]) for model in models)
    return Group(table, legend)


def _bar(
    parts: Iterable[tuple[str, int]],
    length: int,
    letters: Mapping[str, str],
    styles: Mapping[str, str],
    rest: str = "·",
) -> Text:
    bar = Text()
    for model, cells in parts:
        bar.append(letters[model] * cells, styles[model])
    bar.append(rest * max(0, length - len(bar)), "dim")
    return bar


def _cells(amount: int, whole: int, length: int) -> int:
    return max(1, round(length * amount / whole)) if amount else 0


def _held(row: GpuRow, letters: Mapping[str, str]) -> str:
    shares = ((holder, row.compute(holder)) for holder in row.holders)
    parts = (f"{letters[h.model]}:{h.mib}" + ("" if percent is None else f"/{percent}") for h, percent in shares)
    return " ".join(parts) or "idle"


def sharing(rows: Sequence[GpuRow]) -> str:
    """Degree of GPU sharing, one line per pool."""
    lines = []
    for pool, group in groupby(sorted(rows, key=lambda row: row.pool), key=lambda row: row.pool):
        gpus = list(group)
        pods = sum(len(row.holders) for row in gpus)
        held = sum(row.memory - row.free for row in gpus) / sum(row.memory for row in gpus)
        booked = sum(row.booked for row in gpus) / (WHOLE * len(gpus))
        named = "1 pod" if pods == 1 else f"{pods} pods"
        rate = pods / len(gpus)
        amounts = f"{held:.0%} of the memory held, {booked:.0%} of the compute booked"
        lines.append(f"{pool}: {named} on {len(gpus)} GPUs ({rate:.2f} per GPU), {amounts}")
    return "\n".join(lines)


def queue_line(metrics: str, gated: int) -> str:
    """From the extender's metrics; `gated`: pods with the gate."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics):
        sums |= {family.name: 0.0, f"{family.name}_total": 0.0}  # no sample yet
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value

    def number(name: str) -> str:
        return f"{sums[name]:.0f}" if name in sums else "?"

    return (
        f"{gated} pods wait at the gate, {number('hetserve_queue_outstanding')} released and not yet bound, "
        f"{number('hetserve_queue_releases_total')} gates lifted, {number('hetserve_bookings')} pods on GPUs"
    )
