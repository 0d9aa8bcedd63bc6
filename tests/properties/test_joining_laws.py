"""Laws of joined queries: who is served, with whom, by what; and what must not matter."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import Seconds
from hetserve.dispatch.joining import JoiningPolicy, Variant
from hetserve.profiles import LatencyProfile, TableProfile
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Outcomes, Session
from hetserve.serving.state import DROPPED, WAITING
from hetserve.serving.variants import VariantSystem
from testing.joining import NAME, JoiningStory, accuracy, joining_stories, offer, policies, told

WITH_ALL_VARIANTS = tuple(policy for policy in policies() if policy.name not in ("clipper", "infaas"))


def played(story: JoiningStory) -> tuple[VariantSystem, Outcomes]:
    """The joined service's queries alone."""
    run = told(story)
    assert isinstance(run, Session)
    made, outcome = story.service.system, run.outcome()
    assert isinstance(made, VariantSystem)
    mine = outcome.service == 0
    return made, Outcomes._make(column[mine] for column in outcome)


@settings(max_examples=examples(300))
@given(joining_stories())
def test_every_query_is_served_once_with_others_that_waited_by_one_variant_that_can(story: JoiningStory) -> None:
    made, outcome = played(story)
    served = np.flatnonzero(outcome.joined > 0)
    assert np.isfinite(outcome.start[served]).all()
    assert (outcome.start[served] >= outcome.arrival[served]).all()
    others = np.flatnonzero(outcome.joined == 0)
    assert np.isnan(outcome.finish[others]).all()
    assert (outcome.instance[others] <= WAITING).all()
    policy = story.service.policy
    assert isinstance(policy, JoiningPolicy)
    assert policy.drops or not (outcome.instance == DROPPED).any()
    sizes, joined = outcome.size + 1, outcome.joined
    keys = [(int(outcome.instance[k]), float(outcome.start[k])) for k in served]
    for _, members in groupby(sorted(zip(keys, served.tolist(), strict=True)), key=lambda pair: pair[0]):
        batch = [number for _, number in members]
        assert sizes[batch].sum() == joined[batch[0]]
        for column in (joined, outcome.variant, outcome.work):
            assert len(set(column[batch].tolist())) == 1
        assert joined[batch[0]] <= made.served.means.shape[1]


@settings(max_examples=examples(300))
@given(joining_stories(*WITH_ALL_VARIANTS))
def test_what_is_not_dropped_is_served_if_an_instance_can(story: JoiningStory) -> None:
    policy, made = story.service.policy, story.service.system
    assert isinstance(policy, JoiningPolicy)
    assert isinstance(made, VariantSystem)
    assume(not story.steps)
    kept = replace(story.service, policy=replace(policy, drops=False))
    _, outcome = played(replace(story, services=(kept, *story.services[1:])))
    able = np.isfinite(made.served.means.reshape(len(made.names), len(made.variants), -1).min(axis=1))
    types = {made.types.index(seat.type) for seat in story.seats if seat.service == NAME}
    blocked = min((n for n in range(able.shape[1]) if not able[sorted(types), n].any()), default=able.shape[1])
    if (outcome.size < blocked).all():
        assert np.isfinite(outcome.finish).all()


@settings(max_examples=examples(200))
@given(joining_stories())
def test_an_instance_serves_one_batch_after_the_other(story: JoiningStory) -> None:
    _, outcome = played(story)
    ended = np.flatnonzero(np.isfinite(outcome.finish))
    spans = sorted({(int(outcome.instance[k]), outcome.start[k], outcome.finish[k]) for k in ended.tolist()})
    for (one, _, finish), (other, start, _) in pairwise(spans):
        assert one != other or start >= finish


@settings(max_examples=examples(100))
@given(joining_stories())
def test_accuracy_is_never_above_the_best_variant(story: JoiningStory) -> None:
    made, outcome = played(story)
    if not outcome.late.all():
        assert made.variants[0].accuracy <= accuracy(made, outcome) <= made.variants[-1].accuracy


@settings(max_examples=examples(100))
@given(joining_stories(), st.randoms(use_true_random=False))
def test_names_and_the_order_of_variants_and_types_change_nothing(story: JoiningStory, source: object) -> None:
    made = story.service.system
    assert isinstance(made, VariantSystem)
    assume(len({one.accuracy for one in made.variants}) == len(made.variants))
    assume(story.service.policy.name != "clipper")
    shuffle = source.shuffle  # type: ignore[attr-defined]
    variants, types = list(made.variants), list(range(len(made.names)))
    shuffle(variants)
    shuffle(types)
    renamed = _rebuilt(made, [replace(one, name=f"x{one.accuracy}") for one in variants], types)
    old, uses = story.service, {f"t-{name}": use for name, use in story.service.uses.items()}
    service = replace(old, system=renamed, uses=uses, expected={f"t-{name}": f for name, f in old.expected.items()})
    seats = tuple(replace(seat, type=f"t-{seat.type}") if seat.service == NAME else seat for seat in story.seats)
    assume(not story.steps)
    _, one = played(story)
    _, other = played(replace(story, services=(service, *story.services[1:]), seats=seats))
    for column in ("start", "finish", "joined", "variant"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column), err_msg=column)


