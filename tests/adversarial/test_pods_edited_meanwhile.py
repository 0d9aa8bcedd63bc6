"""Labels and annotations edited at any time: between filter and bind, while the bind is sent, and after it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.placement.check import violations
from hetserve.placement.decision.wording import UNLISTED_GPU, texts_by_node
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.bookings import LedgerError, State
from hetserve.placement.ledger.compare import ClusterHoldings, Kind, compare
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.placer import Placer
from hetserve.placement.pods.view import parse_pod
from hetserve_extender.leader.fence import LeaderFence, Revisions
from hetserve_extender.verbs.bind_sender import BindSender
from hetserve_extender.verbs.binding import BindStateMachine
from hetserve_extender.verbs.wire import BindArgs
from hetserve_shell.kube.client import Answer
from testing.cluster import gpu_node, gpu_pod
from testing.kit.apiserver import FakeApiServer

Json = dict[str, Any]


@dataclass
class EditedApi(FakeApiServer):
    """Somebody edits a pod just before a request of a method is carried out, once."""

    edits: dict[str, Json] = field(default_factory=dict)

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        if (edited := self.edits.pop(method, None)) is not None:
            self.add(edited)
        return await super().request(method, path, **rest)


class Leader:
    """The leader's bind over an API server in memory; its watch shows what `show` and `tell` show."""

    def __init__(self, *pods: Json, gpus: int = 1) -> None:
        self.api = EditedApi()
        self.api.add(gpu_node("n0", gpus=gpus))
        for pod in pods:
            self.api.add(pod)
        self.placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
        self.revisions = Revisions(PodEventHandler(self.placer))
        fence = LeaderFence(self.revisions, lambda: 1, str)
        self.binder = BindSender(self.api, BindStateMachine(self.placer, fence))
        self.show()

    def show(self) -> None:
        NodeEventHandler(self.placer).replace(self.api.listing("/api/v1/nodes"))
        self.revisions.replace(self.api.listing("/api/v1/pods"))

    def tell(self, raw: Json) -> None:
        self.revisions.apply("MODIFIED", self.api.add(raw))

    async def bind(self, name: str = "p0") -> str:
        return await self.binder.bind(BindArgs(name, "default", f"uid-{name}", "n0"))

    def nothing_wrong(self) -> bool:
        return violations(self.api.listing("/api/v1/pods"), self.api.listing("/api/v1/nodes")) == ()


OTHER = gpu_pod("other", node="n0", gpu="0", model="b")
EDITS: dict[str, tuple[Json, str]] = {
    "the model": (gpu_pod(model="b"), "same model on every GPU"),
    "the products": (gpu_pod(annotations={names.ANNOTATION_GPU_PRODUCT_EXCLUDE: "V100"}), "no GPU of another product"),
    "the ids": (gpu_pod(annotations={names.ANNOTATION_GPU_UUID: "7"}), "no GPU with id 7"),
    "a wish that cannot be read": (gpu_pod(annotations={names.ANNOTATION_PLACEMENT_POLICY: "Foo"}), "'Foo' is not"),
}


@pytest.mark.parametrize(("edited", "words"), EDITS.values(), ids=EDITS)
async def test_a_reservation_is_no_promise_to_a_pod_that_was_edited_since(edited: Json, words: str) -> None:
    leader = Leader(OTHER, gpu_pod(model="a"))
    leader.placer.filter(leader.api.pod("p0"), ["n0"])
    leader.tell(edited)
    assert words in await leader.bind(), "the pod is bound by what it no longer says"
    assert leader.nothing_wrong()


async def test_an_edited_pod_is_decided_again_on_its_node() -> None:
    leader = Leader(OTHER, gpu_pod("full", node="n0", gpu="1", model="c", memory_mib=20000), gpu_pod(model="a"), gpus=2)
    assert leader.placer.filter(leader.api.pod("p0"), ["n0"]).passed
    leader.tell(gpu_pod(model="b"))
    assert await leader.bind() == ""
    assert leader.api.pod("p0")["metadata"]["annotations"][names.ANNOTATION_GPU] == "1"
    assert leader.nothing_wrong()


@pytest.mark.parametrize("watched", [True, False], ids=["seen by the watch before", "not seen by the watch"])
async def test_an_edit_while_the_bind_is_sent_is_not_overlooked(watched: bool) -> None:
    leader = Leader(OTHER, gpu_pod(model="a"))
    leader.placer.filter(leader.api.pod("p0"), ["n0"])
    if not watched:
        leader.revisions.replace([OTHER])
    leader.api.edits["POST" if watched else "GET"] = gpu_pod(model="b")
    assert await leader.bind() != "", "a pod beside its own model: the second try did not look at what had changed"
    assert "nodeName" not in leader.api.pod("p0")["spec"]
    assert leader.placer.ledger.booking("uid-p0") is None


