"""What each reason of a condition means and what to do; source of docs/conditions.md."""

from __future__ import annotations

from hetserve.api.conditions import ConditionType, Reason, ReasonDoc
from hetserve.api.docs.scaling import SCALING_DOCS

DOCS: tuple[ReasonDoc, ...] = (
    ReasonDoc(
        ConditionType.PLANNED,
        "True",
        Reason.PLAN_COMPUTED,
        "A plan of this generation is there. `status.plan.tried` says whether a simulation has tried it; "
        "`status.plan.provisional`, that the tried one is still being worked out. The message names a better "
        "plan that gains less than 5 %.",
        "-",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.SPEC_INVALID,
        "The stored spec, or an InstanceType or ModelProfile it uses, breaks a rule.",
        "Correct the field that the message names.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.INSTANCE_TYPE_NOT_FOUND,
        "spec.instanceTypes names a type that does not exist.",
        "Create the InstanceType or correct the name.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.NO_INSTANCE_TYPES,
        "No instance type matches the selector, or none has a profile of this model.",
        "Label the InstanceTypes, or create ModelProfiles in the service's namespace.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.PROFILE_MISSING,
        "A named type has no ModelProfile of this model in the service's namespace.",
        "Create the ModelProfile, or remove the type from spec.instanceTypes.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.PROFILE_CONFLICT,
        "Two ModelProfiles are of the same model and type, so none is used.",
        "Delete one of the two.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.LOAD_UNKNOWN,
        "MinCost has no load to plan for: none is declared, and none has been measured yet.",
        "Set spec.load.expectedQPS; with spec.scaling, see MetricsAvailable.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.COMPUTE_NOT_BOOKED,
        "The plan would share GPUs, but the leading extender does not say on its Lease that it books compute, "
        "for example during an upgrade.",
        "Wait for the new extender, or upgrade it. `kubectl get lease hetserve-scheduler -n hetserve-system -o "
        "yaml` shows the annotation hetserve.io/books-compute.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "True",
        Reason.PLANNER_FAILED,
        "The recorded plan is followed. The planner of a better one failed, its process ended, or the checker "
        "refused its plan. It is retried after five minutes, or when the service, its types or profiles "
        "change.",
        "If the process was ended by SIGKILL, give the operator more memory. Else report the message: it is a bug.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.PLANNER_FAILED,
        "The same, but no recorded plan of these inputs fits the cluster.",
        "As above.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "True",
        Reason.PLANNER_TIMED_OUT,
        "The recorded plan is followed. The planner of a better one was stopped at its deadline. It is "
        "retried as above.",
        "Raise `operator.plannerDeadline`, or offer fewer instance types.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.PLANNER_TIMED_OUT,
        "The same, but no recorded plan of these inputs fits the cluster.",
        "Raise `operator.plannerDeadline`, offer fewer instance types, or set their maxInstances.",
    ),
    ReasonDoc(ConditionType.FEASIBLE, "True", Reason.PLAN_FEASIBLE, "The plan keeps the SLO within the budget.", "-"),
    ReasonDoc(
        ConditionType.FEASIBLE,
        "False",
        Reason.NO_TYPE_MEETS_SLO,
        "No type serves every batch of the mix within the SLO.",
        "Loosen spec.slo.latency, or offer a faster type.",
    ),
    ReasonDoc(
        ConditionType.FEASIBLE,
        "False",
        Reason.BUDGET_TOO_LOW,
        "The budget buys no configuration that keeps the SLO (under MinCost: carries the load). Instances end "
        "until the rest fits the budget; with `spec.budget.whenTooLow: Keep` all stay.",
        "Raise spec.budget.hourly to the named amount, or delete the service to stop the cost.",
    ),
    ReasonDoc(
        ConditionType.FEASIBLE,
        "False",
        Reason.CAPACITY_TOO_LOW,
        "Even all instances that the cluster and the limits allow would not carry the load.",
        "Add nodes, raise maxInstances, or lower the load.",
    ),
    ReasonDoc(ConditionType.FEASIBLE, "Unknown", Reason.NOT_PLANNED, "There is no plan to judge.", "See Planned."),
    ReasonDoc(ConditionType.WITHIN_BUDGET, "True", Reason.WITHIN_BUDGET, "The pods cost no more than the budget.", "-"),
    ReasonDoc(ConditionType.WITHIN_BUDGET, "True", Reason.NO_BUDGET, "The service has no budget.", "-"),
    ReasonDoc(
        ConditionType.WITHIN_BUDGET,
        "False",
        Reason.OVER_BUDGET,
        "The pods cost more than the budget, for example after it was lowered. Terminating pods count until "
        "they are gone.",
        "Raise the budget, or wait until the pods beyond it are gone. With `spec.budget.whenTooLow: Keep` they stay.",
    ),
    ReasonDoc(
        ConditionType.WITHIN_BUDGET,
        "Unknown",
        Reason.NOT_PLANNED,
        "The budget cannot be read, or the price of a pod is unknown.",
        "See Planned, or restore the named InstanceType.",
    ),
    ReasonDoc(
        ConditionType.PROFILE_READY, "True", Reason.PROFILES_FOUND, "Every type in use has one valid profile.", "-"
    ),
    ReasonDoc(
        ConditionType.PROFILE_READY,
        "False",
        Reason.PROFILE_MISSING,
        "A type in use has no ModelProfile of this model.",
        "Create it in the service's namespace.",
    ),
    ReasonDoc(
        ConditionType.PROFILE_READY,
        "False",
        Reason.PROFILE_CONFLICT,
        "Two ModelProfiles are of the same model and type.",
        "Delete one of them.",
    ),
    ReasonDoc(
        ConditionType.PROFILE_READY, "Unknown", Reason.NOT_PLANNED, "The profiles were not checked.", "See Planned."
    ),
    ReasonDoc(
        ConditionType.CAPACITY_AVAILABLE, "True", Reason.ALL_INSTANCES_PLACED, "Every instance is on a node.", "-"
    ),
    ReasonDoc(
        ConditionType.CAPACITY_AVAILABLE,
        "False",
        Reason.WAITING_FOR_CAPACITY,
        "The scheduler refused an instance; the message quotes it.",
        "Free or add capacity of the named type.",
    ),
    ReasonDoc(
        ConditionType.CAPACITY_AVAILABLE,
        "False",
        Reason.INSTANCES_REFUSED,
        "Pods of a Deployment cannot be created; the message quotes its ReplicaFailure.",
        "Create the ServiceAccount, raise the quota, or correct spec.template for the namespace's pod security.",
    ),
    ReasonDoc(
        ConditionType.CAPACITY_AVAILABLE,
        "Unknown",
        Reason.INSTANCES_PENDING,
        "Instances wait in the queue or for the scheduler.",
        "Wait.",
    ),
    ReasonDoc(
        ConditionType.CAPACITY_AVAILABLE, "Unknown", Reason.NOT_PLANNED, "There is no plan to place.", "See Planned."
    ),
    ReasonDoc(ConditionType.PROGRESSING, "True", Reason.ROLLING_OUT, "Deployments are changing to the plan.", "Wait."),
    ReasonDoc(ConditionType.PROGRESSING, "False", Reason.ROLLED_OUT, "Every Deployment is as planned.", "-"),
    ReasonDoc(
        ConditionType.PROGRESSING,
        "False",
        Reason.ADVISING,
        "`spec.mode` is Advise: nothing is rolled out.",
        "Set spec.mode to Apply when you agree with status.advice.",
    ),
    ReasonDoc(
        ConditionType.PROGRESSING,
        "False",
        Reason.TEMPLATE_INVALID,
        "The pod template was refused; the message quotes the API server.",
        "Correct spec.template.",
    ),
    ReasonDoc(
        ConditionType.PROGRESSING,
        "False",
        Reason.WRITE_REFUSED,
        "A Deployment could not be written: a right is missing, or another controller owns it.",
        "Grant the named right, or remove the other Deployment.",
    ),
    ReasonDoc(
        ConditionType.PROGRESSING,
        "False",
        Reason.NOT_PLANNED,
        "There is no feasible plan to roll out.",
        "See Feasible.",
    ),
    ReasonDoc(
        ConditionType.PODS_OWNED,
        "True",
        Reason.ONLY_OWN_PODS,
        "Every pod with the service's label belongs to one of its Deployments.",
        "-",
    ),
    ReasonDoc(
        ConditionType.PODS_OWNED,
        "False",
        Reason.STRANGER_PODS,
        "Pods carry the service's label but belong to another owner. They do not count.",
        "Remove the label hetserve.io/service from them, or delete them.",
    ),
    ReasonDoc(
        ConditionType.SHARING_KEPT,
        "True",
        Reason.WITHIN_BOOKINGS,
        "No instance that books compute, or has a whole GPU, shares it with more than the bookings allow.",
        "-",
    ),
    ReasonDoc(
        ConditionType.SHARING_KEPT,
        "False",
        Reason.UNDECLARED_NEIGHBOUR,
        "Pods without declared compute share the named GPU with an instance. Nothing bounds the slow-down "
        "there, so the SLO is not promised.",
        "Measure the profile of their model, so that they declare compute, or delete the named pods.",
    ),
    ReasonDoc(
        ConditionType.SHARING_KEPT,
        "False",
        Reason.OVER_BOOKED,
        "The pods on the named GPU book more than 100 % of its compute. Until one is gone the SLO is not promised.",
        "Delete one of them (`hetserve gpus` shows them); it is placed again.",
    ),
    ReasonDoc(
        ConditionType.SHARING_UNMEASURED,
        "False",
        Reason.SHARING_MEASURED,
        "Every instance books compute, has a whole GPU, or runs on a CPU type.",
        "-",
    ),
    ReasonDoc(
        ConditionType.SHARING_UNMEASURED,
        "True",
        Reason.INSTANCES_UNDECLARED,
        "Instances share GPUs without declared compute, because the named ModelProfiles have no computeShare. "
        "Their templates stay; nothing bounds how much they and their neighbours slow each other down.",
        "Measure the profiles: docs/how-to-measure-sharing.md.",
    ),
    ReasonDoc(
        ConditionType.SHARING_UNMEASURED,
        "True",
        Reason.BOOKINGS_KEPT,
        "Instances book compute by a measurement that the named ModelProfiles no longer have. Their templates "
        "and bookings stay.",
        "Put computeShare back into the profiles, or measure them: docs/how-to-measure-sharing.md.",
    ),
    ReasonDoc(
        ConditionType.SHARING_UNMEASURED,
        "True",
        Reason.PLANNED_EXCLUSIVE,
        "Instances that could share have a whole GPU each, because the named ModelProfiles have no computeShare.",
        "Measure the profiles: docs/how-to-measure-sharing.md; or set spec.sharing to Exclusive.",
    ),
    ReasonDoc(
        ConditionType.SHARING_UNMEASURED, "Unknown", Reason.NOT_PLANNED, "There is no plan to judge.", "See Planned."
    ),
    ReasonDoc(
        ConditionType.READY,
        "True",
        Reason.ALL_INSTANCES_READY,
        "The plan is applied and all its instances are ready.",
        "-",
    ),
    ReasonDoc(
        ConditionType.READY,
        "True",
        Reason.LOAD_CARRIED,
        "With spec.scaling: the ready instances carry the measured load, while others still come or go.",
        "-",
    ),
    ReasonDoc(
        ConditionType.READY,
        "False",
        Reason.LOAD_NOT_CARRIED,
        "With spec.scaling: the ready instances hold less than the measured load, even if all planned ones "
        "are ready. The message has both rates as they were at first.",
        "See Reconciling or Stalled, and ScalingLimited.",
    ),
    ReasonDoc(
        ConditionType.READY,
        "False",
        Reason.INSTANCES_NOT_READY,
        "Some instances of the plan are not ready yet.",
        "See Reconciling.",
    ),
    ReasonDoc(
        ConditionType.RECONCILING,
        "True",
        Reason.WAITING_FOR_CAPACITY,
        "The scheduler refused an instance; see CapacityAvailable.",
        "Free or add capacity of the named type.",
    ),
    ReasonDoc(
        ConditionType.RECONCILING,
        "True",
        Reason.INSTANCES_REFUSED,
        "Pods cannot be created. The Deployment retries.",
        "See CapacityAvailable.",
    ),
    ReasonDoc(ConditionType.RECONCILING, "True", Reason.ROLLING_OUT, "Deployments are changing to the plan.", "Wait."),
    ReasonDoc(ConditionType.RECONCILING, "True", Reason.INSTANCES_PENDING, "Instances have no node yet.", "Wait."),
    ReasonDoc(
        ConditionType.RECONCILING,
        "True",
        Reason.INSTANCES_NOT_READY,
        "Every instance is on a node, and some do not serve yet.",
        "Wait, or see the pods.",
    ),
    ReasonDoc(
        ConditionType.RECONCILING,
        "True",
        Reason.LOAD_NOT_CARRIED,
        "The ready instances hold less than the load, and every planned one is on a node. More are planned "
        "when this lasts for a window, as far as step policies allow.",
        "Wait; ScalingLimited says what limits the next step.",
    ),
    *SCALING_DOCS,
)
"""The reasons of Stalled are those of its causes; see `hetserve.reconcile.status.build`."""
