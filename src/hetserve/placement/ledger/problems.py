"""Inconsistencies of the ledger, as values, and their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hetserve.api import names
from hetserve.base.units import MiB, Percent
from hetserve.objects.fields import short
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.bookings import Booking, GpuUse, models_since, pod_name
from hetserve.placement.pods.requests import LONGEST_LIST, AntiAffinity, GpuRequest, ModelKey
from hetserve.placement.pods.view import PodView, id_order

_SHOWN: Final = 8


class GpuProblemKind(Enum):
    HELD_WHOLE_AND_SHARED = "held-whole-and-shared"
    OVER_USED = "over-used"
    UNHEALTHY_IN_USE = "unhealthy-in-use"
    MODEL_TWICE = "model-twice"
    COMPUTE_OVER_USED = "compute-over-used"
    UNDECLARED_BESIDE_DECLARED = "undeclared-beside-declared"


class PodProblemKind(Enum):
    UNREADABLE = "unreadable"
    NODE_UNKNOWN = "node-unknown"
    GPU_UNLISTED = "gpu-unlisted"
    DEVICE_PLUGIN = "device-plugin"
    GPU_NOT_NAMED = "gpu-not-named"
    OTHER_GPU_COUNT = "other-gpu-count"
    OTHER_MEMORY = "other-memory"
    OTHER_COMPUTE = "other-compute"
    GPUS_EDITED = "gpus-edited"
    MODEL_EDITED = "model-edited"
    SHARES_NO_MORE = "shares-no-more"


@dataclass(frozen=True, slots=True)
class NodeProblem:
    text: str

    @property
    def pod(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class GpuProblem:
    """A GPU that holds what it must not.

    `count`: pods on it, those of `model`, or those that declare no compute; `pod`: its whole holder, or the first of
    these; `held_compute`: percent.
    """

    kind: GpuProblemKind
    node: str
    gpu: str
    count: int
    held_mib: MiB = MiB(0)
    memory_mib: MiB = MiB(0)
    model: ModelKey = ("", "")
    pod: str = ""
    held_compute: Percent = Percent(0)


@dataclass(frozen=True, slots=True)
class PodProblem:
    """A pod (namespace/name) that does not say what it holds, or holds what nobody lists.

    `gpus`: ids that it names now; `bound_gpus`, `bound_model`: as it was bound; `text`: an annotation's text or an
    error; `also`: a second problem.
    """

    kind: PodProblemKind
    pod: str
    node: str = ""
    request: GpuRequest | None = None
    gpus: tuple[str, ...] = ()
    bound_gpus: tuple[str, ...] = ()
    model: str | None = None
    bound_model: str | None = None
    through: tuple[str, ...] = ()
    text: str = ""
    also: PodProblem | None = None


Problem = NodeProblem | GpuProblem | PodProblem


def gpu_problems(use: GpuUse) -> Iterator[GpuProblem]:
    node, gpu, count = use.node, use.gpu.id, len(use.bookings)
    whole = [booking for booking in use.bookings if booking.request.whole]
    if whole and count > 1:
        holder = pod_name(whole[0].request)
        yield GpuProblem(GpuProblemKind.HELD_WHOLE_AND_SHARED, node, gpu, count, pod=holder)
    elif use.free_mib < 0:
        memory = use.gpu.memory_mib
        yield GpuProblem(GpuProblemKind.OVER_USED, node, gpu, count, MiB(memory - use.free_mib), memory)
    if not use.gpu.healthy and use.bookings:
        yield GpuProblem(GpuProblemKind.UNHEALTHY_IN_USE, node, gpu, count)
    if not whole:
        yield from _compute_problems(use)
    for model, pods in _models_twice(use):
        yield GpuProblem(GpuProblemKind.MODEL_TWICE, node, gpu, pods, model=model)


def _compute_problems(use: GpuUse) -> Iterator[GpuProblem]:
    """Of a GPU that nobody holds whole: more compute booked than there is, and pods that declare none beside others."""
    node, gpu, booked, undeclared = use.node, use.gpu.id, use.booked_compute, use.undeclared
    if booked > WHOLE_COMPUTE:
        yield GpuProblem(GpuProblemKind.COMPUTE_OVER_USED, node, gpu, len(use.bookings), held_compute=booked)
    if undeclared and booked:
        first, kind = pod_name(undeclared[0].request), GpuProblemKind.UNDECLARED_BESIDE_DECLARED
        yield GpuProblem(kind, node, gpu, len(undeclared), pod=first, held_compute=booked)


def _models_twice(use: GpuUse) -> Iterator[tuple[ModelKey, int]]:
    """(model, pods) of each model that must not be twice on a GPU and is."""
    held, hard = Counter[ModelKey](), set[ModelKey]()
    for booking in use.bookings:
        request, others = booking.request, booking.other_keys
        own = () if request.model_key is None else (request.model_key,)
        held.update((*own, *others))
        hard.update(others, own if request.anti_affinity is AntiAffinity.HARD else ())
    yield from sorted((model, held[model]) for model in hard if held[model] > 1)


def unlisted_gpus(booking: Booking, gpus: Sequence[str], *, node_known: bool) -> PodProblem:
    kind = PodProblemKind.GPU_UNLISTED if node_known else PodProblemKind.NODE_UNKNOWN
    listed = tuple(sorted(gpus, key=id_order))
    return PodProblem(kind, pod_name(booking.request), booking.node, booking.request, listed)


def through_plugin(booking: Booking) -> PodProblem:
    pod, kind = pod_name(booking.request), PodProblemKind.DEVICE_PLUGIN
    return PodProblem(kind, pod, booking.node, through=booking.through)


def annotation_problem(pod: PodView) -> PodProblem | None:
    """What is wrong with a bound pod's annotations, compared with its request."""
    request, node = pod.request, pod.node or ""
    who = pod_name(request)
    if not pod.gpus:
        return PodProblem(PodProblemKind.GPU_NOT_NAMED, who, node, request, text=pod.misnamed or "")
    if len(pod.gpus) != request.gpus:
        return PodProblem(PodProblemKind.OTHER_GPU_COUNT, who, node, request, pod.gpus)
    if not _says_mib(request, str(pod.annotated_mib)):
        return PodProblem(PodProblemKind.OTHER_MEMORY, who, node, request, text=short(pod.annotated_mib))
    if pod.annotated_compute == compute_note(request):
        return None
    return PodProblem(PodProblemKind.OTHER_COMPUTE, who, node, request, text=short(pod.annotated_compute))