async def test_an_edit_between_two_reads_of_a_pod_that_no_watch_has_shown_is_not_overlooked() -> None:
    leader = Leader(OTHER, gpu_pod(model="a"))
    leader.revisions.replace([OTHER])
    reads = []

    async def request(method: str, path: str, **rest: Any) -> Answer:
        answer = await FakeApiServer.request(leader.api, method, path, **rest)
        reads.append(method)
        if reads == ["GET"]:
            leader.api.add(gpu_pod(model="b"))
        return answer

    leader.api.request = request  # type: ignore[method-assign]
    assert "changed since its GPUs were chosen" in await leader.bind()
    assert leader.nothing_wrong()


async def test_bind_uses_the_watched_pod_not_the_one_in_the_filter_call() -> None:
    leader = Leader(gpu_pod("other", node="n0", gpu="0", model="b", memory_mib=30000), gpu_pod(memory_mib=6144))
    assert leader.placer.filter(gpu_pod(memory_mib=1), ["n0"]).passed
    assert "no GPU with 6144 MiB free" in await leader.bind(), "6144 MiB are booked as 1"


async def test_an_edited_pod_whose_bind_is_in_doubt_is_not_sent_a_second_time() -> None:
    leader = Leader(gpu_pod(model="a"))
    leader.placer.fix_gpus(parse_pod(gpu_pod(model="a")).request, "n0")
    leader.tell(gpu_pod(model="b"))
    assert "an earlier bind" in await leader.bind()
    held = leader.placer.ledger.booking("uid-p0")
    assert held is not None
    assert held.state is State.BINDING, "the GPU that the first bind may have taken was given back"


# What lies on the GPU changes between filter and bind


def _placer(*pods: Json, gpus: int = 1) -> Placer:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).replace([gpu_node("n0", gpus=gpus)])
    PodEventHandler(placer).replace(list(pods))
    return placer


def test_a_gpu_of_another_product_by_now_is_not_bound() -> None:
    wanted = gpu_pod(product="V100")
    placer = _placer(wanted)
    placer.filter(wanted, ["n0"])
    NodeEventHandler(placer).apply("MODIFIED", gpu_node("n0", gpus=1, product="T4"))
    with pytest.raises(LedgerError, match="no GPU of product V100"):
        placer.fix_gpus(parse_pod(wanted).request, "n0")


def test_a_gpu_on_which_a_bound_pod_took_the_model_is_not_bound() -> None:
    waiting = gpu_pod(model="b")
    placer = _placer(waiting, gpu_pod("other", node="n0", gpu="0", model="a"))
    placer.filter(waiting, ["n0"])
    PodEventHandler(placer).apply("MODIFIED", OTHER)
    with pytest.raises(LedgerError, match="same model"):
        placer.fix_gpus(parse_pod(waiting).request, "n0")


# Bound pods


def _without(pod: Json, *keys: str) -> Json:
    stripped = copy.deepcopy(pod)
    for key in keys:
        del stripped["metadata"]["annotations"][key]
    return stripped


def _says(pod: Json, gpu: str) -> Json:
    edited = copy.deepcopy(pod)
    edited["metadata"]["annotations"][names.ANNOTATION_GPU] = gpu
    return edited


BOUND = gpu_pod("bound", node="n0", gpu="0", model="a", memory_mib=20000)
PAIR = gpu_pod("bound", node="n0", gpu="0,1", gpus=2, model="a", memory_mib=20000)
UNSAID: dict[str, Json] = {
    "no annotation": _without(BOUND, names.ANNOTATION_GPU, names.ANNOTATION_GPU_MEMORY),
    "no GPU": _without(BOUND, names.ANNOTATION_GPU),
    "an empty text": _says(BOUND, ""),
    "one GPU of two": _says(PAIR, "1"),
    "one GPU twice": _says(PAIR, "0,0"),
    "created on its node, a whole GPU": gpu_pod("bound", node="n0", gpus=1, memory_mib=0),
}


@pytest.mark.parametrize("pod", UNSAID.values(), ids=UNSAID)
def test_a_bound_pod_that_does_not_say_where_it_runs_frees_no_memory(pod: Json) -> None:
    placer = _placer(pod, gpus=2)
    for model in "ab":
        outcome = placer.filter(gpu_pod(f"new-{model}", model=model, memory_mib=20000), ["n0"])
        assert outcome.passed == (), "nobody knows on which GPU the pod runs, and one is given away"
        assert texts_by_node(outcome.refusals) == {"n0": UNLISTED_GPU}
    assert len(placer.problems()) == 1
    found = compare(placer.ledger, ClusterHoldings.of([pod], [gpu_node("n0")]))
    assert [one.kind for one in found] == [Kind.NO_GPU]
    assert violations([pod], [gpu_node("n0")])
    PodEventHandler(placer).apply("DELETED", pod)
    assert placer.filter(gpu_pod("new", memory_mib=20000), ["n0"]).passed == ("n0",)
    assert placer.problems() == ()


