"""`hetserve queue`: the queues of a snapshot, by the extender's own round."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import click
from rich.table import Table

from hetserve.base.units import MiB, Seconds
from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.cluster.extender import extender_settings
from hetserve.cli.cluster.extender import system_namespace as namespace_of
from hetserve.cli.cluster.snapshot import Source
from hetserve.cli.output.streams import show
from hetserve.cli.output.terminal import Block, counted, grid
from hetserve.cli.placement.placed import placer_of
from hetserve.placement.placer import Placer
from hetserve.placement.queues.rounds import (
    Queue,
    QueueSettings,
    Round,
    Waiting,
    Weights,
    in_hand,
    ours_alone_holds,
    waiting,
)
from hetserve.placement.queues.waiting_line import WaitingLine

MAX_QUEUES: Final = 64

Json = dict[str, Any]


def run(namespace: str | None, output: str, **given: Any) -> None:
    """The command `queue`, with its options."""
    source = Source.of(given["kubeconfig"], given["context"], given["file"])
    snapshot = source.snapshot()
    settings = _settings(source.cluster, **given)
    now = Seconds(time.time()) if snapshot.taken_at is None else snapshot.taken_at
    document = _queues_document(placer_of(snapshot), settings, now, namespace)
    show(document, output, lambda: blocks(document, wide=output == "wide"))


def _settings(
    cluster: ClusterClient | None, *, queues: str | None, beta: int | None, system_namespace: str | None, **_source: Any
) -> QueueSettings:
    """Settings from options, else the extender's ConfigMap, else defaults."""
    installed = extender_settings(cluster, namespace_of(cluster, system_namespace)).get("queue") or {}
    defaults = QueueSettings()
    k = installed.get("queues", defaults.queues) if queues is None else _k(queues)
    weights = Weights(installed.get("weights", defaults.weights))
    return QueueSettings(k, beta or installed.get("beta", defaults.beta), weights=weights)


def _k(text: str) -> Any:
    if text == "auto" or (text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_QUEUES):
        return text if text == "auto" else int(text)
    wanted = f'a number of queues from 1 to {MAX_QUEUES}, or "auto"'
    raise click.BadParameter(f"{text!r} is not {wanted}", param_hint="--queues")


def _queues_document(placer: Placer, settings: QueueSettings, now: Seconds, namespace: str | None) -> Json:
    """`hetserve queue -o json`, with the pods of `namespace` (None: all).

    Ids and credits are those of an extender that starts now.
    """
    pods = [waiting(pod) for pod in placer.pods.values() if ours_alone_holds(pod)]
    scheduling = [pod for pod in placer.pods.values() if in_hand(pod)]
    largest = MiB(int(placer.ledger.index.memory.max(initial=1)))
    line = WaitingLine(settings)
    for pod in pods:
        line.put(pod)
    made = line.round(outstanding=0, now=now, largest_gpu=largest)
    order = {release.pod.uid: number for number, release in enumerate(made.releases)}
    return {
        "settings": {"queues": settings.queues, "weights": str(settings.weights), "beta": settings.beta},
        "waiting": len(pods),
        "inHand": len(scheduling),
        "unschedulable": sum(pod.unschedulable for pod in scheduling),
        "releasesWithin": {str(priority): bound for priority, bound in _bounds(made).items()},
        "queues": [
            _queue(queue, made) | {"shapes": _shapes(queue, members), "pods": _pods(members, order, now, namespace)}
            for queue in made.queues
            for members in [_members(queue, pods)]
        ],
        "heldByOthers": [
            {"namespace": pod.request.namespace, "name": pod.request.name, "gates": list(pod.gates)}
            for pod in sorted(placer.pods.values(), key=lambda pod: (pod.request.namespace, pod.request.name))
            if len(pod.gates) > 1 and namespace in {None, pod.request.namespace}
        ],
        "unreadable": [
            {"namespace": pod.namespace, "name": pod.name, "why": pod.why}
            for pod in placer.stuck()
            if namespace in {None, pod.namespace}
        ],
        "next": [f"{release.pod.namespace}/{release.pod.name}" for release in made.releases],
    }


