"""Stories of a run: a scene of services, and all that happens to it while it goes on; a player plays them.

A player counts queries by serial, from 0 on in the order in which they were announced: it stays when ids change.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from hetserve.dispatch import LatencyModel, Policy, make_policy
from hetserve.dispatch.kernel import Integers
from hetserve.profiles import DenseLatency
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import System
from testing.holding import holding
from testing.plain_serving import PlainServing
from testing.sharing import Offered, SharingScene, offers, sharing_scenes

FATES: Final = ("arrival", "start", "finish", "instance", "work", "peak")
EVERY: Final = (*map(make_policy, DISPATCH_POLICIES.names), holding(0.3))
ENDINGS: Final = ("drain", "lose", "requeue")
HAPPENINGS: Final = (
    *ENDINGS, "join", "arrive", "attend", "give up", "forget", "revise", "copy", "answers", "limit",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """`what` happens at a time [s], to an instance (number) or a service; seed: of all else that it takes."""

    at: float
    what: str
    number: int
    service: str
    type: str
    gpu: str
    seed: int


@dataclass(frozen=True, slots=True)
class Story:
    """later: a service that comes with the first revision; until then all services lack type c."""

    scene: SharingScene
    later: Offered
    steps: tuple[Step, ...]

    def with_step(self, at: float, what: str, number: int = 0) -> Story:
        """After all others that happen then."""
        step = Step(at, what, number, "s0", "a", "g0", 1)
        return replace(self, steps=tuple(sorted((*self.steps, step), key=lambda step: step.at)))


_names, _gpus = st.sampled_from(("s0", "s1", "s2", "later")), st.sampled_from(("g0", "g1", "new"))
_times = st.floats(0.0, 20.0) | st.integers(0, 5).map(float)


@st.composite
def stories(
    draw: st.DrawFn, *policies: Policy, without: Collection[str] = (), alone: bool = False, least: int = 1
) -> Story:
    """without: what does not happen. alone: each instance has a GPU of its own. least: services."""
    scene = draw(sharing_scenes(*policies, least=least, alone=alone))
    whats = st.sampled_from([what for what in HAPPENINGS if what not in without])
    drawn = st.tuples(_times, whats, st.integers(0, 11), _names, st.sampled_from("abc"), _gpus, st.integers(0, 999))
    steps = sorted((Step(*step) for step in draw(st.lists(drawn, min_size=6, max_size=12))), key=lambda step: step.at)
    if alone:
        steps = [replace(step, gpu=f"new {k}") for k, step in enumerate(steps)]
    later = draw(offers(9, *policies, instances=1))
    return Story(scene, replace(later, service=replace(later.service, name="later")), tuple(steps))


@dataclass(slots=True)
class Player:
    """Plays a story; `log` has what the run answered.

    most_ended: it goes on by so many answers at a time. ended: serials in order. fates, owners: `FATES` and service of
    each serial. serials: by id. joined: when each instance did [s].
    """

    story: Story
    run: Session | PlainServing
    most_ended: int | None = None
    log: list[Any] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    fates: dict[int, tuple[float, ...]] = field(default_factory=dict)
    owners: list[str] = field(default_factory=list)
    serials: list[int] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    joined: list[float] = field(default_factory=list)

    @classmethod
    def of(
        cls, story: Story, kind: type[Session] | type[PlainServing] = Session, most_ended: int | None = None
    ) -> Player:
        """After the last step, and all that comes of it."""
        services = [_early(load.service) for load in story.scene.loads]
        player = cls(story, kind(services), most_ended, services=services)
        for seat in story.scene.seats:
            player.join(seat)
        for load in story.scene.loads:
            work = load.workload
            times = work.times(load.rate)
            player.announce(
                load.service.name, player.run.arrive(load.service.name, times, work.sizes, work.service_draws)
            )
        for step in story.steps:
            player.go_on(step.at)
            player.take(step)
        player.go_on(np.inf)
        player.note_fates(range(len(player.serials)))
        return player

    def fates_by_service(self) -> dict[str, np.ndarray[Any, Any]]:
        """[query, fate] in the order of announcement."""
        return {
            name: np.array([self.fates[k] for k, owner in enumerate(self.owners) if owner == name])
            for name in dict.fromkeys(self.owners)
        }

    def go_on(self, time: float) -> None:
        while self.answers(time, self.most_ended) and self.most_ended:
            pass
        self.log += [self.run.now, self.run.stopped, *self.run.waiting()]

    def answers(self, time: float, most_ended: int | None) -> bool:
        """Whether there were any."""
        ids = self.run.until(max(time, self.run.now), most_ended)
        self.note_ended(ids)
        return len(ids) > 0

    def note_ended(self, ids: Sequence[int] | Integers) -> None:
        self.note_fates(ids)
        self.ended += [self.serials[number] for number in ids]
        self.log += self.ended[len(self.ended) - len(ids) :]

    def note_fates(self, ids: Sequence[int] | Integers) -> None:
        for number, fate in zip(ids, fates_of(self.run, ids), strict=True):
            self.fates[self.serials[number]] = tuple(fate.tolist())

    def join(self, seat: GpuInstance) -> None:
        self.run.join(seat)
        self.joined.append(self.run.now)

    def announce(self, name: str, ids: Sequence[int]) -> None:
        self.serials += range(len(self.owners), len(self.owners) + len(ids))
        self.owners += [name] * len(ids)

    def take(self, step: Step) -> None:
        source, number = np.random.default_rng(step.seed), step.number
        service = next((service for service in self.services if service.name == step.service), None)
        if step.what in ENDINGS and number < len(self.joined):
            self.end_instance(step)
        elif step.what == "forget":
            self.serials = [self.serials[kept] for kept in self.run.forget()]
        elif step.what == "copy":
            self.run = self.copied(step)
        elif step.what == "answers":
            self.answers(np.inf, 1 + step.seed % 10)
        elif step.what == "revise":
            self.revise(source)
        elif service is not None:
            self.happen_to(service, step, source)

    def end_instance(self, step: Step) -> None:
        if step.what == "drain":
            self.run.drain(step.number)
            return
        held = self.run.fail(step.number, requeue=step.what == "requeue")
        if step.what == "lose":
            self.note_ended(held)
        self.log += list(held)

    def copied(self, step: Step) -> Session | PlainServing:
        """Two go on from here, and neither knows of the other: the run, or its copy, is the one that fares badly."""
        one, two = self.run, self.run.copy()
        kept, aside = (one, two) if step.seed % 2 else (two, one)
        if step.number < len(self.joined):
            aside.fail(step.number, requeue=True)
        aside.until(aside.now + step.seed / 100)
        self.log += fates_of(aside, range(len(self.serials))).ravel().tolist()
        return kept

    def revise(self, source: np.random.Generator) -> None:
        there = [load.service for load in (*self.story.scene.loads, self.story.later)]
        slower, slo, share = source.choice((0.5, 1.0, 2.0), 3)
        self.services = [_revised(service, slower, slo, share) for service in there]
        self.run.revise(self.services)

    def happen_to(self, service: Service, step: Step, source: np.random.Generator) -> None:
        name, number = service.name, step.number
        if step.what == "join" and step.type in service.system.types:
            self.join(GpuInstance(name, step.type, step.gpu))
        elif step.what == "arrive":
            # In any order, some at once.
            times = self.run.now + source.choice((0.0, *source.exponential(1.0, 6)), 1 + number)
            self.announce(name, self.run.arrive(name, times, *_turns(source, times.shape)))
        elif step.what == "attend":
            thinks = source.choice((0.0, *source.exponential(1.0, 6)), (3, 1 + number))
            ids = self.run.attend(name, thinks, *_turns(source, thinks.shape))
            last = np.array(ids[number :: 1 + number])
            self.announce(name, ids)
            self.announce(name, self.run.attend(name, thinks[::-1], *_turns(source, thinks.shape), after=last))
        elif step.what == "give up":
            self.note_ended(self.run.give_up(number / 10))
        elif step.what == "limit":
            self.run.stop_when_late(name, number, first=int(source.integers(0, 1 + len(self.serials))))


def fates_of(run: Session | PlainServing, ids: Sequence[int] | Integers) -> np.ndarray[Any, Any]:
    """[id, fate]. The greatest stretch is that of queries that are served: of others it depends on when one looks."""
    if isinstance(run, PlainServing):
        columns = [[getattr(run.queries[number], name) for number in ids] for name in FATES]
    else:
        outcome = run.outcome(np.array(ids, np.int64))
        # A run that stopped tells when what is being served would end.
        finish = np.where(np.isin(ids, run.standing().serving), math.nan, outcome.finish)
        columns = [getattr(outcome._replace(finish=finish), name) for name in FATES]
    found = np.array(columns, np.float64).T
    found[np.isnan(found[:, FATES.index("finish")]), FATES.index("peak")] = 0.0
    return found


def _turns(source: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Sizes and draws, some of which are the same."""
    return source.integers(0, 4, shape), source.choice((0.5, *source.random(20)), shape)


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """To the last bit."""
    return bool(np.array_equal(one, other, equal_nan=True))