def compute_note(request: GpuRequest) -> str | None:
    """What the binding writes of compute: percent on each GPU; None: nothing, as none is declared."""
    return None if request.compute is None else ",".join([str(request.compute)] * request.gpus)


def edit_problem(held: Booking, pod: PodView) -> PodProblem | None:
    """Edits of a bound pod that its booking does not follow."""
    who, node = pod_name(pod.request), pod.node or ""
    models: PodProblem | None = None
    if models_since(held, pod) or pod.request.model != held.request.model:
        now, bound = pod.request.model, held.request.model
        kind = PodProblemKind.SHARES_NO_MORE if now == bound else PodProblemKind.MODEL_EDITED
        models = PodProblem(kind, who, node, model=now, bound_model=bound)
    if pod.gpus == held.gpus:
        return models
    kind, misnamed = PodProblemKind.GPUS_EDITED, pod.misnamed or ""
    return PodProblem(kind, who, node, gpus=pod.gpus, bound_gpus=held.gpus, text=misnamed, also=models)


def _says_mib(request: GpuRequest, written: str) -> bool:
    """Whether an annotation says what a pod holds on each GPU; any number for a whole GPU."""
    if not request.whole:
        return written == ",".join([str(request.memory_mib)] * request.gpus)
    if len(written) > LONGEST_LIST or written.count(",") != request.gpus - 1:
        return False
    return all(text.isascii() and text.isdigit() for text in written.split(","))


def problem_lines(problems: Iterable[Problem]) -> tuple[str, ...]:
    return tuple(sorted(map(problem_text, problems)))


def problem_text(problem: Problem) -> str:
    if isinstance(problem, NodeProblem):
        return problem.text
    if isinstance(problem, GpuProblem):
        return f"GPU {problem.gpu} of node {problem.node}{_GPU_TEXTS[problem.kind](problem)}"
    text = f"pod {problem.pod}{_POD_TEXTS[problem.kind](problem)}"
    return text if problem.also is None else f"{text}; {problem_text(problem.also)}"


def _unreadable(problem: PodProblem) -> str:
    closes = f"; node {problem.node} takes no new pods while it is there" if problem.node else ""
    return f": {problem.text}{closes}"


