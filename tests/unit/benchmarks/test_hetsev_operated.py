"""hetserve in HetSev's scenes: its pods are the instances, its operator follows the load, its placer shares GPUs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from benchmarks.hetsev.assumptions import given as assumed
from benchmarks.hetsev.cluster import Cluster, play
from benchmarks.hetsev.measures import courses, figures
from benchmarks.hetsev.operated.controller import Hetserve
from benchmarks.hetsev.operated.manifests import Wishes
from benchmarks.hetsev.played import Instance, Played
from benchmarks.hetsev.policy import STEP, Decided, Seen
from benchmarks.hetsev.scene import Scene, Workload

from hetsev_laws import check

ASSUMED = assumed()
MODELS = ("resnet50", "ssd-resnet50")
RISE = 60.0


class Watched(Hetserve):
    """Checks at each look that the bound pods are the instances."""

    def decide(self, seen: Seen) -> Decided:
        bound = [path for path, pod in self.operator.pods.pods() if pod["spec"].get("nodeName")]
        assert sorted(bound) == sorted(one.name for one in seen.instances if one.name in bound)
        return super().decide(seen)


def scene(most: int | None = None) -> Scene:
    """Two models on four V100 and four T4, whose loads double at once after a minute."""
    gpus = {name: replace(gpu, nodes=2) for name, gpu in ASSUMED.gpus.items()}
    steps = round((RISE + 120) / STEP)
    rates = {model: (0.8 * ASSUMED.rate(model, "t4"),) * steps + (1.6 * ASSUMED.rate(model, "t4"),) for model in MODELS}
    return Scene(replace(ASSUMED, gpus=gpus), Workload(-120.0, 300.0, rates, waits=True), most, seed=5)


@cache
def played(sharing: str = "Shared") -> Played:
    return play(scene(), Watched(scene(), wishes=Wishes(sharing=sharing)))  # type: ignore[arg-type]


def here(of: Played, at: float) -> list[Instance]:
    return [one for one in of.instances if one.launched <= at < one.gone]


@pytest.mark.parametrize("sharing", ["Shared", "Exclusive"])
def test_laws_hold_and_the_slo_is_kept(sharing: str) -> None:
    check(played(sharing))
    assert figures(played(sharing)).attainment >= 0.98


def test_copies_of_a_model_never_share_a_gpu() -> None:
    for at in {one.launched for one in played().instances}:
        pairs = Counter((one.service, one.gpu) for one in here(played(), at))
        assert set(pairs.values()) == {1}


def test_models_share_gpus_where_the_user_lets_them() -> None:
    shared, alone = (Counter(one.gpu for one in here(played(how), 290.0)) for how in ("Shared", "Exclusive"))
    assert max(shared.values()) == 2
    assert set(alone.values()) == {1}


def test_instances_are_added_when_the_load_rises_and_serve_after_their_launch_time() -> None:
    before, after = (len(here(played(), at)) for at in (RISE, 290.0))
    assert after > before
    added = [one for one in played().instances if one.launched > RISE]
    assert min(one.launched for one in added) < RISE + 75.0, "a window of 60 s, and the 30 s of scaling up"
    found = courses(played())
    assert sum(float(one[-1]) for one in found.instances.values()) == after
    assert found.throughput[-1] == pytest.approx(2 * found.throughput[2], rel=0.2)


def test_a_service_has_its_share_of_the_instances_that_there_may_be() -> None:
    limited = play(scene(most=4), Watched(scene(most=4)))
    check(limited)
    assert max(sum(one.service == MODELS[0] for one in here(limited, at)) for at in range(0, 300, 15)) <= 2
    assert all(one.stopped == math.inf or one.gone >= one.stopped for one in limited.instances)


def test_a_play_is_the_same_again() -> None:
    again = play(scene(), Hetserve(scene()))
    assert again.instances == played().instances
    assert figures(again) == figures(played())


@pytest.mark.parametrize(("sharing", "factor"), [("Shared", 1.75), ("Exclusive", 1.0)])
def test_queries_are_handed_out_as_if_instances_that_share_were_as_slow_as_they_may_become(
    sharing: str, factor: float
) -> None:
    controller = Hetserve(scene(), wishes=Wishes(sharing=sharing))  # type: ignore[arg-type]
    cluster = Cluster(scene(), controller.dispatch, controller.expected)
    predicted = cluster.session.services[0].predicted.arrays.mean.ravel().tolist()
    alone = [ASSUMED.models["resnet50"].latency[name] for name in ASSUMED.gpus]
    assert predicted == pytest.approx([factor * latency for latency in alone])
