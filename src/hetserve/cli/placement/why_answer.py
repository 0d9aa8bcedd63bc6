"""`hetserve why`'s document: the core's decision over a snapshot, and reasons per GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetserve.api import names
from hetserve.cli.cluster.snapshot import ClusterSnapshot
from hetserve.cli.placement.node_rules import NodeRule, against_node, not_judged, rule_text
from hetserve.cli.placement.placed import placer_of, pod_document
from hetserve.cli.placement.why_queue import place_in_queue
from hetserve.objects.fields import InvalidObjectError
from hetserve.objects.pod import Pod, PodOutline
from hetserve.placement.decision.decide import PlacementDecision, decide
from hetserve.placement.decision.explain import GpuVerdict, explain
from hetserve.placement.decision.wording import decision_text, offer_text, refusal_text
from hetserve.placement.ledger.bookings import UNNAMED, Booking, pod_name
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.placement.pods.view import PodView, parse_pod, unread_pod
from hetserve.placement.queues.rounds import ours_alone_holds

RawObject = Mapping[str, Any]
Json = dict[str, Any]


def answer(raw: RawObject, snapshot: ClusterSnapshot, policy: PolicyName, beta: int) -> Json:
    """`policy`, `beta`: of the installation."""
    named = PodOutline(raw).metadata
    made: Json = {"pod": {key: named.get(key) for key in ("namespace", "name", "uid")}}
    try:
        pod = parse_pod(raw)
        # A bound pod holds its GPUs whatever its annotations say now.
        request = pod.placeable() if pod.node is None else pod.request
    except InvalidObjectError as error:
        return made | {"state": "Unreadable", "message": _unreadable(raw, error)}
    made |= {"asks": request.amount, "request": _request(request)}
    if pod.finished:
        return made | {"state": "Finished", "message": f"has finished ({Pod(raw).phase}): it holds no GPU"}
    if not request.needs_gpu:
        return made | (_plugged(pod) if pod.holds else _not_ours(pod))
    placer = placer_of(snapshot)
    own = [problem for problem in placer.problems() if problem.pod == pod_name(request)]
    made["problems"] = list(problem_lines(own))
    held = placer.ledger.booking(request.uid)
    if held is not None:
        state = _holding(held, placer, raw, pod)
    elif pod.node is not None:
        state = {"state": "Bound", "message": f"is on node {pod.node} without a GPU of ours", "holds": None}
    elif pod.terminating:
        state = {"state": "Ending", "message": "is ending before it was placed: it gets no GPU any more"}
    else:
        state = _waiting(raw, pod, placer, snapshot, policy) | _queue(pod, placer, snapshot, beta)
    return made | state


def _request(request: GpuRequest) -> Json:
    selector = request.selector
    return {
        "gpus": request.gpus,
        "wholeGpus": request.whole,
        "memoryMiB": None if request.whole else request.memory_mib,
        "computePercent": request.compute,
        "model": request.model,
        "antiAffinity": request.anti_affinity.value,
        "policy": request.policy,
        "accepts": None if selector.accepts_all else str(selector),
        "priority": request.priority,
    }


def _unreadable(raw: RawObject, error: InvalidObjectError) -> str:
    bound = unread_pod(raw)
    if bound is None or bound.finished:
        return f"cannot be placed: {error}"
    if not bound.holds:
        return f"is on node {bound.node} and names no GPU; it cannot be read: {error}"
    return f"is on node {bound.node}, which takes no new pods while it is there, for it cannot be read: {error}"


def _plugged(pod: PodView) -> Json:
    return {
        "state": "NotOurs",
        "message": f"has GPUs of node {pod.node} through {', '.join(pod.through)}, and nobody knows which: the node"
        " takes no new pods until it ends",
    }


def _not_ours(pod: PodView) -> Json:
    gated = " but waits at our gate, which is lifted in its turn" if names.QUEUE_GATE in pod.gates else ""
    return {"state": "NotOurs", "message": f"asks for no {names.RESOURCE_GPU_MEMORY} and no GPU of ours{gated}"}


def _holding(held: Booking, placer: Placer, raw: RawObject, pod: PodView) -> Json:
    shared = [use for use in placer.ledger.gpus() if (use.node, use.gpu.id) in held.places]
    others = {b.request.uid: b for use in shared for b in use.bookings if b.request.uid != held.request.uid}
    scheduled = Pod(raw).condition("PodScheduled")
    ending = "; it is ending, and holds them until it is gone" if pod.terminating else ""
    amount = "whole" if held.request.whole else held.request.share
    each = " each" if held.request.gpus > 1 and not held.request.whole else ""
    since = scheduled.get("lastTransitionTime")
    return {
        "state": "Bound",
        "message": f"holds {_which(held)} of node {held.node}, {amount}{each}"
        + (f", since {since}" if since else "")
        + ending,
        "holds": {
            "node": held.node,
            "gpus": [_held_gpu(placer, held.node, gpu) for gpu in held.gpus],
            "since": since,
            "beside": [pod_document(booking) for booking in others.values()],
            "allNamed": UNNAMED not in held.gpus,
        },
    }


def _which(held: Booking) -> str:
    named = [gpu for gpu in held.gpus if gpu != UNNAMED]
    many = held.request.gpus > 1
    if not named:
        return f"{'GPUs' if many else 'a GPU'} that no annotation {names.ANNOTATION_GPU} names,"
    words = f"{'GPUs' if many else 'GPU'} {','.join(named)}"
    if held.through:
        return f"{words}, and others through {', '.join(held.through)},"
    return words if len(named) == len(held.gpus) else f"{words} and others that its annotation does not name,"


def _held_gpu(placer: Placer, node: str, gpu: str) -> Json:
    for use in placer.ledger.gpus():
        if (use.node, use.gpu.id) == (node, gpu):
            return {
                "gpu": gpu,
                "product": use.gpu.product,
                "memoryMiB": use.gpu.memory_mib,
                "freeMiB": use.free_mib,
                "freeComputePercent": use.free_compute,
                "healthy": use.gpu.healthy,
            }
    return {
        "gpu": None if gpu == UNNAMED else gpu,
        "product": None,
        "memoryMiB": None,
        "freeMiB": None,
        "freeComputePercent": None,
        "healthy": None,
    }


def _waiting(raw: RawObject, pod: PodView, placer: Placer, snapshot: ClusterSnapshot, policy: PolicyName) -> Json:
    request = pod.request
    closed = {node["metadata"]["name"]: against_node(raw, node) for node in snapshot.nodes}
    offered = sorted(name for name, reasons in closed.items() if not reasons)
    decision = decide(placer.ledger.index, request, offered, policy=policy, explain=True)
    verdicts = explain(placer.ledger, request)
    others = tuple(gate for gate in pod.gates if gate != names.QUEUE_GATE)
    scheduled = Pod(raw).condition("PodScheduled")
    return {
        "state": "Gated" if pod.gates else "Scheduling",
        "message": _message(pod, others, decision),
        "gates": list(pod.gates),
        "scheduler": {
            "name": pod.scheduler,
            "reason": scheduled.get("reason"),
            "message": scheduled.get("message"),
            "ours": pod.scheduler == names.SCHEDULER_NAME,
        },
        "decision": _decision(decision),
        "gpus": [_gpu(verdict, closed.get(verdict.node, ()), decision) for verdict in verdicts],
        "notJudged": list(not_judged(raw)),
    }


def _queue(pod: PodView, placer: Placer, snapshot: ClusterSnapshot, beta: int) -> Json:
    """Place in the queue; None behind another gate."""
    waits = ours_alone_holds(pod)
    return {"queue": place_in_queue(pod, placer, snapshot.taken_at, beta) if waits else None}


def _message(pod: PodView, others: Sequence[str], decision: PlacementDecision) -> str:
    now = f"{offer_text(decision.chosen)} fits now" if decision.chosen else "no GPU fits now"
    if others:
        return f"waits for {_listed('gate', others)}, which others lift; {now}"
    if pod.gates:
        return f"waits in the queue; {now}"
    if pod.scheduler != names.SCHEDULER_NAME:
        return f"is in the hands of scheduler {pod.scheduler}, which knows no GPUs of ours; {now}"
    return f"has no gate, so the scheduler has it in hand, and is not yet bound; {now}"


def _decision(decision: PlacementDecision) -> Json:
    chosen, runner_up = decision.chosen, decision.runner_up
    return {
        "policy": decision.policy,
        "chosen": None if chosen is None else {"node": chosen.node, "gpus": [gpu.id for gpu in chosen.gpus]},
        "why": decision_text(decision),
        "runnerUp": None if runner_up is None else offer_text(runner_up),
        "refusals": [{"reason": refusal_text(one), "nodes": len(one.nodes)} for one in decision.refusals],
    }


def _gpu(verdict: GpuVerdict, closed: Sequence[NodeRule], decision: PlacementDecision) -> Json:
    taken = decision.chosen is not None and (verdict.node, verdict.gpu.id) in decision.chosen.places
    reasons = [{"kind": "node", "text": rule_text(rule)} for rule in closed]
    reasons += [{"kind": reason.kind, "text": reason.text} for reason in verdict.reasons]
    return {
        "node": verdict.node,
        "gpu": verdict.gpu.id,
        "product": verdict.gpu.product,
        "memoryMiB": verdict.gpu.memory_mib,
        "freeMiB": verdict.free_mib,
        "freeComputePercent": verdict.free_compute,
        "pods": verdict.pods,
        "fits": not reasons,
        "chosen": taken,
        "reasons": reasons,
    }


def _listed(what: str, items: Sequence[str]) -> str:
    return f"{what}{'' if len(items) == 1 else 's'} {', '.join(items)}"