REPAIRS: dict[str, tuple[Json, Json]] = {
    "one GPU": (UNSAID["no GPU"], BOUND),
    "the second of two": (UNSAID["one GPU of two"], PAIR),
}


@pytest.mark.parametrize(("broken", "whole"), REPAIRS.values(), ids=REPAIRS)
def test_a_node_opens_again_when_the_annotation_is_written_again(broken: Json, whole: Json) -> None:
    placer = _placer(broken, gpus=2)
    PodEventHandler(placer).apply("MODIFIED", whole)
    assert placer.problems() == ()
    assert compare(placer.ledger, ClusterHoldings.of([whole], [gpu_node("n0")])) == ()
    assert placer.filter(gpu_pod("new", memory_mib=10000), ["n0"]).passed == ("n0",)


def test_an_annotation_removed_while_we_run_keeps_the_gpu_and_is_reported() -> None:
    placer = _placer(BOUND, gpus=2)
    stripped = UNSAID["no annotation"]
    PodEventHandler(placer).apply("MODIFIED", stripped)
    assert placer.ledger.free(("n0", "0")) == 32768 - 20000
    assert Kind.NO_GPU in {one.kind for one in compare(placer.ledger, ClusterHoldings.of([stripped], [gpu_node("n0")]))}


def _relabelled(model: str | None, annotations: dict[str, str] | None = None) -> Json:
    made = gpu_pod("bound", node="n0", gpu="0", model=model, memory_mib=20000)
    made["metadata"]["annotations"] |= annotations or {}
    return made


@pytest.mark.parametrize("relist", [False, True], ids=["by an event", "by a list"])
def test_a_bound_pod_keeps_both_its_models_to_itself(relist: bool) -> None:
    placer = _placer(BOUND)
    edited = _relabelled("b")
    if relist:
        PodEventHandler(placer).replace([edited])
    else:
        PodEventHandler(placer).apply("MODIFIED", edited)
    for model, passed in (("a", ()), ("b", ()), ("c", ("n0",))):
        assert placer.filter(gpu_pod(f"new-{model}", model=model), ["n0"]).passed == passed, f"model {model}"
    assert problem_lines(placer.problems()) == (
        "pod default/bound is of model b now, it was bound as a: its GPU is kept from both",
    )
    found = compare(placer.ledger, ClusterHoldings.of([edited], [gpu_node("n0", gpus=1)]))
    assert {one.kind for one in found} == {Kind.OTHER_MODEL}


BACK: dict[str, Callable[[Placer], None]] = {
    "when the label is back": lambda placer: PodEventHandler(placer).apply("MODIFIED", BOUND),
    "when the pod is gone": lambda placer: PodEventHandler(placer).apply("DELETED", BOUND),
}


@pytest.mark.parametrize("happens", BACK.values(), ids=BACK)
def test_the_second_model_is_let_go(happens: Callable[[Placer], None]) -> None:
    placer = _placer(BOUND)
    PodEventHandler(placer).apply("MODIFIED", _relabelled("b"))
    happens(placer)
    assert placer.filter(gpu_pod("new", model="b"), ["n0"]).passed == ("n0",)
    assert placer.problems() == ()


def test_a_bound_pod_that_no_longer_agrees_to_share_is_heard() -> None:
    agrees = {names.ANNOTATION_ANTI_AFFINITY: "None"}
    placer = _placer(_relabelled("a", agrees))
    PodEventHandler(placer).apply("MODIFIED", _relabelled("a"))
    assert placer.filter(gpu_pod("new", model="a", annotations=agrees), ["n0"]).passed == ()


# What the scheduler asks of pods that were edited


def test_the_reservation_of_a_pod_ends_also_where_the_pod_can_no_longer_be_read() -> None:
    placer = _placer(gpu_pod())
    placer.filter(gpu_pod(), ["n0"])
    with pytest.raises(ValueError, match="Foo"):
        placer.filter(gpu_pod(annotations={names.ANNOTATION_PLACEMENT_POLICY: "Foo"}), ["n0"])
    assert placer.ledger.booking("uid-p0") is None
    placer.filter(gpu_pod(), ["n0"])
    with pytest.raises(ValueError, match="much"):
        placer.filter(gpu_pod(memory_mib="much"), ["n0"])
    assert placer.ledger.booking("uid-p0") is None


def test_a_pod_without_gpu_memory_passes_whatever_it_wishes() -> None:
    odd = gpu_pod(memory_mib=0, annotations={names.ANNOTATION_PLACEMENT_POLICY: "Foo"})
    placer = _placer(odd)
    assert placer.filter(odd, ["n0", "n1"]).passed == ("n0", "n1")
    assert placer.prioritize(odd, ["n0"]) == {"n0": 0}
