"""Whatever happens to the ledger, the index kept current booking by booking equals the one built anew."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from effort import examples
from hetserve.base.units import MiB, Percent, Seconds
from hetserve.objects.gpu_sharing import SharingTerms, terms_text
from hetserve.placement.check import violations
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.allocations import Allocations
from hetserve.placement.ledger.bookings import LedgerError
from hetserve.placement.ledger.compare import ClusterHoldings, compare
from hetserve.placement.ledger.index import GpuIndex
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.pods.requests import AntiAffinity, GpuRequest
from hetserve.placement.pods.view import PodView
from sharing_terms import terms_of
from testing.cluster import gpu_node

NODES = ["n0", "n1"]
UIDS = [f"u{number}" for number in range(5)]
MODELS = ["a", "b"]
LATER = Seconds(1e9)


def _space(uid: str) -> str:
    """A pod's namespace never changes."""
    return "e" if uid in UIDS[3:] else "d"


def _request(
    uid: str,
    share: tuple[int, int | None],
    gpus: int,
    model: str | None,
    anti_affinity: AntiAffinity,
    terms: SharingTerms | None = None,
) -> GpuRequest:
    """`share`: MiB (0: whole GPUs) and percent of compute, all of it on terms."""
    mib, percent = share
    whole = mib == 0
    terms = None if whole else terms
    compute = None if percent is None or whole else Percent(percent)
    compute = compute if terms is None else Percent(100)
    return GpuRequest(
        uid, _space(uid), uid, MiB(mib), model, gpus, whole, anti_affinity, compute=compute, sharing=terms
    )


REQUESTS = st.builds(
    _request,
    st.sampled_from(UIDS),
    st.sampled_from([(0, None), (0, None), (100, None), (600, None), (1000, None), (100, 30), (100, 80), (600, 60)]),
    st.sampled_from([1, 1, 2, 3]),
    st.sampled_from([*MODELS, None]),
    st.sampled_from(AntiAffinity),
    st.none() | terms_of(MODELS),
)
GPUS = st.lists(
    st.builds(
        Gpu, st.just(""), st.sampled_from(["T4", "V100"]), st.sampled_from([MiB(1000), MiB(2000)]), st.booleans()
    ),
    max_size=4,
)


def _built_anew(ledger: Ledger) -> GpuIndex:
    """The index of the same nodes and bookings, from an empty one."""
    allocations = Allocations()
    for node in ledger.inventories().values():
        allocations.set_node(node)
    for booking in ledger.bookings().values():
        allocations.put(booking)
    return allocations.index