def blocks(document: Json, *, wide: bool) -> list[Block]:
    """`wide` lists the pods."""
    settings = document["settings"]
    waiting, queues = counted(document["waiting"], "pod"), counted(len(document["queues"]), "queue")
    lines = [
        ("waiting", f"{waiting} in {queues} (k = {settings['queues']})"),
        ("in hand", _in_hand(document)),
        ("next", ", ".join(document["next"]) or "nobody waits"),
    ]
    for priority, bound in document["releasesWithin"].items():
        lines.append(("bound", f"the last pod of priority {priority} is out within {bound} releases of it"))
    if others := document["heldByOthers"]:
        held = ", ".join(f"{pod['namespace']}/{pod['name']} ({', '.join(pod['gates'])})" for pod in others[:3])
        pods = counted(len(others), "pod")
        lines.append(("held", f"{pods} by other gates first: {held}"))
    unreadable = document["unreadable"]
    lines += [("stuck", f"{pod['namespace']}/{pod['name']} is in no queue: {pod['why']}") for pod in unreadable]
    tables = [_queues_table(document)] if document["queues"] else []
    if wide and document["queues"]:
        tables.append(_pods_table(document))
    return [Block("Queues", tuple(lines), tuple(tables))]


def _in_hand(document: Json) -> str:
    """Unbound pods without a gate; only the extender knows the beta slots."""
    stuck = f" ({document['unschedulable']} of them unschedulable)" if document["unschedulable"] else ""
    beta = document["settings"]["beta"]
    return f"{document['inHand']} without a gate are not yet bound{stuck}; beta = {beta} counts those it let through"


def _bounds(made: Round) -> dict[int, int]:
    """Releases until the last pod of each priority, before this round."""
    lengths: Counter[int] = Counter()
    for queue in made.queues:
        lengths[queue.priority] += queue.length
    return {priority: made.period * length for priority, length in lengths.items()}


def _queue(queue: Queue, made: Round) -> Json:
    peers = sum(other.weight for other in made.queues if other.priority == queue.priority)
    return {
        "id": queue.id,
        "priority": queue.priority,
        "length": queue.length,
        "medianWaitSeconds": round(queue.median_wait, 3),
        "weight": round(queue.weight, 3),
        "share": round(queue.weight / peers, 6),
    }


def _members(queue: Queue, pods: Iterable[Waiting]) -> list[Waiting]:
    shapes = set(queue.shapes)
    members = [pod for pod in pods if pod.priority == queue.priority and pod.shape in shapes]
    return sorted(members, key=lambda pod: (pod.since, pod.namespace, pod.name, pod.uid))


def _shapes(queue: Queue, members: Iterable[Waiting]) -> list[Json]:
    counts = Counter(pod.shape for pod in members)
    return [
        {
            "memoryMiB": shape.memory_mib or None,
            "computePercent": shape.compute or None,
            "namespace": shape.namespace or None,
            "model": shape.model or None,
            "gpus": shape.gpus,
            "pods": counts[shape],
        }
        for shape in queue.shapes
    ]


def _pods(members: Iterable[Waiting], order: Mapping[str, int], now: Seconds, namespace: str | None) -> list[Json]:
    return [
        {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "model": pod.model}
        | {"waitedSeconds": round(max(now - pod.since, 0.0), 3), "turn": order.get(pod.uid)}
        for pod in members
        if namespace in {None, pod.namespace}
    ]


def _queues_table(document: Json) -> Table:
    table = grid(">QUEUE", ">PRIORITY", ">PODS", ">MEDIAN WAIT", ">WEIGHT", ">SHARE", "SHAPES")
    for queue in document["queues"]:
        shapes = ", ".join(_shape(shape) for shape in queue["shapes"])
        wait, weight, share = f"{queue['medianWaitSeconds']:.0f} s", f"{queue['weight']:.0f}", f"{queue['share']:.0%}"
        table.add_row(str(queue["id"]), str(queue["priority"]), str(queue["length"]), wait, weight, share, shapes)
    return table


def _pods_table(document: Json) -> Table:
    table = grid(">QUEUE", "POD", "MODEL", ">WAITED", "NEXT ROUND")
    for queue in document["queues"]:
        for pod in queue["pods"]:
            turn = "" if pod["turn"] is None else f"turn {pod['turn'] + 1}"
            row = (f"{pod['namespace']}/{pod['name']}", pod["model"] or "", f"{pod['waitedSeconds']:.0f} s", turn)
            table.add_row(str(queue["id"]), *row)
    return table


def _shape(shape: Json) -> str:
    size = f"{shape['memoryMiB']} MiB" if shape["memoryMiB"] else "whole GPU" if shape["gpus"] else "no GPU"
    size += f" and {shape['computePercent']} %" if shape["computePercent"] else ""
    many = f"{shape['gpus']} x " if shape["gpus"] > 1 else ""
    model = f" of {shape['namespace']}/{shape['model']}" if shape["model"] else ""
    return f"{shape['pods']}: {many}{size}{model}"
