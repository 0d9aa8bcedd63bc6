"""Inconsistencies of the ledger, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hetserve.api import names
from hetserve.objects.fields import short
from hetserve.objects.gpu_sharing import hardest_pressed, terms_text
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.bookings import (
    Booking,
    GpuUse,
    models_since,
    pod_name,
    tenants,
    too_slow_text,
)
from hetserve.placement.pods.requests import LONGEST_LIST, AntiAffinity, GpuRequest, ModelKey
from hetserve.placement.pods.view import PodView, id_order

_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class LedgerProblem:
    """What does not add up. `pod`: namespace/name of the one that it is about; empty: none."""

    text: str
    pod: str = ""


def gpu_problems(use: GpuUse) -> Iterator[LedgerProblem]:
    """What a GPU holds and must not."""
    gpu, count = f"GPU {use.gpu.id} of node {use.node}", len(use.bookings)
    whole = [booking for booking in use.bookings if booking.request.whole]
    if whole and count > 1:
        holder = pod_name(whole[0].request)
        yield LedgerProblem(f"{gpu} is held whole by pod {holder} and holds {count} pods", holder)
    elif use.free_mib < 0:
        memory = use.gpu.memory_mib
        yield LedgerProblem(f"{gpu}: {memory - use.free_mib} MiB are held of {memory}")
    if not use.gpu.healthy and use.bookings:
        yield LedgerProblem(f"{gpu} is unhealthy and holds {count} pods")
    booked, undeclared = use.booked_compute, use.undeclared
    if not whole and booked > WHOLE_COMPUTE:
        yield _over_booked(use, gpu)
    if not whole and undeclared and booked:
        first = pod_name(undeclared[0].request)
        pods = first if len(undeclared) == 1 else f"{first} and {len(undeclared) - 1} more"
        yield LedgerProblem(
            f"{gpu}: {booked} percent of its compute is booked beside pods that declare none: {pods}", first
        )
    for model, pods_of_it in models_twice(use):
        yield LedgerProblem(f"{gpu} holds model {'/'.join(model)} {pods_of_it} times")


def _over_booked(use: GpuUse, gpu: str) -> LedgerProblem:
    """Of a GPU with more compute booked than it has, or with pods that are slowed down more than they tolerate."""
    paired = tenants(use.bookings)
    if paired is None:
        return LedgerProblem(f"{gpu}: {use.booked_compute} percent of its compute is booked")
    who = [pod_name(booking.request) for booking in use.bookings]
    return LedgerProblem(f"{gpu}: pod {too_slow_text(who, paired, 'takes')}", who[hardest_pressed(paired)[0]])


def models_twice(use: GpuUse) -> Iterator[tuple[ModelKey, int]]:
    """(model, pods) of each model that must not be twice on a GPU and is."""
    held, hard = Counter[ModelKey](), set[ModelKey]()
    for booking in use.bookings:
        request, others = booking.request, booking.other_keys
        own = () if request.model_key is None else (request.model_key,)
        held.update((*own, *others))
        hard.update(others, own if request.anti_affinity is AntiAffinity.HARD else ())
    yield from sorted((model, held[model]) for model in hard if held[model] > 1)


def refused_node(node: str, refused: str) -> str:
    """Of a node whose GPUs somebody else gives."""
    return f"node {node} takes no new pods: {refused}"


def unreadable_pod(pod: str, node: str, why: str) -> LedgerProblem:
    """Of a pod that cannot be read. node: the one that it closes; empty: none."""
    return _of_pod(pod, f": {why}" + (f"; node {node} takes no new pods while it is there" if node else ""))


def unlisted_gpus(booking: Booking, gpus: Sequence[str], *, node_known: bool) -> LedgerProblem:
    """Of a pod on GPUs that no inventory lists."""
    request, node = booking.request, f"node {booking.node}"
    amount = "a whole GPU" if request.whole else f"{request.memory_mib} MiB"
    wrong = f"{node} has no GPU {_few(sorted(gpus, key=id_order))}" if node_known else f"{node} is not known"
    return _of_pod(pod_name(request), f" holds {amount}, but {wrong}")


def through_plugin(booking: Booking) -> LedgerProblem:
    """Of a pod whose GPUs a device plugin chose."""
    through = f"holds GPUs of node {booking.node} through {', '.join(booking.through)}"
    closes = "and nobody knows which: the node takes no new pods until it ends"
    return _of_pod(pod_name(booking.request), f" {through}, {closes}")


def annotation_problem(pod: PodView) -> LedgerProblem | None:
    """What is wrong with a bound pod's annotations, compared with its request."""
    request, who = pod.request, pod_name(pod.request)
    asks = f" asks for {request.amount}"
    if not pod.gpus:
        why = f"its {_misnamed(pod.misnamed)}" if pod.misnamed else "no annotation says on which GPU"
        return _of_pod(who, f" is bound to {pod.node or ''} for {request.amount}, but {why}")
    if len(pod.gpus) != request.gpus:
        return _of_pod(who, f"{asks}, its annotation names GPU {_few(pod.gpus)}")
    if not _says_mib(request, str(pod.annotated_mib)):
        return _of_pod(who, f"{asks}, its annotation says {short(pod.annotated_mib)}")
    if pod.complaint is not None and pod.complaint.startswith(f"annotation {names.ANNOTATION_GPU_SHARING}"):
        return _of_pod(who, f": {pod.complaint}; its compute counts by {names.RESOURCE_GPU_COMPUTE} alone")
    if pod.annotated_compute == compute_note(request):
        return None
    asks = " declares no compute" if request.compute is None else asks
    return _of_pod(who, f"{asks}, its annotation {names.ANNOTATION_GPU_COMPUTE} says {short(pod.annotated_compute)}")


