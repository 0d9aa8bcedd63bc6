"""Whatever happens around a router, every query ends once, and instances get only what they may."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.failures import Failure
from hetserve.routing.router import QueueLimits
from testing.dispatching import system
from testing.routed_world import World, a_service

POLICIES = ("hetserve", "kairos", "fcfs", "clockwork-earliest")
OTHERS = (system(), system((0.1, 0.2, 0.3, 0.4)), system((0.5, 0.6, 0.7, 0.9), (0.1, 0.2, 0.3), (0.2,), slo=3.0))


def _arrive(world: World, data: st.DataObject) -> None:
    left = data.draw(st.one_of(st.just(math.inf), st.floats(0.0, 4.0)))
    items, is_retriable = data.draw(st.integers(1, 12)), data.draw(st.booleans())
    world.arrive(len(world.hard), items, world.now + left, is_retriable=is_retriable)


def _answer(world: World, data: st.DataObject) -> None:
    if world.serving:
        world.answer(data.draw(st.sampled_from(sorted(world.serving))))


def _fail(world: World, data: st.DataObject) -> None:
    if world.serving:
        world.fail(data.draw(st.sampled_from(sorted(world.serving))), data.draw(st.sampled_from(Failure)))


def _leave(world: World, data: st.DataObject) -> None:
    if world.live:
        world.leave(data.draw(st.sampled_from(world.live)))


def _join(world: World, data: st.DataObject) -> None:
    """Anew, or again; an instance's type stays."""
    number = data.draw(st.integers(0, 5))
    world.join(number, "ababcz"[number])


def _drain(world: World, data: st.DataObject) -> None:
    world.drain(data.draw(st.integers(0, 5)), has_left=data.draw(st.booleans()))


def _probe(world: World, data: st.DataObject) -> None:
    if world.awaited:
        world.probed(data.draw(st.sampled_from(sorted(world.awaited))), data.draw(st.booleans()))


def _wait(world: World, data: st.DataObject) -> None:
    world.until(world.now + data.draw(st.sampled_from((0.0, 0.1, 0.5, 3.0, 12.0))))


def _revise(world: World, data: st.DataObject) -> None:
    service = a_service(data.draw(st.sampled_from(POLICIES)), data.draw(st.sampled_from(OTHERS)))
    limits = QueueLimits(data.draw(st.sampled_from((math.inf, 2.0))), data.draw(st.sampled_from((None, 3, 100))))
    world.carry_out(world.router.revise(service, limits, world.now))


EVENTS: tuple[Callable[[World, st.DataObject], None], ...] = (
    *(_arrive, _arrive, _arrive, _answer, _answer, _fail, _leave, _join, _join),
    *(_drain, _probe, _wait, _wait, _revise),
)


@settings(max_examples=examples(400))
@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
def test_every_query_ends_once_whatever_happens(policy: str, data: st.DataObject) -> None:
    world = World.of(a_service(policy), data.draw(st.sampled_from(("", "a", "ab"))))
    for _ in range(data.draw(st.integers(1, 60))):
        data.draw(st.sampled_from(EVENTS))(world, data)
    world.finish()


@settings(max_examples=examples(200))
@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
def test_names_and_the_order_of_joins_change_nothing(policy: str, data: st.DataObject) -> None:
    """Numbers of queries may be any, those of instances any that keep their order."""
    kinds = data.draw(st.text("ab", min_size=1, max_size=5))
    queries = data.draw(st.permutations(range(100, 130)))
    numbers = sorted(data.draw(st.sets(st.integers(0, 10**9), min_size=len(kinds), max_size=len(kinds))))
    order = data.draw(st.permutations(range(len(kinds))))
    seed, plain, renamed = data.draw(st.randoms(use_true_random=False)), World.of(a_service(policy), kinds), None
    renamed = World.of(a_service(policy))
    for place in order:
        renamed.join(numbers[place], kinds[place])
    for query in range(30):
        items, step = seed.choice((1, 2, 5, 10)), seed.choice((0.0, 0.05, 0.3))
        plain.arrive(query, items)
        renamed.arrive(queries[query], items)
        for world in (plain, renamed):
            world.until(world.now + step)
        if plain.serving and seed.random() < 0.6:
            place = seed.choice(sorted(plain.serving))
            assert queries[plain.answer(place)] == renamed.answer(numbers[place])
        assert {numbers[place]: queries[one] for place, one in plain.serving.items()} == renamed.serving
