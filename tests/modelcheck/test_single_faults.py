"""One fault at a time, small enough to run in a second: what each protection in the code is there for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from effort import spread
from harness import limits
from modelcheck.explore import explore
from modelcheck.scopes import ALONE, FOE, FRIEND, GUEST, HALF, ONE_NODE, OTHER, REST, RIVAL, SMALL
from modelcheck.trace import story
from modelcheck.truth import PodSpec, Scope, Shape
from modelcheck.world import World

ONE_GPU = {"n0": 1}


def assert_kept(name: str, pods: int, nodes: dict[str, int], limits: dict[str, int], processes: int = 1) -> None:
    shape = Shape((ALONE,) * pods, nodes)
    finding = explore(Scope(name, shape, limits, sum(limits.values()), processes))
    assert finding.wrong is None, story(finding)
    assert finding.complete


def test_a_pod_created_again_under_its_name_is_another_pod() -> None:
    assert_kept("born again", 1, ONE_NODE, {"delete": 1, "create": 1})


def test_a_bind_without_an_answer_keeps_its_gpu() -> None:
    assert_kept("no answer", 2, ONE_GPU, {"lose": 2})


@pytest.mark.deep
def test_a_bind_lost_again_while_others_are_looked_up_is_not_settled_as_the_old_one() -> None:
    assert_kept("lost again", 2, ONE_NODE, {"lose": 2})


def test_a_caller_that_hangs_up_leaves_no_booking_without_an_end() -> None:
    assert_kept("hung up", 1, ONE_GPU, {"hang up": 1})


def test_a_refused_bind_frees_nothing_that_an_earlier_one_may_take() -> None:
    assert_kept("refused", 1, ONE_GPU, {"lose": 2, "refuse": 1})


def test_an_answer_that_the_watch_has_overtaken_is_not_believed_for_ever() -> None:
    assert_kept("overtaken", 1, ONE_GPU, {"lose": 1, "delete": 1})


def test_a_list_older_than_a_bind_does_not_end_it() -> None:
    assert_kept("old list", 2, ONE_GPU, {"list": 1})


def test_a_terminating_pod_holds_its_gpu_and_a_finished_one_does_not() -> None:
    assert_kept("ending", 2, ONE_GPU, {"terminate": 1, "finish": 1, "restart": 1})


def test_a_node_that_comes_back_still_holds_its_pods() -> None:
    assert_kept("node back", 2, ONE_GPU, {"node gone": 1, "node back": 1})


@pytest.mark.timeout(limits.LONG_TEST)
def test_a_bind_of_the_last_leader_lands_before_the_next_one_counts_or_never() -> None:
    assert_kept("failover", 2, ONE_GPU, {"promote": 1}, processes=2)


def test_a_leader_whose_scheduler_released_the_lease_binds_nothing_behind_the_fence_of_the_next() -> None:
    assert_kept("a release", 2, ONE_GPU, {"release": 1}, processes=2)


@pytest.mark.deep
def test_a_leader_that_ends_in_its_take_over_leaves_the_binds_of_the_last_one_to_the_next() -> None:
    assert_kept("two ends", 1, ONE_GPU, {"end": 1, "promote": 2}, processes=2)


def test_a_take_over_that_a_lapse_interrupts_puts_its_fence_up_after_it() -> None:
    assert_kept("a lapse", 1, ONE_GPU, {"lapse": 1, "promote": 1}, processes=2)


def test_what_fits_side_by_side_is_bound_side_by_side() -> None:
    shape = Shape((PodSpec(40, "a"), PodSpec(40, "b"), PodSpec(40, "a")), ONE_GPU)
    finding = explore(Scope("three for one GPU", shape, {}, 0))
    assert finding.wrong is None, story(finding)


def test_a_pod_that_gets_another_model_on_its_way_shares_with_nobody_of_that_model() -> None:
    finding = explore(Scope("relabelled", Shape((SMALL, OTHER), ONE_GPU), {"relabel": 1}, 1))
    assert finding.wrong is None, story(finding)


def test_a_pod_that_no_longer_says_where_it_runs_keeps_its_gpu() -> None:
    finding = explore(Scope("stripped", Shape((SMALL, SMALL), ONE_GPU), {"strip": 1, "restart": 1}, 2))
    assert finding.wrong is None, story(finding)


def test_pods_that_fit_by_memory_and_not_by_compute_take_turns() -> None:
    finding = explore(Scope("compute is short", Shape((HALF, RIVAL), ONE_GPU), {"lose": 1, "restart": 1}, 2))
    assert finding.wrong is None, story(finding)


def test_compute_that_a_pod_holds_is_known_after_a_restart_without_its_annotations() -> None:
    finding = explore(Scope("compute stripped", Shape((HALF, RIVAL), ONE_GPU), {"strip": 1, "restart": 1}, 2))
    assert finding.wrong is None, story(finding)


def test_who_declares_compute_and_who_declares_none_are_never_side_by_side() -> None:
    finding = explore(Scope("two kinds", Shape((REST, OTHER), ONE_GPU), {"lose": 1, "restart": 1}, 2))
    assert finding.wrong is None, story(finding)


def test_pods_on_terms_that_do_not_tolerate_each_other_take_turns() -> None:
    finding = explore(Scope("too much slowdown", Shape((FRIEND, FOE), ONE_GPU), {"lose": 1, "restart": 1}, 2))
    assert finding.wrong is None, story(finding)


def test_who_shares_on_terms_and_who_books_a_percentage_are_never_side_by_side() -> None:
    finding = explore(Scope("terms and percent", Shape((GUEST, REST), ONE_GPU), {"lose": 1, "restart": 1}, 2))
    assert finding.wrong is None, story(finding)


SIDE_BY_SIDE = {
    "two on terms whose pair was measured": (FRIEND, GUEST),
    "two of 40 MiB and of 60 and 40 % fit one GPU": (HALF, REST),
    "two tenants' model of one name is two": (SMALL, replace(SMALL, namespace="team")),
}


@pytest.mark.parametrize("pods", spread(tuple(SIDE_BY_SIDE.values()), 2), ids=SIDE_BY_SIDE)
def test_what_fits_side_by_side_by_memory_and_compute_ends_side_by_side(pods: tuple[PodSpec, ...]) -> None:
    scope = Scope("both fit", Shape(pods, ONE_GPU), {"restart": 1, "delete": 1}, 2)
    together: list[World] = []

    def visit(world: World) -> None:
        if all(pod is not None and pod.node for pod in world.pods):
            together.append(world)

    finding = explore(scope, visit=visit)
    assert finding.wrong is None, story(finding)
    assert together, "they fit one GPU"
