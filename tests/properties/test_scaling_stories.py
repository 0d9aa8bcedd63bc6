"""Laws of a service that follows its load, at every step of whatever happens to it.

I3: the budget holds, also while instances terminate. I5: nothing shrinks on what is stale, missing or invalid. I6: it
converges when faults end, and I7: then writes nothing. I8: actions are bounded and in the direction that they name. I9:
no capacity goes before its successor serves. I11: status and records are true. I12: other services are left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from effort import examples, spread
from hetserve.demand.observed import Freshness
from scaling_judge import Judge
from scaling_story import KINDS, PRICES, Story, kind_of
from testing.builders import REMOVED
from unsafe_line import WAYS, Way

Json = dict[str, Any]
Act = Callable[[Story], None]
Chapter = tuple[Act | None, Act | None, Act | None, int]
"""A load, anything else and a fault, which begin together; and rounds."""


def load(qps: float) -> Act:
    return lambda story: story.load.steps.append((story.clock, qps))


def large(share: float | None) -> Act:
    """Share of queries of many items; None: sizes are no longer measured."""
    return lambda story: story.load.mixes.append((story.clock, share))


def noise(share: float) -> Act:
    return lambda story: story.load.noises.append((story.clock, share))


def metrics(freshness: Freshness | None) -> Act:
    return lambda story: setattr(story.load, "freshness", freshness)


def emptied(story: Story) -> None:
    """Prometheus restarts empty."""
    story.load.since = story.clock


def declared(**fields: Any) -> Act:
    def act(spec: Json) -> None:
        for key, value in fields.items():
            spec.pop(key, None) if value is REMOVED else spec.__setitem__(key, value)

    return lambda story: story.spec(act)


def budget(hourly: str | None, keep: bool) -> Act:
    if hourly is None:
        return declared(budget=REMOVED)
    return declared(budget={"hourly": hourly, "whenTooLow": "Keep" if keep else "Shrink"})


def scaling(**fields: Any) -> Act:
    def act(spec: Json) -> None:
        spec["scaling"] = {key: v for key, v in {**spec["scaling"], **fields}.items() if v is not REMOVED}

    return lambda story: story.spec(act)


def steps(value: int) -> Act:
    """How many instances may come, and go, in 30 s."""
    policies = [{"type": "Instances", "value": value, "period": "30s"}]

    def act(spec: Json) -> None:
        for way in ("scaleUp", "scaleDown"):
            spec["scaling"][way] = {**spec["scaling"][way], "policies": policies}

    return lambda story: story.spec(act)


def ahead(how: str) -> Act:
    """Whether the trend counts."""

    def act(spec: Json) -> None:
        spec["scaling"]["scaleUp"] = {**spec["scaling"]["scaleUp"], "lookAhead": how}

    return lambda story: story.spec(act)


def completions(only: bool) -> Act:
    """Whether only what was completed is counted."""
    return lambda story: setattr(story.load, "lower_bound", only)


def truth(share: float | None) -> Act:
    """What instances really carry of what profiles say; None: latencies are no longer measured."""
    return lambda story: setattr(story, "truth", share)


def price(kind: str, times: float) -> Act:
    return lambda story: story.add(kind_of(kind, round(PRICES[kind] * times)))


def type_removed(kind: str) -> Act:
    return lambda story: story.api.remove(story.type_path(kind))


def cluster(field: str, value: Any) -> Act:
    return lambda story: setattr(story.cluster, field, value)


def foreign(kind: str, replicas: int) -> Act:
    def act(story: Story) -> None:
        if story.deployment(kind) in story.api.objects:
            story.edit(story.deployment(kind), lambda raw: raw["spec"].update(replicas=replicas))

    return act


def deployment_deleted(kind: str) -> Act:
    return lambda story: story.api.remove(story.deployment(kind))


def pods(story: Story, kind: str) -> list[tuple[str, Json]]:
    found = story.api.objects.get(story.deployment(kind))
    return [] if found is None else [(p, pod) for p, pod in story.cluster.pods(found) if pod["spec"].get("nodeName")]


def lost(kind: str) -> Act:
    """An instance is gone, with its node's process."""

    def act(story: Story) -> None:
        for path, _ in pods(story, kind)[:1]:
            story.api.remove(path)

    return act


