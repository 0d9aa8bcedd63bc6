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
    decisions: changes of plan for the load; polls: of Prometheus; look_seconds, poll_seconds: of all of them together.
    planning: problems that wait for a planner process; answers: problems that one has worked out.
    """

    services: int = 0
    looks: int = 0
    plans: int = 0
    errors: int = 0
    queue: int = 0
    writes: dict[str, int] = field(default_factory=dict)
    decisions: int = 0
    polls: int = 0
    look_seconds: float = 0.0
    poll_seconds: float = 0.0
    planning: int = 0
    answers: int = 0

    @classmethod
    def of(cls, text: str) -> Scrape:
        """Reads a page in Prometheus' text format."""
        sums: dict[str, float] = {}
        writes: dict[str, int] = {}
        services = 0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                services += sample.name == PER_SERVICE
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
                if sample.name == "hetserve_operator_writes_total" and sample.labels["result"] == "ok":
                    kind = sample.labels["kind"]
                    writes[kind] = writes.get(kind, 0) + int(sample.value)
        counted = {name: int(value) for name, value in sums.items()}
        return cls(
            services,
            counted.get("hetserve_operator_reconcile_seconds_count", 0),
            counted.get("hetserve_plans_total", 0),
            counted.get("hetserve_operator_errors_total", 0),
            counted.get("hetserve_operator_queue_length", 0),
            writes,
            counted.get("hetserve_scaling_decisions_total", 0),
            counted.get("hetserve_operator_demand_poll_seconds_count", 0),
            sums.get("hetserve_operator_reconcile_seconds_sum", 0.0),
            sums.get("hetserve_operator_demand_poll_seconds_sum", 0.0),
            counted.get("hetserve_operator_planning_queue_length", 0),
            counted.get("hetserve_operator_planning_seconds_count", 0),
        )

    @property
    def activity(self) -> tuple[int, int]:
        """Plans and writes so far: while they do not change, the operator changes nothing."""
        return self.plans, sum(self.writes.values())

    def writes_since(self, earlier: Scrape) -> dict[str, int]:
        """Writes by kind since an earlier reading, without zeros."""
        more = {kind: count - earlier.writes.get(kind, 0) for kind, count in self.writes.items()}
        return {kind: count for kind, count in sorted(more.items()) if count}
