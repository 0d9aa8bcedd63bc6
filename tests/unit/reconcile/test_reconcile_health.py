"""Ready, Reconciling and Stalled: exactly one is True, and kstatus reads what it says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documented_conditions import DOCS
from hetserve.api.conditions import ConditionType, Reason
from hetserve.api.inference_service import InferenceService
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.formatting import qps_text
from hetserve.planning.plan import Plan
from hetserve.reconcile.cluster.observed import PodFact
from hetserve.reconcile.deployments.address import address_wakes, next_address
from hetserve.reconcile.deployments.diff import NextWrite
from hetserve.reconcile.events import announcements
from hetserve.reconcile.plans.plan_decision import NOT_PLANNED, Finding, Following, PlanDecision, PlanState
from hetserve.reconcile.plans.plan_record import RecordedGpus, plan_record
from hetserve.reconcile.rollout import TypeState
from hetserve.reconcile.snapshot import RouterFact, ServiceSnapshot
from hetserve.reconcile.status.build import StatusInputs, build_status, status_changed
from hetserve.reconcile.status.serving import LASTING, Serving, serving
from kstatus import ONE_OF, kstatus, the_one_that_is_true
from testing.builders import service

Json = dict[str, Any]
PLAN = Plan("PlanFeasible", "fits", "kairos", (("a", 2),), MicroDollarsPerHour(1_500_000))
PLANNED = Finding("True", Reason.PLAN_COMPUTED, "2xa")
FEASIBLE = Finding("True", Reason.PLAN_FEASIBLE, "fits")
FOLLOWED = PlanDecision(PLANNED, FEASIBLE, NOT_PLANNED, plan_record(PLAN, "abc", RecordedGpus()), PlanState.FOLLOWED)
READY = TypeState("a", desired=2, bound=2, ready=2, rolled=True)


def status_of(decision: PlanDecision, seen: StatusInputs) -> Json:
    raw = {"metadata": {"name": "s", "generation": 3}}
    return build_status(raw, decision, seen, datetime(2026, 1, 1, tzinfo=UTC))


def health(status: Json, generation: int = 3) -> str:
    return kstatus({"metadata": {"generation": generation}, "status": status})


def condition(status: Json, kind: str) -> Json:
    (found,) = (c for c in status["conditions"] if c["type"] == kind)
    return {key: found[key] for key in ("status", "reason", "message")}


def refused(kind: ConditionType, reason: Reason) -> tuple[PlanDecision, StatusInputs]:
    """What a status is made of where this condition is False for this reason."""
    finding = Finding("False", reason, f"words of {reason}")
    if kind is ConditionType.PLANNED:
        return PlanDecision(finding, NOT_PLANNED, NOT_PLANNED), StatusInputs()
    if kind is ConditionType.FEASIBLE:
        return PlanDecision(PLANNED, finding, NOT_PLANNED), StatusInputs()
    if reason is Reason.TEMPLATE_INVALID:
        return FOLLOWED, StatusInputs((READY,), work=NextWrite(template_refusal=finding.message))
    return FOLLOWED, StatusInputs((READY,), work=NextWrite(refusals=(finding.message,)))


CAUSES = [(d.condition, d.reason) for d in DOCS if d.status == "False" and d.condition in ("Planned", "Feasible")]
CAUSES += [(ConditionType.PROGRESSING, reason) for reason in (Reason.TEMPLATE_INVALID, Reason.WRITE_REFUSED)]


@pytest.mark.parametrize(("kind", "reason"), CAUSES)
def test_what_only_a_change_of_something_declared_ends_is_stalled_in_the_words_of_its_cause(
    kind: ConditionType, reason: Reason
) -> None:
    status = status_of(*refused(kind, reason))
    told = {"reason": reason, "message": f"words of {reason}"}
    assert condition(status, "Stalled") == {"status": "True", **told}
    assert condition(status, "Ready") == {"status": "False", **told}
    assert condition(status, "Reconciling") == {"status": "False", **told}
    assert (health(status), status["reason"]) == ("Failed", reason)
    assert [n.reason for n in announcements({}, status) if n.warning] == [reason], "told twice"


NOT_SERVED = [(d.reason, d.reason in LASTING) for d in DOCS if (d.condition, d.status) == ("Serving", "False")]


def unserved(reason: Reason) -> Serving:
    return Serving(Finding("False", reason, f"words of {reason}"))


@pytest.mark.parametrize(("reason", "lasts"), NOT_SERVED)
def test_instances_that_are_ready_do_not_make_a_service_ready_whose_queries_are_not_served(
    reason: Reason, lasts: bool
) -> None:
    assert health(status_of(FOLLOWED, StatusInputs((READY,)))) == "Current"
    status = status_of(FOLLOWED, StatusInputs((READY,), serving=unserved(reason)))
    told = {"reason": reason, "message": f"words of {reason}"}
    assert condition(status, "Serving") == condition(status, "Ready") == {"status": "False", **told}
    assert condition(status, "Stalled" if lasts else "Reconciling") == {"status": "True", **told}
    assert (health(status), status["reason"]) == ("Failed" if lasts else "InProgress", reason)


def test_what_keeps_instances_from_being_ready_is_said_before_that_none_of_them_serves() -> None:
    few = replace(READY, ready=0)
    status = status_of(FOLLOWED, StatusInputs((few,), serving=unserved(Reason.NO_INSTANCE_READY)))
    assert condition(status, "Ready")["reason"] == "InstancesNotReady"


READ_BY_ROUTER = RouterFact("r", "r.hetserve-system.svc.cluster.local")


@pytest.mark.parametrize(("ready", "reason"), [(1, "QueriesServed"), (128, "QueriesServed"), (129, "TooManyInstances")])
def test_a_router_dispatches_to_so_many_instances_and_no_more(ready: int, reason: str) -> None:
    raw = service("s", {"spec.dispatch": {"ports": {"http": 8000}}, "metadata.uid": "u"})
    decision = replace(FOLLOWED, service=InferenceService.model_validate(raw))
    owner = {"apiVersion": "v", "kind": "InferenceService", "name": "s", "uid": "u", "controller": True}
    snapshot = ServiceSnapshot(raw, datetime(2026, 1, 1, tzinfo=UTC), router=READ_BY_ROUTER)
    made = next_address(snapshot, decision.service)
    assert made is not None
    assert made.wanted is not None
    stands = {**made.wanted, "metadata": {**made.wanted["metadata"], "ownerReferences": [owner]}}
    found = serving(replace(snapshot, address=stands), decision, [replace(READY, desired=ready, ready=ready)]).finding
    assert found is not None
    assert found.reason == reason
    assert found.status == str(reason == "QueriesServed")
    assert ("129 instances are ready" in found.message) == (ready == 129)


def test_an_address_whose_correction_is_held_back_is_looked_at_once_it_may_be_made() -> None:
    raw = service("s", {"spec.dispatch": {"ports": {"http": 8000}}, "metadata.uid": "u"})
    read = InferenceService.model_validate(raw)
    snapshot = ServiceSnapshot(raw, datetime(2026, 1, 1, tzinfo=UTC), router=READ_BY_ROUTER)
    request = next_address(snapshot, read)
    assert request is not None
    held = replace(snapshot, held={request.key: 4.0})
    assert next_address(held, read) is None
    assert address_wakes(held, read) == 4.0


def pod(*, node: str | None = None, waiting: str | None = None) -> PodFact:
    return PodFact("u", "default", "p", "", "s", "a", "s", "hash", node=node, gpu=None, waiting=waiting)


WAITS: dict[str, tuple[StatusInputs, str, str]] = {
    "for the scheduler, which has refused one": (
        StatusInputs((TypeState("a", 2, 1, 1, rolled=False),), pods=(pod(waiting="no GPU is free"),)),
        "WaitingForCapacity",
        "a: no GPU is free",
    ),
    "for Deployments": (
        StatusInputs((TypeState("a", 2, 2, 2, rolled=False),)),
        "RollingOut",
        "being brought to the plan: a",
    ),
    "for a write that is to come": (
        StatusInputs((READY,), work=NextWrite(pending=True)),
        "RollingOut",
        "the Deployments",
    ),
    "for pods that cannot be created": (
        StatusInputs((TypeState("a", 2, 0, 0, rolled=False),), failures=(("a", "no such ServiceAccount"),)),
        "InstancesRefused",
        "a: no such ServiceAccount",
    ),
    "for nodes": (
        StatusInputs((TypeState("a", 2, 1, 1, rolled=True),), pods=(pod(),)),
        "InstancesPending",
        "1 of 2 instances",
    ),
    "for what serves": (
        StatusInputs((TypeState("a", 2, 2, 1, rolled=True),)),
        "InstancesNotReady",
        "1 of 2 instances are",
    ),
}


@pytest.mark.parametrize("what", WAITS)
def test_what_comes_by_itself_is_reconciling_and_says_what_it_waits_for(what: str) -> None:
    seen, reason, words = WAITS[what]
    status = status_of(FOLLOWED, seen)
    reconciling = condition(status, "Reconciling")
    assert (reconciling["status"], reconciling["reason"]) == ("True", reason)
    assert reason in {doc.reason for doc in DOCS if doc.condition == "Reconciling"}, "the page has no such row"
    assert words in reconciling["message"]
    assert condition(status, "Stalled") == {**reconciling, "status": "False"}
    assert condition(status, "Ready")["reason"] == "InstancesNotReady"
    assert health(status) == "InProgress"


def following(load: float | None, *, paused: bool = False) -> PlanDecision:
    limited = Finding("True", Reason.PAUSED, "") if paused else None
    spec = InferenceService.model_validate(service("s", {"spec.pause": "ScaleUp" if paused else "None"}))
    follows = Following(PLANNED, limited, load=None if load is None else QPS(load))
    return replace(FOLLOWED, following=follows, service=spec)


PART = TypeState("a", desired=2, bound=2, ready=1, rolled=True)
LOADS: dict[str, tuple[PlanDecision, StatusInputs, tuple[str, str], str]] = {
    "all is ready and carries it": (
        following(20),
        StatusInputs((READY,), carried=20.0),
        ("True", "AllInstancesReady"),
        "",
    ),
    "all is ready and does not": (following(21), StatusInputs((READY,), carried=20.0), ("False", "LoadNotCarried"), ""),
    "a part is ready and carries it": (following(10), StatusInputs((PART,), carried=10.0), ("True", "LoadCarried"), ""),
    "a part is ready and does not": (
        following(11),
        StatusInputs((PART,), carried=10.0),
        ("False", "LoadNotCarried"),
        "",
    ),
    "nothing is held": (following(1), StatusInputs((READY,), carried=0.0), ("False", "LoadNotCarried"), ""),
    "the load is not known": (following(None), StatusInputs((READY,), carried=20.0), ("True", "AllInstancesReady"), ""),
    "what is held is not known": (following(21), StatusInputs((READY,)), ("True", "AllInstancesReady"), ""),
    "neither is, and a part is ready": (following(None), StatusInputs((PART,)), ("False", "InstancesNotReady"), ""),
    "nothing is added to what is ready": (
        following(21, paused=True),
        StatusInputs((READY,), carried=20.0),
        ("False", "LoadNotCarried"),
        "Stalled",
    ),
    "nothing is added, and a part is still to come": (
        following(11, paused=True),
        StatusInputs((PART,), carried=10.0),
        ("False", "LoadNotCarried"),
        "Reconciling",
    ),
}


@pytest.mark.parametrize("what", LOADS)
def test_a_service_with_a_load_to_follow_is_ready_exactly_while_what_is_ready_carries_it(what: str) -> None:
    decision, seen, told, instead = LOADS[what]
    status = status_of(decision, seen)
    ready = condition(status, "Ready")
    assert (ready["status"], ready["reason"]) == told
    assert the_one_that_is_true(status) == ("Ready" if told[0] == "True" else instead or "Reconciling")
    if ready["reason"] == "LoadNotCarried":
        (state,), load = seen.states, decision.following and decision.following.load
        held = f"{state.ready} of 2 instances are ready and hold {qps_text(seen.carried or 0.0)}"
        assert ready["message"].startswith(f"{held}, the load is {qps_text(load or 0.0)}")


def test_figures_of_a_load_that_is_not_carried_are_those_of_when_it_was_first_so() -> None:
    before = status_of(following(21), StatusInputs((READY,), carried=20.0))

    def then(decision: PlanDecision, seen: StatusInputs) -> str:
        raw = {"metadata": {"name": "s", "generation": 3}, "status": before}
        found = condition(build_status(raw, decision, seen, datetime(2026, 1, 1, tzinfo=UTC)), "Ready")
        return str(found["message"])

    first = "2 of 2 instances are ready and hold 20.0 q/s, the load is 21.0 q/s"
    assert then(following(33), StatusInputs((READY,), carried=19.0)) == first
    assert then(following(33, paused=True), StatusInputs((READY,), carried=19.0)).endswith("no instance is added")
    assert then(following(33), StatusInputs((PART,), carried=10.0)).startswith(
        "1 of 2 instances are ready and hold 10.0 q/s"
    )


def test_a_ready_service_is_current_until_its_spec_changes() -> None:
    status = status_of(FOLLOWED, StatusInputs((READY,)))
    for kind in ("Reconciling", "Stalled"):
        assert condition(status, kind) == {**condition(status, "Ready"), "status": "False"}
    assert (health(status), health(status, generation=4)) == ("Current", "InProgress")


def test_a_service_that_the_operator_has_not_seen_does_not_read_as_current() -> None:
    assert health({"observedGeneration": -1}, generation=1) == "InProgress"
    assert kstatus({**service(), "metadata": {"generation": 1}}) == "Current", "without the default nothing says so"


TEXTS = st.sampled_from(["", "some words"])
FINDINGS = st.builds(Finding, st.sampled_from(["True", "False", "Unknown"]), st.sampled_from(Reason), TEXTS)
COUNTS = st.integers(0, 2)
STATES = st.builds(TypeState, st.sampled_from("ab"), COUNTS, COUNTS, COUNTS, st.booleans())
RECORDS = st.sampled_from([None, plan_record(PLAN, "abc", RecordedGpus())])
DECISIONS = st.builds(PlanDecision, FINDINGS, FINDINGS, FINDINGS, RECORDS, st.booleans(), st.booleans())
REFUSALS = st.lists(TEXTS, max_size=1).map(tuple)
WORKS = st.builds(NextWrite, template_refusal=st.none() | TEXTS, refusals=REFUSALS, pending=st.booleans())
PODS = st.lists(st.builds(pod, node=st.sampled_from([None, "n"]), waiting=st.none() | TEXTS), max_size=2).map(tuple)
FOLLOWING = st.none() | st.builds(
    Following,
    FINDINGS,
    st.none() | FINDINGS,
    load=st.sampled_from([None, QPS(0.0), QPS(20.0)]),
)
FAILURES = st.lists(st.tuples(st.sampled_from("ab"), TEXTS), max_size=1).map(tuple)
SEEN = st.builds(
    StatusInputs,
    st.lists(STATES, max_size=2).map(tuple),
    st.none(),
    PODS,
    WORKS,
    foreign_pods=PODS,
    failures=FAILURES,
)


@given(DECISIONS, SEEN, FOLLOWING, st.sampled_from([None, 0.0, 19.0, 21.0]))
def test_of_ready_reconciling_and_stalled_exactly_one_is_true_whatever_is_seen(
    decision: PlanDecision, seen: StatusInputs, follows: Following | None, carried: float | None
) -> None:
    status = status_of(replace(decision, following=follows), replace(seen, carried=carried))
    assert health(status) == ONE_OF[the_one_that_is_true(status)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4))
def test_the_column_ready_counts_as_the_message_of_ready_does(counts: list[tuple[int, int]]) -> None:
    states = tuple(
        TypeState(f"t{number}", desired=desired, bound=ready, ready=ready, rolled=False)
        for number, (desired, ready) in enumerate(counts)
    )
    status = status_of(FOLLOWED, StatusInputs(states=states))
    ready, desired = map(int, status["readyInstances"].split("/"))
    assert ready == sum(min(pair) for pair in counts)
    assert desired == sum(pair[0] for pair in counts)
    if condition(status, "Ready")["reason"] == "InstancesNotReady":
        assert condition(status, "Ready")["message"].startswith(f"{ready} of {desired} ")


def test_the_column_ready_alone_causes_no_write() -> None:
    status = status_of(FOLLOWED, StatusInputs(states=(READY,)))
    older = {key: value for key, value in status.items() if key != "readyInstances"}
    assert not status_changed({"status": older}, status)


def test_a_plan_that_is_being_worked_out_for_a_load_that_is_not_carried_is_told() -> None:
    short = following(21)
    assert short.following is not None
    waits = replace(short, following=replace(short.following, growing=True))
    message = condition(status_of(waits, StatusInputs((READY,), carried=20.0)), "Reconciling")["message"]
    assert message.endswith("the load is 21.0 q/s; a plan for it is being worked out")
