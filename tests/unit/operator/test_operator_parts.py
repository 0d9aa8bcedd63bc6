"""The small parts of the operator: delay queue, memory, settings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from hetserve.reconcile.snapshot import Rendered
from hetserve_operator.leadership import NotLeadingError, OperatorLeadership
from hetserve_operator.memory import BETWEEN_CUTS, CALM, FREE_REPAIRS, LONGEST_HOLD, Memory
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.settings import OperatorSettings
from hetserve_operator.work.controller import Controller, Workers
from hetserve_operator.workqueue import FIRST_RETRY, IN_A_ROW, LONGEST_RETRY, DelayQueue, Key, WorkQueue
from hetserve_shell.settings import SettingsError, load_settings

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")


def test_a_burst_of_changes_is_one_look_at_the_first_due_time() -> None:
    queue = DelayQueue()
    queue.add(A, 1.0)
    queue.add(A, 5.0)
    assert queue.pop(0.9) is None
    assert queue.pop(1.0) == A
    assert queue.pop(9.0) is None


def test_a_key_in_work_comes_again_after_and_never_beside_it() -> None:
    queue = DelayQueue()
    queue.add(A, 0.0)
    queue.add(B, 0.0)
    assert (queue.pop(0.0), queue.pop(0.0)) == (A, B)
    queue.add(A, 0.0)
    assert queue.pop(1.0) is None
    assert queue.next_due() is None
    queue.done(A)
    assert queue.pop(1.0) == A


def test_what_somebody_waits_for_goes_before_what_has_been_due_longer() -> None:
    queue = DelayQueue()
    for number, key in enumerate((A, B)):
        queue.add(key, float(number))
    queue.add(C, 5.0, urgent=True)
    assert queue.pop(4.0) == A
    assert (queue.pop(5.0), queue.pop(5.0)) == (C, B)


def test_a_key_that_waits_becomes_urgent_and_stays_so_until_it_is_given_out() -> None:
    queue = DelayQueue()
    for key in (A, B):
        queue.add(key, 0.0)
    queue.add(B, 3.0, urgent=True)
    queue.add(B, 0.0)
    assert (queue.pop(0.0), len(queue)) == (B, 1)
    queue.done(B)
    queue.add(B, 1.0)
    assert (queue.pop(1.0), queue.pop(1.0), queue.pop(1.0)) == (A, B, None)


def test_urgent_keys_hold_nobody_up_for_ever() -> None:
    queue, given = DelayQueue(), []
    for _ in range(3 * (IN_A_ROW + 1)):
        queue.add(A, 0.0, urgent=True)
        queue.add(B, 0.0)
        key = queue.pop(1.0)
        assert key is not None
        given.append(key)
        queue.done(key)
    assert given == [*[A] * IN_A_ROW, B] * 3


def test_failures_back_off_and_events_do_not_shorten_the_delay() -> None:
    queue = DelayQueue()
    delays = []
    now = 0.0
    for _ in range(9):
        queue.add(A, now)
        assert queue.pop(now) == A
        delays.append(queue.failed(A, now))
        queue.add(A, now)
        assert queue.pop(now) is None
        now += delays[-1]
    assert delays[:3] == [FIRST_RETRY, 2 * FIRST_RETRY, 4 * FIRST_RETRY]
    assert delays[-1] == LONGEST_RETRY
    assert queue.pop(now) == A
    queue.done(A)
    queue.add(A, now)
    assert queue.pop(now) == A
    assert queue.failed(A, now) == FIRST_RETRY


def test_repairs_are_free_at_first_then_ever_rarer_then_free_again_after_calm() -> None:
    memory = Memory()
    for _ in range(FREE_REPAIRS - 1):
        memory.note_repair("d", 0.0)
    assert memory.held(0.0) == {}
    for _ in range(20):
        memory.note_repair("d", 0.0)
    assert memory.held(0.0) == {"d": LONGEST_HOLD}
    assert memory.held(LONGEST_HOLD) == {}
    memory.note_repair("d", CALM + 1)
    assert memory.held(CALM + 1) == {}


def test_refusals_are_forgotten_after_a_while_and_renderings_are_not() -> None:
    memory = Memory()
    memory.keep_rendered("good", Rendered(spec={}), 0.0)
    memory.keep_rendered("bad", Rendered(refusal="no"), 0.0)
    memory.keep_refused("apply x", "forbidden", 0.0)
    assert memory.wake_after(10.0) == 20.0
    assert memory.rendered(31.0).keys() == {"good"}
    assert memory.refused(31.0) == {}
    assert memory.wake_after(31.0) is None


def test_settings_are_read_and_flags_override_them(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text('probePort: 1\nsaturationThreshold: "0.9"\nlaunchWeight: "0.5"\ndebounce: 50ms\nresync: 2m\n')
    found = load_settings(OperatorSettings, path, {"probe_port": 2, "log_level": None})
    assert (found.probe_port, found.saturation_threshold, found.debounce, found.resync) == (2, 0.9, 0.05, 120.0)
    assert found.planning.launch_weight == 0.5
    assert found.planning.max_slowdown == 1_750_000


def test_the_greatest_slow_down_is_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text('sharing: {maxSlowdown: "1.5", extenderLease: x}\n')
    found = load_settings(OperatorSettings, path, {})
    assert (found.planning.max_slowdown, found.sharing.extender_lease) == (1_500_000, "x")


def test_the_address_of_prometheus_is_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(
        "metrics:\n  allowQueries: true\n  prometheus:\n    {url: 'https://p:9090/team/', caFile: /ca, "
        "tokenFile: /token, timeout: 2s, interval: 500ms}\n"
    )
    found = load_settings(OperatorSettings, path, {}).metrics
    read = found.prometheus
    assert (found.allow_queries, read.configured, read.url) == (True, True, "https://p:9090/team")
    assert (read.ca_file, read.token_file, read.timeout, read.interval) == ("/ca", "/token", 2.0, 0.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "metrics: {prometheus: {url: 'p:9090'}}",
            "metrics.prometheus.url: 'p:9090': must be an address such as https://",
        ),
        ("metrics: {prometheus: {url: 'http://:9'}}", "must be an address such as"),
        ("metrics: {prometheus: {url: 'http://p:x'}}", "must be an address such as"),
        ("metrics: {prometheus: {url: 'http://p q'}}", "must be an address such as"),
        ("metrics: {prometheus: {url: 'http://me:it@p'}}", "must have no user, query or fragment"),
        ("metrics: {prometheus: {url: 'http://p/?a=b'}}", "must have no user, query or fragment"),
        (
            "metrics: {prometheus: {url: 'http://p', tokenFile: /t}}",
            "tokenFile must stand beside an https url, this one is 'http://p'",
        ),
        ("metrics: {prometheus: {caFile: /c}}", "caFile must stand beside an https url, this one is ''"),
        ("metrics: {prometheus: {interval: 0s}}", "metrics.prometheus.interval: 0.0: Input should be greater"),
        ("metrics: {prometheus: {timeout: 0s}}", "metrics.prometheus.timeout: 0.0: Input should be greater"),
        ("portt: 1", "portt: unknown setting"),
        ("debounce: 5", "debounce: 5: a duration is a text"),
        ("plannerDeadline: 0s", "plannerDeadline: 0.0: Input should be greater"),
        ("plannerProcesses: 0", "plannerProcesses: 0"),
        ("saturationThreshold: 0", "saturationThreshold: 0"),
        ('sharing: {maxSlowdown: "0.99"}', "sharing.maxSlowdown: '0.99': 0.99 must be at least 1, for example 1.25"),
        ('sharing: {maxSlowdown: "25 %"}', "sharing.maxSlowdown: '25 %': '25 %' is not a decimal number such as"),
        ("sharing: {maxSlowdown: 1.25}", "sharing.maxSlowdown: 1.25: must be a decimal number in quotes"),
        ("- a", "settings are a mapping such as logLevel: info"),
    ],
)
def test_settings_that_cannot_be_used_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=words.replace("(", r"\(").replace("?", r"\?")):
        load_settings(OperatorSettings, path, {})


def test_a_renewed_key_does_not_wait_for_earlier_failures() -> None:
    queue, now = DelayQueue(), 0.0
    queue.add(A, now)
    for _ in range(6):
        assert queue.pop(now) == A
        now += queue.failed(A, now)
    assert queue.pop(now - 1.0) is None
    queue.renew(A, now - 1.0)
    assert queue.pop(now - 1.0) == A
    assert queue.failed(A, now) == FIRST_RETRY


def test_repairs_that_the_budget_asks_for_come_at_most_once_in_five_seconds() -> None:
    memory = Memory()
    memory.note_cut("d", 10.0)
    assert memory.cut_held(12.0) == {"d": 3.0}
    assert memory.cut_held(10.0 + BETWEEN_CUTS) == {}


async def test_a_look_that_the_end_of_a_term_cut_off_goes_before_others() -> None:
    looked: list[str] = []
    queue, over = WorkQueue(lambda: 0.0), asyncio.Event()

    class Cut:
        async def reconcile(self, key: Key) -> float | None:
            looked.append(key.name)
            if looked == ["z"]:
                queue.add(A)
                queue.add(B)
                raise NotLeadingError("the term is over")
            if key == B:
                over.set()
            return None

    queue.add(Key("ns", "z"))
    controller = cast("Controller", Cut())
    worker = asyncio.create_task(Workers(queue, controller, OperatorLeadership(), OperatorMetrics()).work())
    await over.wait()
    worker.cancel()
    assert looked == ["z", "z", "a", "b"]
