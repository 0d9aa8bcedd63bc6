"""What the operator reads of a refusal that kube-scheduler passes on: compared with what the extender says, by kind."""

from __future__ import annotations

from itertools import combinations

import pytest

from hetserve.base.units import MiB, Millionths, Percent
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.placement.decision.refusals import NodeRefusal, RefusalKind
from hetserve.placement.decision.wording import refusal_text, waits_for_other_model
from hetserve.placement.ledger.bookings import Cause
from hetserve.placement.pods.requests import GpuRequest, GpuSelector

TERMS = SharingTerms(Millionths(570_000), Millionths(1_750_000))
SHARED = GpuRequest("u", "ns", "p", MiB(4096), model="m")
REQUESTS = {
    "shared": SHARED,
    "with compute": GpuRequest("u", "ns", "p", MiB(4096), model="m", compute=Percent(40)),
    "on terms": GpuRequest("u", "ns", "p", MiB(4096), model="m", compute=Percent(100), sharing=TERMS),
    "two on terms": GpuRequest("u", "ns", "p", MiB(4096), model="m", gpus=2, compute=Percent(100), sharing=TERMS),
    "two": GpuRequest("u", "ns", "p", MiB(4096), model="m", gpus=2),
    "of a product": GpuRequest("u", "ns", "p", MiB(1), selector=GpuSelector(products=("free same model",))),
    "whole": GpuRequest("u", "ns", "p", MiB(0), whole=True),
    "two whole": GpuRequest("u", "ns", "p", MiB(0), whole=True, gpus=2),
}
OF_OTHER_TYPES = (
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) had untolerated taint {team: free}",
    "node(s) were unschedulable",
)
NO_ROOM = (RefusalKind.NO_ROOM, RefusalKind.NO_COMPUTE, RefusalKind.NO_TOLERANCE, RefusalKind.UNDECLARED)
SLOW = "on GPU 0 of node n0 a pod of model ns/free would take 1.9 times as long as alone and tolerates 1.75"


def said(*reasons: str) -> str:
    """As kube-scheduler writes the reasons of nodes."""
    counted = ", ".join(f"{n} {reason}" for n, reason in enumerate(reasons, start=1))
    after = "preemption: 0/6 nodes are available: 6 Preemption is not helpful for scheduling."
    return f"0/6 nodes are available: {counted}. {after}"


def text(kind: RefusalKind, request: GpuRequest) -> str:
    cause = Cause.DEVICE_PLUGIN if kind is RefusalKind.CLOSED else None
    message = SLOW if kind is RefusalKind.NO_TOLERANCE else ""
    return refusal_text(NodeRefusal(kind, request, ("n",), 3, cause, ("same", "model free"), message=message))


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_of_every_kind_of_refusal_only_another_model_is_none_of_the_type(request_: GpuRequest) -> None:
    never = {RefusalKind.NO_TOLERANCE if request_.sharing is None else RefusalKind.NO_COMPUTE}
    never |= {RefusalKind.SAME_MODEL} if request_.whole else set()
    kinds = [kind for kind in RefusalKind if kind not in never]
    for size in (1, 2, 3):
        for group in combinations(kinds, size):
            message = said(*(text(kind, request_) for kind in group), *OF_OTHER_TYPES)
            lacks = any(kind in NO_ROOM for kind in group)
            assert waits_for_other_model(message) is (RefusalKind.SAME_MODEL in group and not lacks), message


@pytest.mark.parametrize("reason", ["Insufficient cpu", "Insufficient memory", "Too many pods"])
def test_a_node_that_lacks_something_else_is_no_room_of_the_type(reason: str) -> None:
    same = text(RefusalKind.SAME_MODEL, SHARED)

    assert waits_for_other_model(said(same))
    assert not waits_for_other_model(said(same, reason))


@pytest.mark.parametrize("message", ["", "Unschedulable", "no such thing as the same model on every GPU, free"])
def test_other_words_say_nothing(message: str) -> None:
    assert not waits_for_other_model(message)