def failing(kind: str) -> Act:
    """An instance starts again."""

    def act(story: Story) -> None:
        for path, pod in pods(story, kind)[:1]:
            pod["status"].pop("conditions", None)
            pod["metadata"]["launching"] = 0
            story.api.touch(path)

    return act


def planners(takes: int, fails: int) -> Act:
    def act(story: Story) -> None:
        story.takes, story.planners.fails = takes, fails

    return act


def broken(at: int, way: Way, delay: int) -> Act:
    return lambda story: None if story.line is None else story.line.break_at(at, way, delay)


KIND, FULL = st.sampled_from(KINDS), "0/4 nodes are available: 4 Insufficient memory"
LOADS = st.sampled_from((0.0, 3.0, 9.0, 20.0, 30.0, 45.0, 70.0, 100.0, 150.0, 240.0, 400.0))
SOME = st.lists(KIND, min_size=1, unique=True)
BUDGETS = st.sampled_from((None, "0.05", "0.2", "0.45", "0.7", "1.1", "2.0"))
FAULTS = st.builds(broken, st.integers(0, 6), st.sampled_from(WAYS), st.sampled_from((1, 8, 40, 400)))
ACTS: st.SearchStrategy[Act] = st.one_of(
    st.builds(noise, st.sampled_from((0.0, 0.05, 0.3))),
    st.builds(large, st.sampled_from((0.0, 0.02, 0.1, 0.4, 0.9, 1.0, None))),
    st.builds(lambda n: lambda story: setattr(story.load, "queries", n), st.sampled_from((120.0, 900.0, 60_000.0))),
    st.builds(metrics, st.sampled_from((*Freshness, None))),
    st.just(emptied),
    st.builds(ahead, st.sampled_from(("None", "LaunchTime"))),
    st.builds(completions, st.booleans()),
    st.builds(truth, st.sampled_from((None, 1.0, 0.75, 0.5))),
    st.builds(budget, BUDGETS, st.booleans()),
    st.builds(price, KIND, st.sampled_from((0.5, 1.0, 1.6))),
    st.builds(lambda some: declared(instanceTypes={"names": some}), SOME),
    st.builds(type_removed, KIND),
    st.builds(lambda pause: declared(pause=pause), st.sampled_from(("None", "ScaleDown", "ScaleUp", "All"))),
    st.builds(lambda mode: declared(mode=mode), st.sampled_from(("Apply", "Advise"))),
    st.builds(lambda n: scaling(maxInstances=n), st.sampled_from((REMOVED, 4, 9))),
    st.builds(lambda n: scaling(minInstances=n), st.sampled_from((REMOVED, 2, 4))),
    st.builds(lambda how: scaling(replacement=how), st.sampled_from(("Never", "WhenItPays"))),
    st.builds(steps, st.integers(1, 3)),
    st.builds(partial(cluster, "launch_ticks"), st.integers(0, 5)),
    st.builds(partial(cluster, "terminating_ticks"), st.integers(1, 5)),
    st.builds(lambda some: cluster("never_ready", set(some)), SOME),
    st.builds(lambda some: cluster("gated", set(some)), SOME),
    st.builds(lambda some: cluster("refused", dict.fromkeys(some, FULL)), SOME),
    st.builds(foreign, KIND, st.integers(0, 7)),
    st.builds(deployment_deleted, KIND),
    st.builds(lost, KIND),
    st.builds(failing, KIND),
    st.builds(planners, st.sampled_from((0, 2, 30)), st.sampled_from((0, 1))),
    st.just(Story.crash),
)
CHAPTERS = st.tuples(
    st.none() | st.builds(load, LOADS), st.none() | ACTS, st.none() | FAULTS, st.sampled_from((0, 2, 5, 10, 20))
)
STORIES = st.lists(CHAPTERS, min_size=1, max_size=9)