def _unknown(problem: PodProblem) -> str:
    amount = "a whole GPU" if _request(problem).whole else f"{_request(problem).memory_mib} MiB"
    if problem.kind is PodProblemKind.NODE_UNKNOWN:
        return f" holds {amount}, but node {problem.node} is not known"
    return f" holds {amount}, but node {problem.node} has no GPU {_few(problem.gpus)}"


def _through_plugin(problem: PodProblem) -> str:
    through = ", ".join(problem.through)
    return (
        f" holds GPUs of node {problem.node} through {through}, and nobody knows which:"
        " the node takes no new pods until it ends"
    )


def _not_named(problem: PodProblem) -> str:
    why = f"its {_misnamed(problem)}" if problem.text else "no annotation says on which GPU"
    return f" is bound to {problem.node} for {_request(problem).amount}, but {why}"


def _other_count(problem: PodProblem) -> str:
    return f" asks for {_request(problem).amount}, its annotation names GPU {_few(problem.gpus)}"


def _other_memory(problem: PodProblem) -> str:
    return f" asks for {_request(problem).amount}, its annotation says {problem.text}"


def _other_compute(problem: PodProblem) -> str:
    request = _request(problem)
    asks = "declares no compute" if request.compute is None else f"asks for {request.amount}"
    return f" {asks}, its annotation {names.ANNOTATION_GPU_COMPUTE} says {problem.text}"


def _undeclared(problem: GpuProblem) -> str:
    pods = problem.pod if problem.count == 1 else f"{problem.pod} and {problem.count - 1} more"
    return f": {problem.held_compute} percent of its compute is booked beside pods that declare none: {pods}"


def _gpus_edited(problem: PodProblem) -> str:
    bound = _few(problem.bound_gpus)
    if problem.text:
        return f": its {_misnamed(problem)}, it was bound to {bound}"
    return f": annotation names GPU {_few(problem.gpus) or 'none'}, it was bound to {bound}"


def _model_edited(problem: PodProblem) -> str:
    now, bound = problem.model or "none", problem.bound_model or "none"
    return f" is of model {now} now, it was bound as {bound}: its GPU is kept from both"


def _shares_no_more(_problem: PodProblem) -> str:
    return " no longer shares its GPU with its model, as it did when it was bound"


def _request(problem: PodProblem) -> GpuRequest:
    if problem.request is None:
        raise AssertionError(f"{problem.kind} without a request")
    return problem.request


def _misnamed(problem: PodProblem) -> str:
    return f"annotation {names.ANNOTATION_GPU} does not say which GPUs: {problem.text}"


def _few(gpus: Sequence[str]) -> str:
    more = len(gpus) - _SHOWN
    return ",".join(gpus[:_SHOWN]) + (f" and {more} others" if more > 0 else "")


_GPU_TEXTS: Final[Mapping[GpuProblemKind, Callable[[GpuProblem], str]]] = {
    GpuProblemKind.HELD_WHOLE_AND_SHARED: lambda one: f" is held whole by pod {one.pod} and holds {one.count} pods",
    GpuProblemKind.OVER_USED: lambda one: f": {one.held_mib} MiB are held of {one.memory_mib}",
    GpuProblemKind.UNHEALTHY_IN_USE: lambda one: f" is unhealthy and holds {one.count} pods",
    GpuProblemKind.COMPUTE_OVER_USED: lambda one: f": {one.held_compute} percent of its compute is booked",
    GpuProblemKind.UNDECLARED_BESIDE_DECLARED: _undeclared,
    GpuProblemKind.MODEL_TWICE: lambda one: f" holds model {'/'.join(one.model)} {one.count} times",
}
_POD_TEXTS: Final[Mapping[PodProblemKind, Callable[[PodProblem], str]]] = {
    PodProblemKind.UNREADABLE: _unreadable,
    PodProblemKind.NODE_UNKNOWN: _unknown,
    PodProblemKind.GPU_UNLISTED: _unknown,
    PodProblemKind.DEVICE_PLUGIN: _through_plugin,
    PodProblemKind.GPU_NOT_NAMED: _not_named,
    PodProblemKind.OTHER_GPU_COUNT: _other_count,
    PodProblemKind.OTHER_MEMORY: _other_memory,
    PodProblemKind.OTHER_COMPUTE: _other_compute,
    PodProblemKind.GPUS_EDITED: _gpus_edited,
    PodProblemKind.MODEL_EDITED: _model_edited,
    PodProblemKind.SHARES_NO_MORE: _shares_no_more,
}
