"""Laws of the order of patches: whatever is answered when, no patch is sent before those that it must follow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hetserve.base.units import MiB, Seconds
from hetserve.placement.queues.rounds import LONGEST_WAIT, Release, Waiting, overdue
from hetserve_extender.queue.patch_order import Patch, PatchOrder

DECIDED = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 7]), st.integers(0, 6), st.booleans(), st.sampled_from([False, False, False, True])
    ),
    min_size=1,
    max_size=25,
)
"""For each release its priority, how many releases later it is due, whether patches go one by one, whether the watchdog
decided it."""


@given(decided=DECIDED, choices=st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=120, max_size=120))
def test_a_patch_follows_all_that_are_due_before_its_number_and_all_are_sent_once(
    decided: list[tuple[int, int, bool, bool]], choices: list[tuple[int, bool]]
) -> None:
    order, numbers = PatchOrder(), {0: 0, 7: 0}
    made: list[tuple[Patch, list[Patch]]] = []
    sent: list[Patch] = []
    in_flight: list[Patch] = []

    def send(patches: list[Patch]) -> None:
        for patch in patches:
            assert patch not in sent, "sent twice"
            (must,) = [must for known, must in made if known is patch]
            assert all(other.over for other in must), "sent before one that it must follow"
            sent.append(patch)
            in_flight.append(patch)

    for which, late in choices:
        if decided and (which % 3 or not in_flight):
            priority, slack, one_by_one, watchdog = decided.pop(0)
            numbers[priority] += not watchdog
            pod = Waiting(f"u{len(made)}", "d", f"p{len(made)}", MiB(1000), None, Seconds(0.0), priority)
            number = 0 if watchdog else numbers[priority]
            release = Release(pod, overdue(1.0) if watchdog else LONGEST_WAIT, number, number and number + slack)
            must = [other for other, _ in made if not other.over and (one_by_one or _is_due_before(other, release))]
            (patch,) = order.add([release], one_by_one=one_by_one)
            made.append((patch, must))
            send([patch] if patch.sendable else [])
        elif in_flight and late:
            send(order.let_pass(in_flight[which % len(in_flight)]))
        elif in_flight:
            patch = in_flight.pop(which % len(in_flight))
            send(order.answered(patch))
            assert not order.holds(patch)
    while in_flight:
        send(order.answered(in_flight.pop()))
    assert len(sent) == len(made), "a patch waits for ever"
    assert not len(order)


def _is_due_before(patch: Patch, release: Release) -> bool:
    """Whether a patch must reach the API server before that of a release decided after it: docs/queues.md."""
    earlier = patch.release
    in_turn = not earlier.out_of_turn and not release.out_of_turn
    return in_turn and earlier.pod.priority == release.pod.priority and earlier.due < release.number


def test_patches_of_pods_that_are_due_far_behind_are_all_in_flight_at_once() -> None:
    pods = [Waiting(f"u{n}", "d", f"p{n}", MiB(1000), None, Seconds(0.0)) for n in range(40)]
    releases = [Release(pod, LONGEST_WAIT, number, number + 1000) for number, pod in enumerate(pods, start=1)]
    assert all(patch.sendable for patch in PatchOrder().add(releases, one_by_one=False))
