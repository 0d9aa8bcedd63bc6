"""Writes the answers for services, and reports those without a plan."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from hetserve.api.conditions import Reason
from hetserve.cli.capacity.inputs import Overrides, choose, problem_of
from hetserve.cli.output import messages
from hetserve.cli.output.documents import dump
from hetserve.cli.output.messages import EXIT_BAD_INPUT, EXIT_INFEASIBLE
from hetserve.cli.output.plots import draw_or_refuse

if TYPE_CHECKING:
    from hetserve.api.inference_service import InferenceService
    from hetserve.api.manifests import Manifests
    from hetserve.planning import Problem, Unplannable

T = TypeVar("T")


class NotPlannedError(Exception):
    """No plan: a reason of hetserve.api.conditions, and one sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message = reason, message


@dataclass(frozen=True, slots=True)
class NotPlanned:
    service: str
    model: str
    reason: str
    message: str

    def document(self) -> dict[str, Any]:
        outcome = {"feasible": False, "reason": self.reason, "message": self.message}
        return {"service": self.service, "model": self.model, **outcome}


def planned(problem: Problem | Unplannable) -> Problem:
    """The problem itself. Raises NotPlannedError."""
    from hetserve.planning import Unplannable  # noqa: PLC0415

    if isinstance(problem, Unplannable):
        raise NotPlannedError(str(problem.reason), problem.message)
    return problem


def each(services: Iterable[InferenceService], work: Callable[[InferenceService], T]) -> list[T | NotPlanned]:
    """Results of `work` in order; NotPlanned for a NotPlannedError."""
    found: list[T | NotPlanned] = []
    for one in services:
        try:
            found.append(work(one))
        except NotPlannedError as why:
            found.append(NotPlanned(one.metadata.name, one.spec.model.name, why.reason, why.message))
    return found


def each_problem(
    files: tuple[str, ...],
    name: str | None,
    overrides: Overrides,
    work: Callable[[InferenceService, Problem, Manifests], T],
) -> list[T | NotPlanned]:
    """As `each`, of the services of the files with their problems; name: as of `choose`."""
    from hetserve.api.manifests import read_manifests  # noqa: PLC0415

    manifests = read_manifests(files)
    services = choose(manifests, name, files)
    return each(services, lambda one: work(one, planned(problem_of(one, manifests, overrides)), manifests))


def answered(found: Sequence[T | NotPlanned]) -> list[T]:
    return [one for one in found if not isinstance(one, NotPlanned)]


def finish(  # noqa: PLR0917
    found: Sequence[T | NotPlanned],
    output: str,
    plot: str | None,
    document: Callable[[T], dict[str, Any]],
    table: Callable[[Sequence[T]], str],
    draw: Callable[[Sequence[T], str], None],
    *,
    holds: bool,
) -> NoReturn:
    """Writes the answers as `output`, draws them to `plot`, reports refused services on stderr, and exits.

    A table leaves out the refused services. Exit code: 2 for bad input, 3 for no feasible answer, else 0.
    """
    results = answered(found)
    if plot is not None and results:
        draw_or_refuse(lambda: draw(results, plot), plot)
    documents = [one.document() if isinstance(one, NotPlanned) else document(one) for one in found]
    text = dump(documents, output) if output != "table" else table(results) if results else ""
    click.echo(text, nl=False)
    refused = [one for one in found if isinstance(one, NotPlanned)]
    for one in refused:
        messages.error(f"{one.service}: {one.reason}: {one.message}")
    sys.exit(exit_code([one.reason for one in refused], infeasible=bool(refused) or not holds))


def exit_code(reasons: Iterable[str], *, infeasible: bool) -> int:
    if Reason.SPEC_INVALID in {str(reason) for reason in reasons}:
        return EXIT_BAD_INPUT
    return EXIT_INFEASIBLE if infeasible else 0
