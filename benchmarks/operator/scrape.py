"""What the operator's metrics page says: services looked at, looks, plans, writes."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

PER_SERVICE = "hetserve_service_ready"
"""Exported for a service from the first look at it on."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """One reading of /metrics.

    services: number of services that were looked at at least once. looks, plans, errors: counted since the start.
    queue: services that wait for a look. writes: answered without an error, by kind of request, since the start.
    """

    services: int = 0
    looks: int = 0
    plans: int = 0
    errors: int = 0
    queue: int = 0
    writes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Scrape:
        """Reads a page in Prometheus' text format."""
        sums: dict[str, int] = {}
        writes: dict[str, int] = {}
        services = 0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                services += sample.name == PER_SERVICE
                sums[sample.name] = sums.get(sample.name, 0) + int(sample.value)
                if sample.name == "hetserve_operator_writes_total" and sample.labels["result"] == "ok":
                    kind = sample.labels["kind"]
                    writes[kind] = writes.get(kind, 0) + int(sample.value)
        return cls(
            services,
            sums.get("hetserve_operator_reconcile_seconds_count", 0),
            sums.get("hetserve_plans_total", 0),
            sums.get("hetserve_operator_errors_total", 0),
            sums.get("hetserve_operator_queue_length", 0),
            writes,
        )

    @property
    def activity(self) -> tuple[int, int]:
        """Plans and writes so far: while they do not change, the operator changes nothing."""
        return self.plans, sum(self.writes.values())

    def writes_since(self, earlier: Scrape) -> dict[str, int]:
        """Writes by kind since an earlier reading, without zeros."""
        more = {kind: count - earlier.writes.get(kind, 0) for kind, count in self.writes.items()}
        return {kind: count for kind, count in sorted(more.items()) if count}