def _rebuilt(made: VariantSystem, variants: list[Variant], types: list[int]) -> VariantSystem:
    """Of tables of whole sizes; variants by their accuracy."""
    by_accuracy = {one.accuracy: k for k, one in enumerate(made.variants)}
    profiles: dict[str, dict[str, LatencyProfile]] = {}
    for kind in types:
        for one in variants:
            row = made.served.means[kind * len(made.variants) + by_accuracy[one.accuracy]]
            means = row[np.isfinite(row)]
            if len(means):
                table = TableProfile(tuple(range(1, len(means) + 1)), tuple(map(Seconds, means.tolist())))
                profiles.setdefault(f"t-{made.names[kind]}", {})[one.name] = table
    switches = {f"t-{name}": float(seconds) for name, seconds in zip(made.names, made.switches, strict=True)}
    hard = made.slo + made.grace
    built = VariantSystem.of_variants(
        profiles, variants, made.slo, hard=hard, switches=switches, largest=made.served.means.shape[1]
    )
    served = replace(built.served, ratios=made.served.ratios[_rows(types, len(variants))])
    return replace(built, served=served)


def _rows(types: list[int], variants: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return (np.array(types)[:, None] * variants + np.arange(variants)).ravel()


@settings(max_examples=examples(100))
@given(joining_stories(*WITH_ALL_VARIANTS), st.integers(0, 3), st.sampled_from((0.0, 0.25)))
def test_a_dominated_variant_changes_nothing(story: JoiningStory, which: int, slower: float) -> None:
    """Lemma 4.1."""
    made = story.service.system
    assert isinstance(made, VariantSystem)
    assume(not story.steps)
    target = made.variants[which % len(made.variants)]
    worse = Variant("worse", target.accuracy - 1)
    profiles: dict[str, dict[str, LatencyProfile]] = {}
    for kind, name in enumerate(made.names):
        for k, one in enumerate(made.variants):
            row = made.served.means[kind * len(made.variants) + k]
            means = row[np.isfinite(row)].tolist()
            sizes = tuple(range(1, len(means) + 1))
            if means:
                profiles.setdefault(name, {})[one.name] = TableProfile(sizes, tuple(map(Seconds, means)))
            if means and one is target:
                profiles[name]["worse"] = TableProfile(sizes, tuple(Seconds(mean + slower) for mean in means))
    switches = dict(zip(made.names, map(float, made.switches), strict=True))
    largest, hard = made.served.means.shape[1], made.slo + made.grace
    known = [
        VariantSystem.of_variants(profiles_, variants, made.slo, hard=hard, switches=switches, largest=largest)
        for profiles_, variants in (
            ({name: {k: v for k, v in rows.items() if k != "worse"} for name, rows in profiles.items()}, made.variants),
            (profiles, (*made.variants, worse)),
        )
    ]
    seen = [played(replace(story, services=(replace(story.service, system=one), *story.services[1:]))) for one in known]
    (_, first), (_, second) = seen
    for column in ("start", "finish", "joined"):
        np.testing.assert_array_equal(getattr(first, column), getattr(second, column), err_msg=column)
    names = [[made.variants[k].name for k in outcome.variant[outcome.joined > 0]] for made, outcome in seen]
    assert names[0] == names[1]


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy.name)
def test_a_run_that_stops_anywhere_goes_on_as_if_it_had_not(policy: object) -> None:
    table = TableProfile((1, 4), (Seconds(0.25), Seconds(0.5)))
    made = VariantSystem.of_variants({"a": {"v0": table}}, [Variant("v0", 80.0)], 1.0)
    source = np.random.default_rng(3)
    queries = [(float(at), 1, 1.0) for at in source.integers(0, 80, 200) / 8]
    runs = []
    for stops in ((), source.uniform(0, 10, 20)):
        run = Session([Service(NAME, made, policy)])  # type: ignore[arg-type]
        run.join_all(GpuInstance(NAME, "a", f"g{k}") for k in range(3))
        offer(run, queries)
        for stop in sorted(stops):
            run.until(stop)
        run.until()
        runs.append(run.outcome())
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)
