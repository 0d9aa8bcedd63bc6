"""The election as one process has it: the shipped Elector and Candidate over a Lease that the check plays.

When a term begins and ends the check decides; what the process concludes from what it reads (whether it goes on after
a lapse, whether it was handed the Lease) is the shipped code's own. Requests about the Lease are answered at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.connection import RawObject
from hetserve_shell.leader.elector import Elector
from hetserve_shell.leader.lease import Candidate, Terms

TERMS: Final = Terms()
OVER: Final = TERMS.duration + 1.0
"""Seconds after which no term lasts that was not renewed, and a Lease that stood still may be taken."""
OTHER: Final = "another process"
NOBODY: Final = ""


def identity(who: int) -> str:
    """How a process calls itself in the Lease. One that is started again is another, and holds no Lease of before."""
    return f"process{who}"


class Watch:
    """A clock that stands still but for changes of leader."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now


@dataclass(slots=True)
class PlayedLease:
    """The Lease at the API server. Its version stands still: nobody writes between a read and a write here."""

    holder: str = NOBODY

    async def request(
        self,
        method: str,
        path: str,  # noqa: ARG002  (there is no other)
        *,
        query: Mapping[str, str] | None = None,  # noqa: ARG002
        body: Any = None,
        content_type: str = "",  # noqa: ARG002
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
        unless: object = None,  # noqa: ARG002
    ) -> Answer:
        if method == "PUT":
            self.holder = body["spec"]["holderIdentity"]
        return Answer(200, orjson.dumps(self._raw()))

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError("an elector reads")

    def _raw(self) -> RawObject:
        spec = {"holderIdentity": self.holder, "leaseDurationSeconds": int(TERMS.duration), "renewTime": "before"}
        return {"metadata": {"resourceVersion": "1"}, "spec": spec}


async def _at_once(_seconds: float) -> None:
    """Pauses change nothing here."""


def _done(work: Coroutine[Any, Any, object]) -> None:
    """Run what never waits, as everything is answered at once."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("the election waits")


@dataclass(slots=True)
class Contender:
    """What a process remembers of the election."""

    identity: str
    candidate: Candidate = field(init=False)
    clock: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        self.candidate = Candidate(self.identity, TERMS)


@dataclass(slots=True)
class Election:
    """Wins and loses terms for a process. `fenced` False: every Lease passes for one that was handed over."""

    contender: Contender
    fenced: bool
    lease: PlayedLease = field(default_factory=PlayedLease)
    elector: Elector = field(init=False)

    def __post_init__(self) -> None:
        kept = self.contender
        time = kept.clock.read
        self.elector = Elector(self.lease, "system", "lease", kept.candidate, time, time, _at_once)

    def win(self, term: int, holder: str) -> None:
        """Lead from now on; the Lease names `holder`, who leads no more.

        `term`: its number. The world counts them: of two processes, too, none has a number twice, as stamps need it
        that have no secret here.
        """
        kept, self.lease.holder = self.contender, holder
        kept.candidate.term = term - 1
        _done(self.elector.step())
        if not self.elector.leads():
            kept.clock.now += OVER
            _done(self.elector.step())
        if not self.fenced:
            kept.candidate.handed_over = True
        assert self.elector.term() == term, "a Lease that may be had was not taken"

    def lapse(self) -> None:
        """The Lease was not renewed in time."""
        self.contender.clock.now += OVER
        assert not self.elector.leads()

    def lose(self) -> None:
        """Another has the Lease, and the process reads that."""
        self.lapse()
        self.lease.holder = OTHER
        _done(self.elector._read())  # not a step: a renewal that waits for its answer lets none begin
        assert not self.elector.leads()

    def begin_renewal(self) -> None:
        """A renewal is sent, and its answer takes its time: nothing else is written meanwhile."""
        _done(self.elector._writing.acquire())

    def end_renewal(self) -> None:
        self.elector._writing.release()

    @property
    def ours_since(self) -> bool:
        """Whether, as far as the process knows, nobody else has had the Lease since its last term."""
        return self.contender.candidate._ours_since

    @property
    def gave_up(self) -> bool:
        """Whether the process has given up a Lease that was its own."""
        return self.elector._released and self.lease.holder == NOBODY
