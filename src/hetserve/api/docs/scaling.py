"""What the reasons of MetricsAvailable, ScalingActive and ScalingLimited mean and what to do."""

from __future__ import annotations

from typing import Final

from hetserve.api.conditions import ConditionType, Reason, ReasonDoc

_METRICS, _ACTIVE, _LIMITED = (
    ConditionType.METRICS_AVAILABLE,
    ConditionType.SCALING_ACTIVE,
    ConditionType.SCALING_LIMITED,
)

SCALING_DOCS: Final[tuple[ReasonDoc, ...]] = (
    ReasonDoc(
        _METRICS,
        "True",
        Reason.METRICS_FRESH,
        "The newest samples are valid, no older than `staleAfter`, and cover enough of the window. The message says "
        "where they decide nothing all the same: MinCost without `spec.scaling`; MaxThroughput without batch sizes, or "
        "with a planner that tries no plan.",
        "Where it says so, set the field that it names.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.METRICS_STALE,
        "A rate was measured, and the newest is older than `staleAfter`. Nothing shrinks.",
        "Look whether Prometheus still scrapes the target: its page of targets, or `up`. A `staleAfter` below two "
        "intervals of scrapes is too short.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.METRICS_MISSING,
        "Prometheus answers, and has no rate of this service: no sample, or too few to cover `spec.metrics.window`. "
        "That is not taken for a load of zero: nothing shrinks.",
        "Let Prometheus scrape whoever serves; docs/metrics.md has the names and labels that are looked for. For "
        "queries, run `spec.metrics.queries.rate` in Prometheus.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.METRICS_INVALID,
        "What is measured is no demand: NaN, infinite, negative, or the same series twice. The message has the value. "
        "Nothing shrinks.",
        "Correct the exporter or the query that the message names.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.PROMETHEUS_NOT_CONFIGURED,
        "This installation of hetserve has no Prometheus to ask. Nothing shrinks.",
        "Set the chart value `metrics.prometheus.url`.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.PROMETHEUS_UNREACHABLE,
        "Prometheus does not answer in time, or answers with an error or half a body; the message has its words. "
        "Nothing shrinks.",
        "Look at Prometheus, at the network between, and at `metrics.prometheus` in the chart values: URL, CA, token "
        "and timeout.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.QUERY_REFUSED,
        "A query of the service is not valid PromQL, answers with several series where one is wanted, lacks a label, "
        "or asks for more than Prometheus or the operator reads; the message names it. Nothing shrinks, others go on.",
        "Correct the field of `spec.metrics.queries` that the message names; with source Hetserve, have its exporter "
        "export fewer series.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.QUERIES_NOT_ALLOWED,
        "`spec.metrics.source` is Queries, and this installation runs no queries of tenants. Nothing shrinks.",
        "Use source Hetserve, or let the administrator set the chart value `metrics.allowQueries`.",
    ),
    ReasonDoc(
        _ACTIVE,
        "True",
        Reason.SCALING,
        "The number of instances follows the measured load. Where queries are late, the message says until when they "
        "do not count: they may have come before all that is planned served. Where they have brought instances, it "
        "says until when none goes.",
        "-",
    ),
    ReasonDoc(
        _ACTIVE,
        "True",
        Reason.PAUSED,
        "`spec.pause` holds back changes in the direction that the message names; the other one goes on.",
        "Set spec.pause to None when the reason for the pause is gone.",
    ),
    ReasonDoc(
        _ACTIVE,
        "False",
        Reason.PAUSED,
        "`spec.pause` is All: no instance is added or removed for the load. A lower budget is still obeyed.",
        "Set spec.pause to None when the reason for the pause is gone.",
    ),
    ReasonDoc(
        _ACTIVE,
        "False",
        Reason.ADVISING,
        "`spec.mode` is Advise: `status.advice` says what would be done, and nothing is changed.",
        "Set spec.mode to Apply when you agree with the advice.",
    ),
    ReasonDoc(
        _ACTIVE,
        "False",
        Reason.WAITING_FOR_METRICS,
        "The load is not known, so what runs stays, or what `spec.load.expectedQPS` asks for. See MetricsAvailable.",
        "See MetricsAvailable.",
    ),
    ReasonDoc(
        _ACTIVE,
        "False",
        Reason.FOREIGN_SCALER,
        "A HorizontalPodAutoscaler, which the message names, changes the replicas of the service's Deployments; KEDA "
        "makes one too. Its changes are undone. Said of services without `spec.scaling` as well.",
        "Delete that scaler, or set spec.mode to Advise.",
    ),
    ReasonDoc(_ACTIVE, "Unknown", Reason.NOT_PLANNED, "There is no plan to scale from.", "See Planned."),
    ReasonDoc(_LIMITED, "False", Reason.NOT_LIMITED, "The instances are as the load asks for.", "-"),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.BUDGET_LIMITS,
        "The load asks for more than spec.budget pays; the most that it pays for is planned.",
        "Raise spec.budget.hourly to what the message names.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.CAPACITY_LIMITS,
        "The load asks for more than the nodes and the types' maxInstances leave room for; the most that fits is "
        "planned. The message has both loads.",
        "Add nodes, raise the InstanceTypes' maxInstances, or offer more types.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.MAX_INSTANCES_REACHED,
        "The load asks for more than `spec.scaling.maxInstances`.",
        "Raise spec.scaling.maxInstances.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.MIN_INSTANCES_REACHED,
        "The load asks for less than `spec.scaling.minInstances`, which keeps what runs; one instance always stays.",
        "Lower spec.scaling.minInstances to save money.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.STEP_POLICY_LIMITS,
        "The policies of scaleUp or scaleDown allow only a part of the change now; the rest follows.",
        "Wait, or allow larger steps.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.TYPE_SCARCE,
        "An instance of the type that the message names found no place within its launch time, and without more of "
        "that type the load cannot be carried; the most that the others carry is planned. After three minutes the type "
        "is tried again. Where the next best type carries the load, nothing limits.",
        "Wait, or add capacity of that type.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.LOAD_BEYOND_REACH,
        "No configuration of the types on offer carries the load within the SLO, whatever it costs and however many "
        "instances there are; the one that carries the most is planned.",
        "Offer faster types, or loosen spec.slo.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.PAUSED,
        "The load asks for other instances, and `spec.pause` holds the change back; the message says which.",
        "Set spec.pause to None when the reason for the pause is gone.",
    ),
    ReasonDoc(
        _LIMITED,
        "Unknown",
        Reason.WAITING_FOR_METRICS,
        "The load is not known throughout the windows, and never was since the service follows it.",
        "See MetricsAvailable.",
    ),
    ReasonDoc(_LIMITED, "Unknown", Reason.NOT_PLANNED, "There is no plan to judge.", "See Planned."),
)
