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
        "The newest samples are valid, no older than `staleAfter`, and cover enough of the window. The "
        "message says where they decide nothing: MinCost without `spec.scaling`; MaxThroughput without batch "
        "sizes, or with a planner that tries no plan.",
        "If the message names a field, set it.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.METRICS_STALE,
        "The newest measured rate is older than `staleAfter`.",
        "Check that Prometheus scrapes the target (`up`). A `staleAfter` below two scrape intervals is too short.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.METRICS_MISSING,
        "Prometheus answers, but has no rate of this service: no sample, or too few to cover "
        "`spec.metrics.window`. This is not a load of zero.",
        "Let Prometheus scrape the serving metrics; docs/metrics.md has names and labels. With source Queries, "
        "run `spec.metrics.queries.rate` in Prometheus.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.METRICS_INVALID,
        "The measured value is NaN, infinite or negative, or the series exists twice. The message has the value.",
        "Correct the named exporter or query.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.PROMETHEUS_NOT_CONFIGURED,
        "This installation has no Prometheus to ask.",
        "Set the chart value `metrics.prometheus.url`.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.PROMETHEUS_UNREACHABLE,
        "Prometheus does not answer in time, or answers with an error or an incomplete body; the message quotes it.",
        "Check Prometheus, the network, and `metrics.prometheus` in the chart values: URL, CA, token and timeout.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.QUERY_REFUSED,
        "A query of the service is not valid PromQL, returns too many series or samples, or lacks a label. "
        "Other services are not affected.",
        "Correct the named field of `spec.metrics.queries`. With source Hetserve, export fewer series.",
    ),
    ReasonDoc(
        _METRICS,
        "False",
        Reason.QUERIES_NOT_ALLOWED,
        "`spec.metrics.source` is Queries, and this installation does not run tenants' queries.",
        "Use source Hetserve, or let the administrator set the chart value `metrics.allowQueries`.",
    ),
    ReasonDoc(
        _ACTIVE,
        "True",
        Reason.SCALING,
        "The number of instances follows the measured load. If queries are late, the message says until when "
        "they do not count: they may have arrived before all planned instances served. If late queries added "
        "instances, it says until when none is removed.",
        "-",
    ),
    ReasonDoc(
        _ACTIVE,
        "True",
        Reason.PAUSED,
        "`spec.pause` holds back changes in the named direction; the other direction goes on.",
        "Set spec.pause to None to go on.",
    ),
    ReasonDoc(
        _ACTIVE,
        "False",
        Reason.PAUSED,
        "`spec.pause` is All: no instance is added or removed for the load. A lower budget is still obeyed.",
        "Set spec.pause to None to go on.",
    ),
    ReasonDoc(
        _ACTIVE,
        "False",
        Reason.ADVISING,
        "`spec.mode` is Advise: `status.advice` has the change that Apply would make.",
        "Set spec.mode to Apply when you agree with the advice.",
    ),
    ReasonDoc(
        _ACTIVE,
        "False",
        Reason.WAITING_FOR_METRICS,
        "The load is unknown. The instances stay, or are those for `spec.load.expectedQPS`.",
        "See MetricsAvailable.",
    ),
    ReasonDoc(
        _ACTIVE,
        "False",
        Reason.FOREIGN_SCALER,
        "The named HorizontalPodAutoscaler (KEDA makes one too) changes the replicas of the service's "
        "Deployments. The operator undoes its changes. This also applies without `spec.scaling`.",
        "Delete that scaler, or set spec.mode to Advise.",
    ),
    ReasonDoc(_ACTIVE, "Unknown", Reason.NOT_PLANNED, "There is no plan to scale from.", "See Planned."),
    ReasonDoc(_LIMITED, "False", Reason.NOT_LIMITED, "The instances are those that the load needs.", "-"),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.BUDGET_LIMITS,
        "The load needs more than spec.budget pays. The most that it pays for is planned.",
        "Raise spec.budget.hourly to the named amount.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.CAPACITY_LIMITS,
        "The load needs more than nodes and maxInstances of the types allow. The most that fits is planned.",
        "Add nodes, raise the InstanceTypes' maxInstances, or offer more types.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.MAX_INSTANCES_REACHED,
        "The load needs more than `spec.scaling.maxInstances`.",
        "Raise spec.scaling.maxInstances.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.MIN_INSTANCES_REACHED,
        "The load needs less than `spec.scaling.minInstances`. One instance always stays.",
        "Lower spec.scaling.minInstances to save money.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.STEP_POLICY_LIMITS,
        "The policies of scaleUp or scaleDown allow only a part of the change now. The rest follows.",
        "Wait, or allow larger steps.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.TYPE_SCARCE,
        "An instance of the named type found no place within its launch time, and the other types cannot "
        "carry the load. The most that they carry is planned. The type is tried again after three minutes.",
        "Wait, or add capacity of that type.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.LOAD_BEYOND_REACH,
        "No configuration of the offered types carries the load within the SLO, at any cost. The one that "
        "carries the most is planned.",
        "Offer faster types, or loosen spec.slo.",
    ),
    ReasonDoc(
        _LIMITED,
        "True",
        Reason.PAUSED,
        "The load needs other instances, and `spec.pause` holds the change back.",
        "Set spec.pause to None to go on.",
    ),
    ReasonDoc(
        _LIMITED,
        "Unknown",
        Reason.WAITING_FOR_METRICS,
        "The load has not been known for a whole window since the service started to follow it.",
        "See MetricsAvailable.",
    ),
    ReasonDoc(_LIMITED, "Unknown", Reason.NOT_PLANNED, "There is no plan to judge.", "See Planned."),
)
