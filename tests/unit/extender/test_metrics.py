from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from harness.metrics_reference import described, metrics_page
from hetserve.base.units import MiB, Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve.placement.queues.rounds import QueueSettings, Waiting
from hetserve_extender.observe.metrics import FairnessWindow, Metrics, jain
from testing.cluster import gpu_node, gpu_pod, plugin_pod
from testing.data import REPOSITORY
from testing.sorted_rounds import round_of

Described = dict[str, tuple[str, frozenset[str]]]
"""Type and labels by name."""


def placer_with(*pods: dict[str, Any], **node: Any) -> Placer:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0))
    NodeEventHandler(placer).replace([gpu_node(**node)])
    PodEventHandler(placer).replace(pods)
    return placer


async def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels."""
    families = text_string_to_metric_families((await metrics.text()).decode())
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in families
        for sample in family.samples
    }


# The documentation


def documented() -> Described:
    text = (REPOSITORY / "docs" / "reference" / "metrics.md").read_text()
    rows = re.findall(r"^\| `([A-Za-z_]+)` \| (\w+) \| ([A-Za-z_, ]*)\|", text, re.MULTILINE)
    return {name: (kind, frozenset(filter(None, labels.replace(" ", "").split(",")))) for name, kind, labels in rows}


def test_every_metric_is_documented_and_every_documented_metric_is_served() -> None:
    code = {one.name: (one.type, frozenset(one.labels)) for found in described().values() for one in found}
    assert code == documented()
    explained = re.findall(r"`((?:hetserve|DCGM)_\w+)`", (REPOSITORY / "docs" / "metrics.md").read_text())
    assert {*explained} - {*code} == set()
    assert len(explained) > 30


def test_the_reference_has_each_metric_once_with_the_words_of_its_component() -> None:
    page = metrics_page()
    metrics = [one for found in described().values() for one in found]
    assert len(metrics) > 50
    assert [one for one in metrics if len(one.words) < 10] == []
    assert [one.name for one in metrics if page.count(f"\n| `{one.name}` | {one.type} | ") != 1] == []
    assert "| `hetserve_plans_total` | counter | planner, feasible | Plans computed. |" in page.split("## Operator")[1]


def test_queries_and_dashboard_ask_for_metrics_that_there_are() -> None:
    docs = REPOSITORY / "docs"
    queries = "".join((docs / "metrics.md").read_text().split("```promql")[1:])
    files = REPOSITORY / "charts" / "hetserve" / "files"
    boards = [json.loads(path.read_text()) for path in sorted((files / "dashboards").glob("*.json"))]
    asked = [target["expr"] for board in boards for panel in board["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((files / "alerts.yaml").read_text())["groups"]
    alerts = [rule["expr"] for group in rules for rule in group["rules"]]
    names = set(re.findall(r"hetserve_[a-z_]+", queries + " ".join(asked + alerts)))
    histograms = [name for name, (kind, _) in documented().items() if kind == "histogram"]
    known = set(documented()) | {f"{name}_{part}" for name in histograms for part in ("bucket", "count", "sum")}
    assert names <= known
    assert len(asked) > 10
    assert len(alerts) > 10


# The ledger's figures


async def test_the_ledger_shows_free_memory_pods_and_health_of_each_gpu() -> None:
    listed = [
        {"uuid": "0", "product": 'odd "name"\\', "memoryMiB": 16384},
        {"uuid": "1", "product": "T4", "memoryMiB": 16384, "healthy": False},
    ]
    placer = placer_with(gpu_pod("a", memory_mib=4000, node="n0", gpu="0"), listed=listed)
    found = await samples(Metrics(placer))
    assert found["hetserve_gpu_free_mib", "0", "n0", 'odd "name"\\'] == 12384
    assert found["hetserve_gpu_pods", "0", "n0", 'odd "name"\\'] == 1
    assert found["hetserve_gpu_healthy", "1", "n0", "T4"] == 0
    assert found["hetserve_free_mib",] == found["hetserve_largest_free_mib",] == 12384
    assert found["hetserve_bookings", "bound"] == 1


async def test_problems_are_counted_as_the_placer_lists_them() -> None:
    pods = [
        gpu_pod("over", memory_mib=90000, node="n0", gpu="0"),
        gpu_pod("twin", node="n0", gpu="1", model="m"),
        gpu_pod("other-twin", node="n0", gpu="1", model="m"),
        gpu_pod("lost", node="gone", gpu="0"),
        gpu_pod("nowhere", node="n0"),
        {"metadata": {"name": "unreadable", "namespace": "x"}, "spec": {}},
    ]
    placer = placer_with(*pods)
    found = await samples(Metrics(placer))
    assert found["hetserve_ledger_problems",] == len(placer.problems()) == 5


async def test_fragmentation_is_absent_until_somebody_holds_a_share() -> None:
    assert ("hetserve_fragmentation_ratio",) not in await samples(Metrics(placer_with()))
    full = [gpu_pod(f"p{gpu}", memory_mib=30000, model=gpu, node="n0", gpu=gpu) for gpu in "01"]
    found = await samples(Metrics(placer_with(*full)))
    assert found["hetserve_fragmentation_ratio",] == 1.0
    assert found["hetserve_median_request_mib",] == 30000


# The queues


def waiting(name: str, mib: int, since: float, priority: int = 0) -> Waiting:
    return Waiting(name, "team", name, MiB(mib), "m", Seconds(since), priority)


async def test_a_round_shows_lengths_waits_and_fairness() -> None:
    metrics = Metrics(placer_with(), wall=lambda: 100.0)
    pods = [waiting(f"p{number}", 1000 * (1 + number % 2), 90.0) for number in range(8)]
    decided = round_of(
        pods, outstanding=0, now=Seconds(100.0), largest_gpu=MiB(16384), settings=QueueSettings(queues=2, beta=4)
    )
    metrics.round(decided, 4)
    found = await samples(metrics)
    assert [value for key, value in found.items() if key[0] == "hetserve_queue_length"] == [2, 2]
    assert found["hetserve_queue_wait_seconds_sum", "0"] == 40.0
    assert found["hetserve_queue_fairness_index", "0"] == 1.0


def queue(id_: int, weight: float, released: int, priority: int = 0) -> Any:
    from hetserve.placement.queues.rounds import Queue

    return Queue(id_, priority, (), 10, Seconds(1.0), weight, released)


@pytest.mark.parametrize(
    ("rounds", "index"),
    [
        ([[queue(0, 3.0, 3), queue(1, 1.0, 1)]], 1.0),
        ([[queue(0, 1.0, 4), queue(1, 1.0, 0)]], 0.5),
        ([[queue(0, 1.0, 4), queue(1, 1.0, 0)], [queue(0, 1.0, 0), queue(1, 1.0, 4)]], 1.0),
        ([[queue(0, 99.0, 4), queue(1, 1.0, 0)]], 1.0),
        ([[queue(0, 1.0, 0), queue(1, 1.0, 0)]], None),
    ],
    ids=["as due", "one took all", "evened out later", "hardly due", "no release"],
)
def test_the_index_compares_what_queues_got_with_what_they_were_due(
    rounds: list[list[Any]], index: float | None
) -> None:
    window = FairnessWindow()
    for queues in rounds:
        window.take(queues)
    assert window.indices().get(0) == (None if index is None else pytest.approx(index))


def test_the_window_forgets_and_keeps_priorities_apart() -> None:
    window = FairnessWindow()
    window.take([queue(0, 1.0, 400), queue(1, 1.0, 0), queue(2, 1.0, 4, priority=9)])
    assert window.indices() == {0: pytest.approx(0.5), 9: 1.0}
    for _ in range(3):
        window.take([queue(0, 1.0, 100), queue(1, 1.0, 100)])
    assert window.indices()[0] == pytest.approx(1.0)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_jains_index_lies_between_one_nth_and_one(values: list[float]) -> None:
    assert 1 / len(values) - 1e-9 <= jain(values) <= 1 + 1e-9
    assert jain([7.0] * len(values)) == pytest.approx(1.0)


async def test_a_closed_node_is_counted_by_cause_and_has_nothing_free() -> None:
    odd = gpu_pod("odd", node="n0", memory_mib="1e9999999")
    placer = placer_with(plugin_pod(), plugin_pod("more"), odd, plugin_pod("elsewhere", node="n9"))
    NodeEventHandler(placer).replace([gpu_node("n0"), gpu_node("n1", gpus=1)])
    found = await samples(Metrics(placer))
    assert {cause: found["hetserve_closed_nodes", cause] for cause in ("unlisted", "device-plugin", "unreadable")} == {
        "unlisted": 0,
        "device-plugin": 1,
        "unreadable": 1,
    }
    assert found["hetserve_free_mib",] == 32768, "what nobody gets is not free"
    assert found["hetserve_bookings", "bound"] == 0, "those are no pods of ours"
    assert found["hetserve_ledger_problems",] == 3
    PodEventHandler(placer).replace([])
    assert (await samples(Metrics(placer)))["hetserve_free_mib",] == 3 * 32768
