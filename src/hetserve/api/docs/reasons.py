"""What each reason of a condition means and what to do; source of docs/conditions.md."""

from __future__ import annotations

from hetserve.api.conditions import ConditionType, Reason, ReasonDoc
from hetserve.api.docs.scaling import SCALING_DOCS

DOCS: tuple[ReasonDoc, ...] = (
    ReasonDoc(
        ConditionType.PLANNED,
        "True",
        Reason.PLAN_COMPUTED,
        "A plan was computed for this generation; `status.plan.tried` says whether a simulation has tried it. The "
        "message names a better one that gains less than 5 %.",
        "-",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.SPEC_INVALID,
        "The stored spec, or an InstanceType or ModelProfile it uses, breaks a rule; what runs stays.",
        "Correct the field that the message names.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.INSTANCE_TYPE_NOT_FOUND,
        "spec.instanceTypes names a type that does not exist; what runs stays.",
        "Create the InstanceType or correct the name.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.NO_INSTANCE_TYPES,
        "No instance type matches the selector, or none has a profile of this model; what runs stays.",
        "Label the InstanceTypes, or create ModelProfiles in the service's namespace.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.PROFILE_MISSING,
        "A type that the service names has no ModelProfile of this model in its namespace; what runs stays.",
        "Create the ModelProfile, or take the type out of spec.instanceTypes.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.PROFILE_CONFLICT,
        "Two ModelProfiles speak of the same model and type, so none is used; what runs stays.",
        "Delete one of the two that the message names.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.LOAD_UNKNOWN,
        "MinCost has no load to plan for: none is given, and, with spec.scaling, none has been measured yet; what runs "
        "stays.",
        "Set spec.load.expectedQPS; with spec.scaling, see MetricsAvailable.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.COMPUTE_NOT_BOOKED,
        "The plan would share GPUs, and the extender that leads does not say on its Lease that it books compute, for "
        "example while an upgrade is under way; what runs stays.",
        "Wait for the new extender, or upgrade it. `kubectl get lease hetserve-scheduler -n hetserve-system -o yaml` "
        "shows the annotation hetserve.io/books-compute.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "True",
        Reason.PLANNER_FAILED,
        "The recorded plan is followed. The planner that looked for a better one failed, its process ended, or the "
        "independent checker refused its plan. It is tried again after five minutes, or when the service, its types "
        "or profiles change.",
        "If a process was ended by SIGKILL, give the operator more memory. Else report the message: this is a defect "
        "of hetserve.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.PLANNER_FAILED,
        "The planner failed, its process ended, or the independent checker refused its plan, and no recorded plan of "
        "these inputs fits the cluster; what runs stays. It is tried again as above.",
        "As above.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "True",
        Reason.PLANNER_TIMED_OUT,
        "The recorded plan is followed. The planner that looked for a better one was stopped at its deadline. It is "
        "tried again after five minutes, or when the service, its types or profiles change.",
        "Raise `operator.plannerDeadline`, or offer fewer instance types.",
    ),
    ReasonDoc(
        ConditionType.PLANNED,
        "False",
        Reason.PLANNER_TIMED_OUT,
        "The planner was stopped at its deadline, and no recorded plan of these inputs fits the cluster; what runs "
        "stays. It is tried again as above.",
        "Raise `operator.plannerDeadline`, offer fewer instance types, or set their maxInstances.",
    ),
    ReasonDoc(ConditionType.FEASIBLE, "True", Reason.PLAN_FEASIBLE, "The plan keeps the SLO within the budget.", "-"),
    ReasonDoc(
        ConditionType.FEASIBLE,
        "False",
        Reason.NO_TYPE_MEETS_SLO,
        "No type serves every batch of the mix within the SLO; what runs stays.",
        "Loosen spec.slo.latency, or offer a faster type.",
    ),
    ReasonDoc(
        ConditionType.FEASIBLE,
        "False",
        Reason.BUDGET_TOO_LOW,
        "The budget buys no configuration that keeps the SLO (or, under MinCost, carries the load). Of what runs, "
        "what fits the budget and carries most stays; with `spec.budget.whenTooLow: Keep` all of it stays.",
        "Raise spec.budget.hourly to at least what the message names, or delete the service to stop the cost.",
    ),
    ReasonDoc(
        ConditionType.FEASIBLE,
        "False",
        Reason.CAPACITY_TOO_LOW,
        "Even with every instance that the cluster and the limits allow, the load is not carried; what runs stays.",
        "Add nodes, raise maxInstances, or lower the load.",
    ),
    ReasonDoc(ConditionType.FEASIBLE, "Unknown", Reason.NOT_PLANNED, "There is no plan to judge.", "See Planned."),
    ReasonDoc(
        ConditionType.WITHIN_BUDGET, "True", Reason.WITHIN_BUDGET, "What runs costs no more than the budget.", "-"
    ),
    ReasonDoc(ConditionType.WITHIN_BUDGET, "True", Reason.NO_BUDGET, "The service has no budget.", "-"),
    ReasonDoc(
        ConditionType.WITHIN_BUDGET,
        "False",
        Reason.OVER_BUDGET,
        "What runs costs more than the budget, for example after the budget was lowered. Pods that terminate count "
        "until they are gone.",
        "Raise the budget, or wait until the instances beyond it are gone; with `spec.budget.whenTooLow: Keep` they "
        "stay.",
    ),
    ReasonDoc(
        ConditionType.WITHIN_BUDGET,
        "Unknown",
        Reason.NOT_PLANNED,
        "The budget cannot be read, or the price of something that runs is not known.",
        "See Planned, or restore the InstanceType that the message names.",
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
        "Two ModelProfiles speak of the same model and type.",
        "Delete one of them.",
    ),
    ReasonDoc(ConditionType.PROFILE_READY, "Unknown", Reason.NOT_PLANNED, "Profiles were not judged.", "See Planned."),
    ReasonDoc(
        ConditionType.CAPACITY_AVAILABLE, "True", Reason.ALL_INSTANCES_PLACED, "Every instance is on a node.", "-"
    ),
    ReasonDoc(
        ConditionType.CAPACITY_AVAILABLE,
        "False",
        Reason.WAITING_FOR_CAPACITY,
        "The scheduler refused an instance; the message carries its words.",
        "Free or add capacity of the type named.",
    ),
    ReasonDoc(
        ConditionType.CAPACITY_AVAILABLE,
        "False",
        Reason.INSTANCES_REFUSED,
        "Pods of a Deployment cannot be created; the message carries the words of its ReplicaFailure.",
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
    ReasonDoc(
        ConditionType.PROGRESSING, "True", Reason.ROLLING_OUT, "Deployments are being brought to the plan.", "Wait."
    ),
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
        "The pod template was refused; the message carries the apiserver's words.",
        "Correct spec.template.",
    ),
    ReasonDoc(
        ConditionType.PROGRESSING,
        "False",
        Reason.WRITE_REFUSED,
        "A Deployment could not be written: a right is missing, or another controller owns it.",
        "Grant the right that the message names, or remove the other Deployment.",
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
        "Pods carry the service's label and belong to somebody else. They count for nothing.",
        "Take the label hetserve.io/service off them, or delete them.",
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
        "Beside an instance, on the GPU that the message names, are pods that declare no compute: they were bound "
        "before compute was booked. Until they are gone nothing bounds the slow-down there, and the SLO is not "
        "promised.",
        "Measure the profile of their model, so that they declare compute, or delete the pods that the message names.",
    ),
    ReasonDoc(
        ConditionType.SHARING_KEPT,
        "False",
        Reason.OVER_BOOKED,
        "The pods on the GPU that the message names book more than 100 % of its compute, for example since an older "
        "extender bound one of them. Until one is gone the SLO is not promised.",
        "Delete one of the pods on that GPU (`hetserve gpus` shows them); it is placed anew.",
    ),
    ReasonDoc(
        ConditionType.SHARING_UNMEASURED,
        "False",
        Reason.SHARING_MEASURED,
        "No instance waits for a measurement: each books compute, or needs no share: it has a whole GPU, or runs on a "
        "CPU type.",
        "-",
    ),
    ReasonDoc(
        ConditionType.SHARING_UNMEASURED,
        "True",
        Reason.INSTANCES_UNDECLARED,
        "Instances share GPUs and declare no compute, as before it was booked, because the ModelProfiles that the "
        "message names have no computeShare. Their templates stay as they are; how much they and their neighbours "
        "slow each other down is not bounded.",
        "Measure the profiles: docs/how-to-measure-sharing.md.",
    ),
    ReasonDoc(
        ConditionType.SHARING_UNMEASURED,
        "True",
        Reason.BOOKINGS_KEPT,
        "Instances book compute by a measurement that the ModelProfiles that the message names have lost. Their "
        "templates and bookings stay as they are.",
        "Put computeShare back into the profiles, or measure them: docs/how-to-measure-sharing.md.",
    ),
    ReasonDoc(
        ConditionType.SHARING_UNMEASURED,
        "True",
        Reason.PLANNED_EXCLUSIVE,
        "Instances that could share have a whole GPU each, because the ModelProfiles that the message names have no "
        "computeShare.",
        "Measure the profiles: docs/how-to-measure-sharing.md; or set spec.sharing to Exclusive.",
    ),
    ReasonDoc(
        ConditionType.SHARING_UNMEASURED, "Unknown", Reason.NOT_PLANNED, "There is no plan to judge.", "See Planned."
    ),
    ReasonDoc(
        ConditionType.READY,
        "True",
        Reason.ALL_INSTANCES_READY,
        "The feasible plan of this generation is applied and all its instances are ready.",
        "-",
    ),
    ReasonDoc(
        ConditionType.READY,
        "True",
        Reason.LOAD_CARRIED,
        "With spec.scaling: the instances that are ready carry the measured load, while others still come or go.",
        "-",
    ),
    ReasonDoc(
        ConditionType.READY,
        "False",
        Reason.LOAD_NOT_CARRIED,
        "With spec.scaling: the instances that are ready hold less than the measured load, though all that are planned "
        "may be ready. The message has both rates as they were when it was first so.",
        "See Reconciling or Stalled, and ScalingLimited.",
    ),
    ReasonDoc(
        ConditionType.READY,
        "False",
        Reason.INSTANCES_NOT_READY,
        "The plan is applied or being applied, and some instances are not ready yet.",
        "See Reconciling.",
    ),
    ReasonDoc(
        ConditionType.RECONCILING,
        "True",
        Reason.WAITING_FOR_CAPACITY,
        "The scheduler refused an instance; the message is that of CapacityAvailable.",
        "Free or add capacity of the type named.",
    ),
    ReasonDoc(
        ConditionType.RECONCILING,
        "True",
        Reason.INSTANCES_REFUSED,
        "Pods cannot be created; the message is that of CapacityAvailable. The Deployment goes on trying.",
        "See CapacityAvailable.",
    ),
    ReasonDoc(
        ConditionType.RECONCILING, "True", Reason.ROLLING_OUT, "Deployments are being brought to the plan.", "Wait."
    ),
    ReasonDoc(ConditionType.RECONCILING, "True", Reason.INSTANCES_PENDING, "Instances have no node yet.", "Wait."),
    ReasonDoc(
        ConditionType.RECONCILING,
        "True",
        Reason.INSTANCES_NOT_READY,
        "Every instance is on a node, and some do not serve yet.",
        "Wait, or look at the pods.",
    ),
    ReasonDoc(
        ConditionType.RECONCILING,
        "True",
        Reason.LOAD_NOT_CARRIED,
        "The load is higher than what is ready holds, and every planned instance is on a node. More instances are "
        "planned when the load has been so throughout its window, and as policies of steps allow.",
        "Wait; ScalingLimited says what limits the next step.",
    ),
    *SCALING_DOCS,
)
"""The reasons of Stalled are those of its causes; see `hetserve.reconcile.status.build`."""
