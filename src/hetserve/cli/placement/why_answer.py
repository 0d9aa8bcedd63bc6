"""What `hetserve why` does and its document: the core's decision over a snapshot, and reasons per GPU."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NoReturn

import click

from hetserve.api import names
from hetserve.base.timestamps import timestamp
from hetserve.base.units import format_ratio
from hetserve.cli.cluster.client import ClusterError, absent, namespaced
from hetserve.cli.cluster.extender import Record, extender_settings, read_log, reader_token_of, system_namespace
from hetserve.cli.cluster.snapshot import ClusterSnapshot, Source, read_documents
from hetserve.cli.output import streams
from hetserve.cli.output.streams import EXIT_INFEASIBLE, show
from hetserve.cli.placement.placed import placer_of, pod_document
from hetserve.cli.placement.why_text import blocks
from hetserve.objects.fields import InvalidObjectError
from hetserve.objects.gpu_sharing import terms_text
from hetserve.objects.metadata import RawObject
from hetserve.objects.node import UNSCHEDULABLE, Node, Taint
from hetserve.objects.pod import Pod, PodOutline
from hetserve.placement.decision.decide import PlacementDecision, decide
from hetserve.placement.decision.explain import GpuVerdict, explain
from hetserve.placement.decision.wording import (
    choice_text,
    decision_text,
    offer_text,
    refusal_text,
    refusals_text,
)
from hetserve.placement.ledger.bookings import UNNAMED, Booking, GpuUse, pod_name
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.log.journal import HEADER, VERSION, offer_of, refusals_of
from hetserve.placement.log.replay import ReplayError, check_version
from hetserve.placement.placer import Placer
from hetserve.placement.pods.requests import DEFAULT_POLICY, GpuRequest, PolicyName, policy_name
from hetserve.placement.pods.view import PodView, parse_pod, unread_pod
from hetserve.placement.queues.rounds import OLDEST_EVERY, QueueSettings, ours_alone_holds, waiting

_DECISIONS: Final = 4
UID: Final = "not-created"
"""In the place of a UID: no pod of a cluster has this one."""
_MOST_BYTES: Final = 4 << 20
_TEMPLATES: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job")
Json = dict[str, Any]


def against_node(pod: RawObject, node: RawObject) -> tuple[str, ...]:
    """Rules, apart from GPUs, that refuse a node, in words."""
    spec, there = Pod(pod).spec, Node(node)
    return (*_selector(spec.get("nodeSelector") or {}, there), *_taints(spec.get("tolerations") or [], there))


def not_judged(pod: RawObject) -> tuple[str, ...]:
    """The scheduler's other rules that apply to this pod."""
    spec, containers = Pod(pod).spec, Pod(pod).containers
    affinity = spec.get("affinity") or {}
    found = [f"affinity.{kind}" for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity") if affinity.get(kind)]
    found += ["topologySpreadConstraints"] if spec.get("topologySpreadConstraints") else []
    asked = {name for container in containers for name in ((container.get("resources") or {}).get("requests") or {})}
    found += [name for name in sorted(asked) if not name.startswith("hetserve.io/")]
    found += ["volumes"] if any(volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or []) else []
    found += ["host ports"] if any(port.get("hostPort") for c in containers for port in c.get("ports") or []) else []
    return tuple(found)


def _selector(wanted: Mapping[str, str], node: Node) -> Iterator[str]:
    labels = node.labels
    for key, value in sorted(wanted.items()):
        if labels.get(key) != value:
            has = f"has {labels[key]!r}" if key in labels else "has none"
            yield f"nodeSelector {key}={value}: the node {has}"


def _taints(tolerations: Sequence[RawObject], node: Node) -> Iterator[str]:
    taints = [taint for taint in node.taints if taint.repels]
    if node.cordoned and not any(taint.key == UNSCHEDULABLE for taint in taints):
        taints.append(Taint(UNSCHEDULABLE, effect="NoSchedule"))
    for taint in taints:
        if any(map(taint.is_tolerated_by, tolerations)):
            continue
        value = f"={taint.value}" if taint.value else ""
        not_tolerated = f"taint {taint.key}{value}:{taint.effect} is not tolerated"
        yield "the node is cordoned" if taint.key == UNSCHEDULABLE else not_tolerated


def run(pod: str | None, namespace: str | None, every: bool, output: str, **given: str | None) -> NoReturn:
    """The command, with its options."""
    policy, log, named = given.pop("policy"), given.pop("log"), given.pop("system_namespace")
    filename = given.pop("filename")
    if (pod is None) == (filename is None):
        raise click.UsageError("name one POD, or a manifest by -f FILE")
    if filename is not None and (filename, given["file"]) == ("-", "-"):
        raise click.UsageError("-f - and --from - cannot both read standard input")
    source = Source.of(**given)
    snapshot, raw = _asked(source, pod, filename, namespace)
    system = system_namespace(source.cluster, named)
    installed = extender_settings(source.cluster, system)
    beta = int((installed.get("queue") or {}).get("beta", QueueSettings().beta))
    made = _answer(raw, snapshot, policy_name(policy or installed.get("policy", DEFAULT_POLICY)), beta)
    if filename is None:
        token = partial(reader_token_of, source.cluster, named)
        made |= _decided(str(made["pod"]["uid"]), log, snapshot, token)
    elif "decision" in made:
        made |= {"state": "NotCreated", "message": f"is not created; once it is, it {made['message']}"}
    show(made, output, lambda: blocks(made, every=every))
    if made["state"] == "Unreadable":
        sys.exit(2)
    sys.exit(EXIT_INFEASIBLE if _placeless(made) else 0)


def _asked(
    source: Source, pod: str | None, filename: str | None, namespace: str | None
) -> tuple[ClusterSnapshot, dict[str, Any]]:
    """(snapshot, the pod: of a name in it or of a manifest)."""
    if filename is not None:
        snapshot = source.snapshot()
        now = time.time() if snapshot.taken_at is None else snapshot.taken_at
        return snapshot, planned_pod(filename, namespace, source.namespace, now)
    assert pod is not None  # noqa: S101  one of them is given
    found = namespace or source.namespace
    snapshot = source.snapshot(whole=(found, pod))
    return snapshot, _find(source, snapshot, found, pod)


def _placeless(made: dict[str, Any]) -> bool:
    if made["state"] == "Ending":
        return True
    return "decision" in made and (made["decision"]["chosen"] is None or not made["scheduler"]["ours"])


def _decided(uid: str, where: str | None, snapshot: ClusterSnapshot, token: Callable[[], str]) -> dict[str, Any]:
    """A log's decisions about the pod; a log named by `where` must be readable. token: for a port that asks for one."""
    records = snapshot.log if where is None else read_log(where, token)
    if not records:
        return {}
    try:
        decided = list(_decisions_about(records, uid))[-_DECISIONS:]
    except ReplayError as error:
        if where is not None:
            raise ClusterError(f"{where}: {error}") from None
        streams.note(f"decisions about the pod are not shown: {error}")
        return {}
    return {
        "decided": [f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" {text}" for at, text in decided]
    }


def _find(source: Source, snapshot: ClusterSnapshot, namespace: str, name: str) -> dict[str, Any]:
    """The pod; a finished one is read alone."""
    for raw in snapshot.pods:
        metadata = raw.get("metadata") or {}
        if (metadata.get("namespace", "default"), metadata.get("name")) == (namespace, name):
            return raw
    found = None if source.cluster is None else source.cluster.find(namespaced("v1", namespace, "pods", name))
    if found is None:
        raise absent("pod", namespace, name)
    return found


def _answer(raw: RawObject, snapshot: ClusterSnapshot, policy: PolicyName, beta: int) -> Json:
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
        place = _place_in_queue(pod, placer, snapshot.taken_at, beta) if ours_alone_holds(pod) else None
        state = _waiting(raw, pod, placer, snapshot, policy) | {"queue": place}
    return made | state


def _request(request: GpuRequest) -> Json:
    selector = request.selector
    return {
        "gpus": request.gpus,
        "wholeGpus": request.whole,
        "memoryMiB": None if request.whole else request.memory_mib,
        "computePercent": request.compute,
        "sharing": None if request.sharing is None else terms_text(request.sharing),
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
            "gpus": [_held_gpu(shared, held, gpu) for gpu in held.gpus],
            "since": since,
            "beside": [pod_document(booking) | {"adds": _adds(booking, held)} for booking in others.values()],
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


def _held_gpu(shared: Sequence[GpuUse], held: Booking, gpu: str) -> Json:
    use = next((use for use in shared if use.gpu.id == gpu), None)
    found = {} if use is None else use.document() | {"sharing": use.shared_on_terms().get(held.request.uid)}
    keys = ("product", "memoryMiB", "freeMiB", "freeComputePercent", "healthy", "sharing")
    return {"gpu": None if gpu == UNNAMED else gpu, **{key: found.get(key) for key in keys}}


def _adds(other: Booking, held: Booking) -> str | None:
    """How many times of its time alone a neighbour adds to a pod; None: one of them has no terms."""
    by, to = other.tenant, held.tenant
    return None if by is None or to is None else format_ratio(by.adds_to(to))


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


def _message(pod: PodView, others: Sequence[str], decision: PlacementDecision) -> str:
    now = f"{offer_text(decision.chosen)} fits now" if decision.chosen else "no GPU fits now"
    if others:
        return f"waits for {'gate' if len(others) == 1 else 'gates'} {', '.join(others)}, which others lift; {now}"
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


def _gpu(verdict: GpuVerdict, closed: Sequence[str], decision: PlacementDecision) -> Json:
    taken = decision.chosen is not None and (verdict.node, verdict.gpu.id) in decision.chosen.places
    reasons = [{"kind": "node", "text": rule} for rule in closed]
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


def _place_in_queue(pod: PodView, placer: Placer, taken_at: float | None, beta: int) -> dict[str, Any]:
    """Numbers of waiting and of older pods, and of releases until the pod's at the latest."""
    line = [other for other in placer.pods.values() if ours_alone_holds(other) or other.uid == pod.uid]
    peers = [other for other in line if other.request.priority == pod.request.priority]
    older = sum(_age(other) < _age(pod) for other in peers)
    alike = [other for other in peers if waiting(other).shape == waiting(pod).shape]
    now = time.time() if taken_at is None else taken_at
    return {
        "waiting": len(line),
        "higherPriority": sum(other.request.priority > pod.request.priority for other in line),
        "samePriority": len(peers),
        "older": older,
        "alike": len(alike),
        "olderAlike": sum(_age(other) < _age(pod) for other in alike),
        "releasedWithin": OLDEST_EVERY * (older + 1),
        "beta": beta,
        "waitedSeconds": round(max(now - pod.created_at, 0.0), 3),
    }


def _age(pod: PodView) -> tuple[float, str, str, str]:
    request = pod.request
    return pod.created_at, request.namespace, request.name, request.uid


def _decisions_about(records: Iterable[Record], uid: str) -> Iterator[tuple[float, str]]:
    """(time of day, words) of a pod's filters and binds. Raises ReplayError."""
    offset = 0.0
    for number, record in enumerate(records, start=1):
        try:
            call, args = record.get("call"), record.get("args") or {}
            if call == HEADER:
                check_version(record)
                offset = float(record["wall"]) - float(record["t"])
            about = ((args.get("raw") or {}).get("metadata") or {}).get("uid") or (args.get("request") or {}).get("uid")
            if about == uid and call in {"filter", "fix_gpus"}:
                yield float(record["t"]) + offset, _words(call, record)
        except KeyError as error:
            raise ReplayError(
                f"record {number} ({record.get('call')}) has no field {error}: a log of version {VERSION} has it;"
                " use the hetserve that wrote it"
            ) from None


def _words(call: str, record: Record) -> str:
    if "error" in record:
        return f"{'filter' if call == 'filter' else 'bind'}: {record['message']}"
    result = record["result"]
    if call == "fix_gpus":
        return f"bind: GPU {','.join(result['gpus'])} of {result['node']}"
    if chosen := offer_of(result.get("chosen")):
        return f"filter: {choice_text(chosen, offer_of(result.get('runnerUp')))}"
    passed = result["passed"]["count"] if isinstance(result["passed"], dict) else len(result["passed"])
    passed += result.get("beside", 0)
    if passed:
        return f"filter: {passed} nodes pass"
    request = parse_pod(record["args"]["raw"]).request
    return f"filter: refused; {refusals_text(refusals_of(result.get('refused', ()), request))}"


def planned_pod(path: str, namespace: str | None, default: str, now: float) -> Json:
    """The one Pod of a YAML or JSON file ("-": standard input), or one pod of a workload's template.

    namespace: asked for; None: the manifest's, else `default`. now: s since 1970, when it would be created. Raises
    ClusterError.
    """
    raw = _pod(_manifest(path), path)
    metadata, spec = dict(_mapping(raw, "metadata", path)), dict(_mapping(raw, "spec", path))
    written = metadata.get("namespace")
    if None not in (written, namespace) and written != namespace:
        raise ClusterError(f"-f {path}: metadata.namespace is {written}, -n says {namespace}; leave one of them out")
    if spec.get("nodeName"):
        raise ClusterError(
            f"-f {path}: spec.nodeName: {spec['nodeName']!r} passes every scheduler by, so that no GPU is booked;"
            " leave it out"
        )
    metadata |= {
        "name": metadata.get("name") or metadata.get("generateName") or "pod",
        "namespace": written or namespace or default,
        "uid": UID,
        "creationTimestamp": timestamp(now),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}


def _manifest(path: str) -> Json:
    documents = read_documents("-f", path, _MOST_BYTES)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ClusterError(f"-f {path}: holds {len(documents)} documents; one manifest of a pod is wanted")
    return documents[0]


def _pod(raw: Json, path: str) -> Json:
    kind = raw.get("kind")
    if kind == "Pod":
        return raw
    if kind not in _TEMPLATES:
        raise ClusterError(f"-f {path}: kind: {kind!r} is neither Pod nor one of {', '.join(_TEMPLATES)}")
    owner = _mapping(raw, "metadata", path)
    template = _mapping(_mapping(raw, "spec", path), "template", path)
    ours = {key: owner[key] for key in ("name", "namespace") if key in owner}
    return {"metadata": _mapping(template, "metadata", path) | ours, "spec": _mapping(template, "spec", path)}


def _mapping(raw: Json, key: str, path: str) -> Json:
    found = raw.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ClusterError(f"-f {path}: {key}: {found!r} is no mapping")
    return found
