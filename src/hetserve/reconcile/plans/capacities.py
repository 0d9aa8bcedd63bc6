"""What the instances in force hold, as planners answered: kept in status.capacity, so a restart asks that no more.

Nor what fewer of them hold. What those hold that missed the SLO before is not kept, and few services ask it.

A figure is of counts, profiles, SLO, mix and policy, and of no load: it moves only when one of these does. Its digest
says which they were, and covers the figures themselves. What does not match is not known, and is asked again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from hetserve import __version__, scaling
from hetserve.base.units import QPS
from hetserve.planning.plan import Counts
from hetserve.planning.problem import Problem
from hetserve.planning.reach import Capacity, PlannerJob
from hetserve.reconcile.plans.plan_record import MOST_LOAD, Json
from hetserve.scaling.plans.capacity import capacity_work
from hetserve.scaling.plans.counts import in_order, nonzero, total, without
from hetserve.scaling.record.codec import text_of

_DIGITS: Final = 16
_MOST_WORKS: Final = 4096


class Capacities:
    """Of a service: what planners answered before, and what they answer now.

    problem: of the service; in_force: as of `Facts`; stored: status.capacity of the service.
    """

    def __init__(self, problem: Problem, in_force: scaling.InForce | None, stored: object) -> None:
        self._problem = problem
        self._stored = stored if isinstance(stored, Mapping) else None
        self._counts: Counts | None = None if in_force is None else in_order(in_force.counts, problem)
        self._known = _read(problem, self._counts, self._stored)
        self._learned = False

    def answering(self, ask: scaling.Ask) -> scaling.Ask:
        """The planners, without questions whose answers are known."""

        def known_first(work: PlannerJob) -> scaling.Answer:
            if work.kind != "Capacity" or work.counts is None:
                return ask(work)
            found = self._known.get(work.counts)
            if found is not None:
                return found
            answer = ask(work)
            if isinstance(answer, Capacity):
                self._known[work.counts] = answer
                self._learned = True
            return answer

        return known_first

    def told(self, counts: Counts) -> Json | None:
        """What status.capacity says of counts in force from now on; None: what they hold is not known."""
        counts = in_order(counts, self._problem)
        if self._stored is not None and self._known and not self._learned and counts == self._counts:
            return dict(self._stored)
        own = self._known.get(nonzero(counts))
        if own is None or not total(counts):
            return None
        fewer = {name: self._known.get(nonzero(without(counts, name))) for name, _ in nonzero(counts)}
        known = {name: one for name, one in fewer.items() if one is not None}
        less = [{"instanceType": name, **_figure(one)} for name, one in known.items()]
        return {**_figure(own), "oneFewer": less, "inputs": _digest(self._problem, counts, own, known)}


def _read(problem: Problem, counts: Counts | None, stored: Mapping[str, Any] | None) -> dict[Counts, Capacity]:
    """The figures of a status by their counts; none if they cannot be read, or stand on something else."""
    if stored is None or counts is None:
        return {}
    try:
        own = _capacity(stored)
        fewer = {str(one["instanceType"]): _capacity(one) for one in stored.get("oneFewer") or ()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
    if not fewer.keys() <= dict(nonzero(counts)).keys():
        return {}
    if stored.get("inputs") != _digest(problem, counts, own, fewer):
        return {}
    known = {nonzero(without(counts, name)): one for name, one in fewer.items()}
    return {**known, nonzero(counts): own}


def _figure(found: Capacity) -> Json:
    """Every digit, so that a decision is the same after a restart."""
    return {"qps": repr(float(found.held)), "tried": found.tried}


def _capacity(told: Mapping[str, Any]) -> Capacity:
    """Raises KeyError and ValueError for what is no figure."""
    held, tried = float(str(told["qps"])), told["tried"]
    if not (math.isfinite(held) and 0 <= held <= MOST_LOAD and isinstance(tried, bool)):
        raise ValueError(f"{told!r} is no capacity")
    return Capacity(QPS(held), tried)


def _digest(problem: Problem, counts: Counts, own: Capacity, fewer: Mapping[str, Capacity]) -> str:
    text = f"{_basis(capacity_work(problem, counts))} {own!r} {sorted(fewer.items())!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


@lru_cache(maxsize=_MOST_WORKS)
def _basis(work: PlannerJob) -> str:
    """Digest of what figures stand on: the question, and the version that answers it."""
    return hashlib.sha256(f"{__version__} {text_of(work, PlannerJob)}".encode()).hexdigest()