def reordered(story: Story, source: Random) -> tuple[Story, dict[str, str], dict[int, int]]:
    """The story with other names and orders; new names of services, and new numbers of the first instances."""
    names, types, order = ["zeta", "alpha", "s1", "s0"], ["b", "x", "a"], [0, 1]
    for each in (names, types, order):
        source.shuffle(each)
    new, kinds = dict(zip(("s0", "s1", "s2", "later"), names, strict=True)), dict(zip("abc", types, strict=True))

    def load_as(load: Offered) -> Offered:
        one = load.service
        uses = {
            kinds[kind]: replace(use, inflicts={new[name]: c for name, c in use.inflicts.items()})
            for kind, use in one.uses.items()
        }
        system = altered(one.system, [kinds["abc"[k]] for k in (*order, 2)], (*order, 2))
        expected = {kinds[kind]: factor for kind, factor in one.expected.items()}
        return replace(load, service=replace(one, name=new[one.name], system=system, uses=uses, expected=expected))

    loads, seats = [load_as(load) for load in story.scene.loads], story.scene.seats
    source.shuffle(loads)
    groups = [(seat.service, seat.type) for seat in seats]
    turns = {group: iter([k for k, other in enumerate(groups) if other == group]) for group in groups}
    source.shuffle(groups)
    place = {next(turns[group]): k for k, group in enumerate(groups)}
    seated = [GpuInstance(new[seats[k].service], kinds[seats[k].type], f"x{seats[k].gpu}") for k in place]
    steps = [
        replace(
            step,
            number=place.get(step.number, step.number) if step.what in ENDINGS else step.number,
            service=new[step.service],
            type=kinds[step.type],
            gpu=f"x{step.gpu}",
        )
        for step in story.steps
    ]
    scene = SharingScene(tuple(loads), tuple(seated))
    return Story(scene, load_as(story.later), tuple(steps)), new, place


def _early(service: Service) -> Service:
    """Without its last type, which is never the base."""
    types = service.system.types[:-1]
    return replace(
        service,
        system=altered(service.system, types, range(len(types))),
        uses={name: service.uses[name] for name in types},
        expected={name: service.expected[name] for name in types},
    )


def _revised(service: Service, slower: float, slo: float, share: float) -> Service:
    uses = {name: replace(use, share=min(use.share * share, 1.0)) for name, use in service.uses.items()}
    return replace(service, system=altered(service.system, service.system.types, slower=slower, slo=slo), uses=uses)


def altered(
    system: System, names: Sequence[str], order: Sequence[int] = (0, 1, 2), slower: float = 1.0, slo: float = 1.0
) -> System:
    """With its types in another order and under other names; factors on service times and SLO."""
    served, given = system.served, system.predicted
    means, mean, safe = (table[list(order)] * slower for table in (served.means, given.arrays.mean, given.arrays.safe))
    return System(
        DenseLatency(served.batches, means, served.probabilities, served.ratios[list(order)]),
        LatencyModel.of(
            names, given.batches.tolist(), mean, given.arrays.slo * slo, safe, list(order).index(given.base)
        ),
    )