class LedgerOfSeveral(RuleBasedStateMachine):
    """Reservations by the rule, binds on any GPUs (known or not), releases, and inventories that change."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.versions = 0

    @rule(name=st.sampled_from(NODES), gpus=GPUS, again=st.booleans())
    def node_changes(self, name: str, gpus: list[Gpu], again: bool) -> None:
        self.versions += again
        named = tuple(replace(gpu, id=str(number)) for number, gpu in enumerate(gpus))
        self.ledger.put_node(NodeInventory(name, f"{name}-{self.versions}", named))

    @rule(name=st.sampled_from(NODES))
    def node_goes(self, name: str) -> None:
        known = self.ledger.inventories().get(name)
        if known is not None:
            self.ledger.drop_node(name, known.uid)

    @rule(request=REQUESTS)
    def pod_is_reserved(self, request: GpuRequest) -> None:
        chosen = decide(self.ledger.index, request, NODES).chosen
        if chosen is not None:
            with suppress(LedgerError):
                self.ledger.reserve(request, chosen.places, LATER)

    @rule(uid=st.sampled_from(UIDS))
    def pod_is_bound(self, uid: str) -> None:
        with suppress(LedgerError):
            self.ledger.begin_bind(uid)
            self.ledger.confirm_bind(uid, LATER)

    @rule(request=REQUESTS, node=st.sampled_from(NODES), ids=st.lists(st.sampled_from("0127"), max_size=3, unique=True))
    def pod_is_seen_bound(self, request: GpuRequest, node: str, ids: list[str]) -> None:
        self.ledger.observe(PodView(request, node=node, gpus=tuple(sorted(ids)), annotated_mib="?"))

    @rule(
        request=REQUESTS,
        node=st.sampled_from(NODES),
        through=st.sampled_from([(), ("nvidia.com/gpu",), ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb")]),
        unread=st.booleans(),
    )
    def stranger_is_seen(self, request: GpuRequest, node: str, through: tuple[str, ...], unread: bool) -> None:
        self.ledger.observe(PodView(request, node=node, through=through, unread=unread))

    @rule(uid=st.sampled_from(UIDS), node=st.sampled_from(NODES))
    def pod_is_read_again_and_holds_nothing(self, uid: str, node: str) -> None:
        self.ledger.observe(PodView(GpuRequest(uid, _space(uid), uid, MiB(0)), node=node))
        assert self.ledger.booking(uid) is None

    @rule(uid=st.sampled_from(UIDS))
    def pod_ends(self, uid: str) -> None:
        self.ledger.release(uid)

    @rule()
    def reservations_expire(self) -> None:
        self.ledger.expire(LATER)

    @invariant()
    def the_index_is_the_one_built_anew(self) -> None:
        kept, anew = self.ledger.index, _built_anew(self.ledger)
        assert (kept.terms.pods == anew.terms.pods).all()
        assert kept.terms.rows() == anew.terms.rows()
        for part in ("free", "free_compute", "declared", "accounted", "pods", "idle", "open", "healthy", "memory"):
            assert (getattr(kept, part) == getattr(anew, part)).all(), part
        assert (kept.usable == kept.open & kept.healthy).all()
        for node in NODES:
            assert set(kept.unattributed(node)) == set(anew.unattributed(node))
        assert kept.accounts == anew.accounts
        assert kept.content == anew.content, "what is equal looks changed, or what changed looks equal"
        for model, uid in product(MODELS, (UIDS[0], UIDS[-1])):
            for anti_affinity in AntiAffinity:
                asking = _request(uid, (1, None), 1, model, anti_affinity)
                assert (kept.without_model(kept.all, asking) == anew.without_model(anew.all, asking)).all()

    @invariant()
    def the_uses_say_what_the_index_says(self) -> None:
        index = self.ledger.index
        for use in self.ledger.gpus():
            row = index.row[use.node, use.gpu.id]
            assert int(index.free[row]) == use.free_mib
            assert int(index.free_compute[row]) == 100 - use.booked_compute
            assert int(index.undeclared[row]) == len(use.undeclared)
            paired = [booking.request.sharing is not None for booking in use.bookings]
            assert int(index.terms.pods[row]) == sum(paired)
            assert int(index.pods[row]) == len(use.bookings)
            assert bool(index.open[row]) == use.open == (not index.unattributed(use.node))

    @invariant()
    def reading_changes_nothing(self) -> None:
        before = copy.copy(self.ledger.bookings())
        problem_lines(self.ledger.problems())
        assert self.ledger.bookings() == before


LedgerOfSeveral.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
TestLedgerOfSeveral = LedgerOfSeveral.TestCase


@given(requests=st.lists(REQUESTS, max_size=12))
def test_what_is_reserved_by_the_rule_passes_the_independent_checker(requests: list[GpuRequest]) -> None:
    ledger, nodes = Ledger(), [gpu_node(name, gpus=3, memory_mib=1000) for name in NODES]
    for name in NODES:
        ledger.put_node(NodeInventory(name, name, tuple(Gpu(str(n), "V100", MiB(1000)) for n in range(3))))
    for number, request in enumerate(requests):
        asking = replace(request, uid=f"p{number}", name=f"p{number}")
        chosen = decide(ledger.index, asking, NODES).chosen
        if chosen is not None:
            ledger.reserve(asking, chosen.places, LATER)
            ledger.begin_bind(asking.uid)
            ledger.confirm_bind(asking.uid, LATER)
    pods = [_written(ledger, uid) for uid in ledger.bookings()]
    assert violations(pods, nodes) == ()
    assert compare(ledger, ClusterHoldings.of(pods, nodes)) == ()


def _written(ledger: Ledger, uid: str) -> dict[str, object]:
    """The pod as it is in the cluster after the bind."""
    booking = ledger.bookings()[uid]
    request = booking.request
    limits = {"hetserve.io/gpu": str(request.gpus)}
    limits |= {} if request.whole else {"hetserve.io/gpu-memory": str(request.memory_mib)}
    limits |= {} if request.compute is None else {"hetserve.io/gpu-compute": str(request.compute)}
    annotations = {
        "hetserve.io/gpu": ",".join(booking.gpus),
        "hetserve.io/gpu-memory": ",".join(map(str, booking.mib)),
        "hetserve.io/anti-affinity": request.anti_affinity.value,
    }
    if request.sharing is not None:
        annotations["hetserve.io/gpu-sharing"] = terms_text(request.sharing)
    if request.compute is not None:
        annotations["hetserve.io/gpu-compute"] = ",".join([str(request.compute)] * request.gpus)
    labels = {"hetserve.io/model": request.model} if request.model else {}
    return {
        "metadata": {
            "name": uid,
            "namespace": request.namespace,
            "uid": uid,
            "annotations": annotations,
            "labels": labels,
        },
        "spec": {"nodeName": booking.node, "containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": "Running"},
    }