def compute_note(request: GpuRequest) -> str | None:
    """What the binding writes of compute: percent on each GPU; None: nothing, as none is declared."""
    return None if request.compute is None else ",".join([str(request.compute)] * request.gpus)


def edit_problem(held: Booking, pod: PodView) -> LedgerProblem | None:
    """Edits of a bound pod that its booking does not follow."""
    edits = list[str]()
    if pod.gpus != held.gpus:
        wrong = f"its {_misnamed(pod.misnamed)}" if pod.misnamed else f"annotation names GPU {_few(pod.gpus) or 'none'}"
        edits.append(f": {wrong}, it was bound to {_few(held.gpus)}")
    now, bound = pod.request.model, held.request.model
    if now != bound:
        edits.append(f" is of model {now or 'none'} now, it was bound as {bound or 'none'}: its GPU is kept from both")
    elif models_since(held, pod):
        edits.append(" no longer shares its GPU with its model, as it did when it was bound")
    if pod.request.sharing != held.request.sharing:
        says = f"annotation {names.ANNOTATION_GPU_SHARING} says {_terms(pod.request)}"
        edits.append(f": {says}, it was bound with {_terms(held.request)}")
    who = pod_name(pod.request)
    return LedgerProblem("; ".join(f"pod {who}{edit}" for edit in edits), who) if edits else None


def _terms(request: GpuRequest) -> str:
    return "no terms" if request.sharing is None else short(terms_text(request.sharing))


def _of_pod(who: str, says: str) -> LedgerProblem:
    return LedgerProblem(f"pod {who}{says}", who)


def _says_mib(request: GpuRequest, written: str) -> bool:
    """Whether an annotation says what a pod holds on each GPU; any number for a whole GPU."""
    if not request.whole:
        return written == ",".join([str(request.memory_mib)] * request.gpus)
    if len(written) > LONGEST_LIST or written.count(",") != request.gpus - 1:
        return False
    return all(text.isascii() and text.isdigit() for text in written.split(","))


def problem_lines(problems: Iterable[LedgerProblem]) -> tuple[str, ...]:
    """Texts in order."""
    return tuple(sorted(problem.text for problem in problems))


def _misnamed(why: str) -> str:
    return f"annotation {names.ANNOTATION_GPU} does not say which GPUs: {why}"


def _few(gpus: Sequence[str]) -> str:
    more = len(gpus) - _SHOWN
    return ",".join(gpus[:_SHOWN]) + (f" and {more} others" if more > 0 else "")