def healed(story: Story) -> None:
    """Faults end; what is declared stays, but for what holds the operator back."""
    for field in ("never_ready", "gated", "refused"):
        getattr(story.cluster, field).clear()
    story.load.freshness, story.takes, story.planners.fails = Freshness.FRESH, 0, 0
    noise(min(story.load.noises[-1][1], 0.05))(story)
    if story.line is not None:
        story.line.way = None
        story.line.land()
    for kind in KINDS:
        if story.type_path(kind) not in story.api.objects:
            story.add(kind_of(kind, PRICES[kind]))
    declared(pause="None", mode="Apply")(story)


async def told(chapters: list[Chapter]) -> tuple[Story, Judge]:
    """The story up to its rest, judged at each step."""
    story = Story()
    judge = Judge(story)
    await story.rest(quiet=60)
    for *acts, rounds in chapters:
        for act in acts:
            if act is not None:
                act(story)
        for _ in range(rounds):
            sound = story.line is None or story.line.way is None
            clean = await story.round() and sound
            judge.stage(clean=clean)
    healed(story)
    await story.rest()
    return story, judge


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STORIES)
@example([(None, truth(0.5), None, 0)])
@example([(load(240.0), truth(0.5), None, 20)])
def test_every_step_keeps_the_laws_and_all_comes_to_rest(chapters: list[Chapter]) -> None:
    async def tale() -> None:
        story, judge = await told(chapters)
        judge.rest()
        story.api.writes.clear()
        story.crash()
        for _ in range(3):
            await story.round()
        assert story.api.writes == [], "I7: at rest the operator writes nothing, one that has just started neither"

    asyncio.run(tale())


DAY: list[Chapter] = [
    (load(70.0), None, None, 9),
    (load(20.0), budget("0.7", keep=False), None, 16),
    (None, declared(instanceTypes={"names": ["middle", "large"]}), None, 14),
]
"""More load, less of both load and money, and other types."""

SIZES: list[Chapter] = [
    (load(30.0), large(0.6), None, 12),
    (None, large(0.1), None, 24),
    (load(45.0), large(None), None, 12),
]
"""Larger queries, smaller ones, and more of unknown size."""


@pytest.mark.parametrize("at", spread(range(10), 1))
def test_a_crash_at_a_write_while_sizes_change_keeps_the_laws(at: int) -> None:
    async def tale() -> None:
        (first, also, _, rounds), *rest = SIZES
        _, judge = await told([(first, also, broken(at, "crash after", 12), rounds), *rest])
        judge.rest()
        assert judge.plans >= 3, "sizes alone add instances, and take them away"

    asyncio.run(tale())


WRONG: list[Chapter] = [
    (load(60.0), truth(0.6), None, 30),
    (None, ahead("LaunchTime"), None, 20),
    (load(45.0), truth(1.0), None, 30),
]
"""Queries take longer than declared, which brings instances; later they do not."""


@pytest.mark.parametrize("at", spread(range(10), 1))
def test_a_crash_at_a_write_while_queries_are_late_keeps_the_laws(at: int) -> None:
    async def tale() -> None:
        (first, also, _, rounds), *rest = WRONG
        _, judge = await told([(first, also, broken(at, "crash after", 12), rounds), *rest])
        judge.rest()
        assert judge.missed, "late queries bring instances"

    asyncio.run(tale())


EARLY_OR_LATE: dict[Way, int] = {"crash after": 1, "late of the dead": 3}
"""The quarter of the writes of a day after which the operator crashes in the quick tier."""


@cache
def writes_of_a_day() -> int:
    """Of one in which nothing breaks."""
    story, judge = asyncio.run(told(DAY))
    judge.rest()
    assert story.line is not None
    return story.line.wire.writes


@pytest.mark.parametrize("struck", ["one write", pytest.param("every write", marks=pytest.mark.deep)])
@pytest.mark.parametrize("way", spread(["crash after", "late of the dead"], 1))
def test_a_crash_at_every_write_of_a_day_keeps_the_laws(way: Way, struck: str) -> None:
    async def tale(at: int) -> None:
        (first, also, _, rounds), *rest = DAY
        _, judge = await told([(first, also, broken(at, way, 12), rounds), *rest])
        judge.rest()

    writes = writes_of_a_day()
    assert writes > 8
    for at in range(writes) if struck == "every write" else (EARLY_OR_LATE[way] * writes // 4,):
        asyncio.run(tale(at))
