"""Whoever may create a pod writes its annotations, 256 KiB of them, and its node: that costs the ledger little."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from hetserve.api import names
from hetserve.objects.resources import MAX_GPUS_PER_NODE
from hetserve.placement.check import gpu_capacity, holdings, unsaid, violations
from hetserve.placement.ledger.bookings import UNNAMED
from hetserve.placement.ledger.compare import ClusterHoldings, compare
from hetserve.placement.ledger.index import GpuIndex
from hetserve.placement.ledger.inventory import Gpu, parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.pods.requests import LONGEST_GPU_ID, LONGEST_WISHES, MOST_WISHES, GpuSelector
from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_node, gpu_pod

MANY = ",".join(f"{number:x}" for number in range(50_000))
MOST = ",".join(f"{number:0{LONGEST_GPU_ID}}" for number in range(MAX_GPUS_PER_NODE))
LINE = 500
"""Characters of a line of problems that is still read."""

NOT_OF_A_NODE = {
    "fifty thousand": MANY,
    "one more than a node can have": MOST + ",1",
    "one that is too long": "0," + "x" * (LONGEST_GPU_ID + 1),
    "one as long as an annotation may be": "x" * 250_000,
    "nothing, very often": "," * 250_000,
    "blanks": " " * 250_000,
}


def _ledger(raw: dict[str, Any]) -> Ledger:
    ledger = Ledger()
    ledger.put_node(parse_node(gpu_node("n0", gpus=2)))
    ledger.observe(parse_pod(raw))
    return ledger


@pytest.mark.parametrize("named", NOT_OF_A_NODE.values(), ids=NOT_OF_A_NODE)
def test_ids_that_no_node_can_have_are_one_place_and_one_short_line(named: str) -> None:
    raw = gpu_pod(node="n0", gpu="0")
    raw["metadata"]["annotations"][names.ANNOTATION_GPU] = named
    ledger = _ledger(raw)
    booking = ledger.booking("uid-p0")
    assert booking is not None
    assert booking.gpus == (UNNAMED,), "every id would be booked, for as long as the pod runs"
    assert not ledger.index.open.any(), "which GPUs it runs on nobody knows"
    (line,) = problem_lines(ledger.problems())
    assert "does not say which GPUs" in line
    assert len(line) < LINE


@pytest.mark.parametrize("named", NOT_OF_A_NODE.values(), ids=NOT_OF_A_NODE)
def test_the_checker_reads_as_many_ids_as_the_ledger(named: str) -> None:
    raw = gpu_pod(node="n0", gpu="0")
    raw["metadata"]["annotations"][names.ANNOTATION_GPU] = named
    assert holdings([raw]) == []
    assert unsaid(raw).endswith("its annotation names 0")
    assert all(len(line) < LINE for line in violations([raw], [gpu_node("n0")]))


def test_as_many_and_as_long_ids_as_an_inventory_may_list_are_read() -> None:
    entries = [{"uuid": id_, "product": "T4", "memoryMiB": 8192} for id_ in MOST.split(",")]
    node, raw = gpu_node("n0", listed=entries), gpu_pod(node="n0", gpu=MOST, gpus=MAX_GPUS_PER_NODE)
    ledger = _ledger(raw)
    ledger.put_node(parse_node(node))
    assert ledger.problems() == ()
    assert len({held.place for held in holdings([raw])}) == MAX_GPUS_PER_NODE
    assert violations([raw], [node]) == ()


def test_an_inventory_lists_no_id_that_a_pod_could_not_name() -> None:
    listed = [{"uuid": "x" * (LONGEST_GPU_ID + 1), "product": "T4", "memoryMiB": 8192}]
    node = gpu_node("n0", listed=listed)
    assert f"has more than {LONGEST_GPU_ID} characters" in str(parse_node(node).problem)
    with pytest.raises(ValueError, match="no GPU"):
        gpu_capacity([node])


def test_an_annotation_that_becomes_endless_moves_nothing_and_is_shown_shortened() -> None:
    raw = gpu_pod(node="n0", gpu="0")
    ledger = _ledger(raw)
    raw["metadata"]["annotations"][names.ANNOTATION_GPU] = MANY
    ledger.observe(parse_pod(raw))
    booking = ledger.booking("uid-p0")
    assert booking is not None
    assert booking.gpus == ("0",)
    (line,) = problem_lines(ledger.problems())
    assert line.endswith("it was bound to 0")
    assert len(line) < LINE


@pytest.mark.parametrize("asked", [{"memory_mib": 4096}, {"memory_mib": 0, "gpus": 1}], ids=["memory", "a whole GPU"])
@pytest.mark.parametrize("said", ["1" * 250_000, "1," * 125_000, "a" * 61], ids=["a number", "a list", "a word"])
def test_an_endless_amount_is_shown_shortened(said: str, asked: dict[str, int]) -> None:
    raw = gpu_pod(node="n0", gpu="0", **asked)  # type: ignore[arg-type]
    raw["metadata"]["annotations"][names.ANNOTATION_GPU_MEMORY] = said
    problems = problem_lines(_ledger(raw).problems())
    assert all(len(line) < LINE for line in problems)
    assert len(problems) == 1


def test_unknown_gpus_of_a_pod_are_one_line() -> None:
    ledger = _ledger(gpu_pod(node="n0", gpu=MOST, gpus=MAX_GPUS_PER_NODE))
    (line,) = problem_lines(ledger.problems())
    assert "node n0 has no GPU 0000" in line
    assert line.endswith(f" and {MAX_GPUS_PER_NODE - 8} others")
    assert len(line) < 2 * LINE


def test_a_node_is_closed_once_whatever_a_pod_names(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    ledger.put_node(parse_node(gpu_node("n0", gpus=2)))
    closed = CountedWrites(ledger.index)
    monkeypatch.setattr(ledger.index, "open", closed)
    ledger.observe(parse_pod(gpu_pod(node="n0", gpu=MOST, gpus=MAX_GPUS_PER_NODE)))
    assert closed.writes == 1, "as often as it names GPUs, for each pod whenever any inventory changes"
    ledger.release("uid-p0")
    assert closed.writes == 2
    assert all(closed[:])


class CountedWrites:
    """The array of open GPUs, which counts how often it is written."""

    def __init__(self, index: GpuIndex) -> None:
        self.array, self.writes = index.open, 0

    def __getitem__(self, rows: slice) -> Any:
        return self.array[rows]

    def __setitem__(self, rows: slice, value: bool) -> None:
        self.writes += 1
        self.array[rows] = value


class CountedGpus(list[Gpu]):
    """The GPUs of an index, which count how often all are looked at."""

    walks = 0

    def __iter__(self) -> Iterator[Gpu]:
        self.walks += 1
        return super().__iter__()


LISTS = (
    names.ANNOTATION_GPU_PRODUCT,
    names.ANNOTATION_GPU_PRODUCT_EXCLUDE,
    names.ANNOTATION_GPU_UUID,
    names.ANNOTATION_GPU_UUID_EXCLUDE,
)
UNKNOWN = tuple(f"X{number}" for number in range(MOST_WISHES))
SELECTORS = {
    "products": GpuSelector(products=UNKNOWN),
    "products excluded": GpuSelector(products_excluded=UNKNOWN),
    "ids": GpuSelector(ids=UNKNOWN),
    "ids excluded": GpuSelector(ids_excluded=UNKNOWN),
}


@pytest.mark.parametrize("selector", SELECTORS.values(), ids=SELECTORS)
def test_many_unknown_names_do_not_walk_the_cluster_as_often(selector: GpuSelector) -> None:
    ledger = Ledger()
    for number in range(3):
        ledger.put_node(parse_node(gpu_node(f"n{number}", gpus=2)))
    index = ledger.index
    index.gpus = gpus = CountedGpus(index.gpus)
    for _ in range(3):
        mask = index.selected(selector)
        assert mask.tolist() == [selector.accepts(gpu.id, gpu.product) for gpu in list.__iter__(gpus)]
    assert gpus.walks <= 1, "each walk takes 0.3 ms at 8,000 GPUs, on the loop of the verbs"


WIDE = "\U0001f40c"
"""A character that takes four bytes."""


def _waiting(number: int) -> dict[str, Any]:
    """A pod at our gate that says as much as it may in the widest characters, nothing of it said by another."""
    wishes = {
        key: ",".join(f"{number}-{place}-{entry}".ljust(LONGEST_GPU_ID, WIDE) for entry in range(MOST_WISHES // 4))
        for place, key in enumerate(LISTS)
    }
    gates = (names.QUEUE_GATE, *(f"example.com/{number}-{gate}".ljust(317, "x") for gate in range(999)))
    return gpu_pod(f"p{number}", annotations=wishes, gates=gates)


def test_a_pod_that_waits_keeps_few_bytes_whatever_it_says() -> None:
    tracemalloc.start()
    try:
        before, views = tracemalloc.get_traced_memory()[0], []
        for number in range(40):  # so many that what else happens in this process counts for little
            raw = _waiting(number)
            raw["spec"]["schedulerName"] = f"{number}".ljust(100_000, WIDE)
            views.append(parse_pod(json.loads(json.dumps(raw))))
            del raw
        gc.collect()
        kept = (tracemalloc.get_traced_memory()[0] - before) / len(views)
    finally:
        tracemalloc.stop()
    assert all(view.complaint is None and names.QUEUE_GATE in view.gates for view in views)
    assert kept < 48 << 10, "thousands of such pods wait, and none of them counts against a quota"


@pytest.mark.parametrize("last", LISTS)
@pytest.mark.parametrize("text", ["1", "x" * LONGEST_WISHES], ids=["one entry more", "characters"])
def test_one_limit_holds_for_all_lists_of_a_pod_together(last: str, text: str) -> None:
    full = ",".join("x" for _ in range(MOST_WISHES // 4))
    wishes = dict.fromkeys(LISTS, full)
    assert parse_pod(gpu_pod(annotations=wishes)).complaint is None
    view = parse_pod(gpu_pod(annotations=wishes | {last: f"{full},{text}"}))
    assert view.request.selector == GpuSelector()
    assert "the lists of the pod have more than 128 entries or 8192 characters" in str(view.complaint)
    assert str(view.complaint).startswith("annotation hetserve.io/gpu-")
    assert len(str(view.complaint)) < LINE


GATES = tuple(f"example.com/{number}" for number in range(1000))


@pytest.mark.parametrize("ours", [0, 5, 900])
def test_our_gate_is_found_among_very_many_others(ours: int) -> None:
    gates = (*GATES[:ours], names.QUEUE_GATE, *GATES[ours + 1 :])
    found = parse_pod(gpu_pod(gates=gates)).gates
    assert names.QUEUE_GATE in found
    assert len(found) == 9
    assert found[-1] == "992 others"
    assert names.QUEUE_GATE not in parse_pod(gpu_pod(gates=GATES)).gates


def test_a_few_gates_are_kept_as_they_are_written() -> None:
    assert parse_pod(gpu_pod(gates=(*GATES[:7], names.QUEUE_GATE))).gates == (*GATES[:7], names.QUEUE_GATE)
    assert parse_pod(gpu_pod(gates=("x" * 317,))).gates == ("x" * 60 + "...",)


@pytest.mark.parametrize("written", ["0, 1", "0,,1", " 0 ,1,", "0,0,1"])
def test_the_checker_reads_ids_as_the_ledger_does(written: str) -> None:
    node = gpu_node("n0", gpus=2)
    raw = gpu_pod(node="n0", gpu="0,1", gpus=2)
    raw["metadata"]["annotations"][names.ANNOTATION_GPU] = written
    ledger = _ledger(raw)
    assert ledger.problems() == ()
    assert compare(ledger, ClusterHoldings.of([raw], [node])) == (), "any tenant could set off the alert on drift"
    assert violations([raw], [node]) == ()


def test_the_annotation_of_this_test_is_one_that_the_api_server_takes() -> None:
    assert max(len(json.dumps(text)) for text in (MANY, MOST, *NOT_OF_A_NODE.values())) < 256 << 10
