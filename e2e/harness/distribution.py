"""Distributes tests over workers: scenarios, which wait, to some; tests that compute, to others, which stand back.

`-n` says how many workers there are. Those beyond the number of cores run scenarios, each on a control plane that its
scenarios share; as many as there are cores run the other tests at a low priority, so that no component waits for them.

Replaces `--dist loadgroup`, which does not work with pytest 9.2
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from harness.costs import known

SCENARIOS: Final = "e2e/"
INTEGRATION: Final = "tests/integration/"
ON_KIND: Final = "e2e/kind/"
LOOKING_FIRST: Final = frozenset(
    f"e2e/kind/test_{name}.py"
    for name in (
        "gpus_that_others_give_take_no_container",
        "helm_test_places_a_pod",
        "kernels_are_compiled_in_the_image",
        "the_command_lines_image_asks_the_cluster",
    )
)
"""Scenarios on kind that one worker begins with: first what runs beside the cluster, while another has it alone."""
LOOKING: Final = frozenset(
    f"e2e/kind/test_{name}.py"
    for name in (
        "a_container_sees_its_gpu",
        "the_doctor_reads_real_pods",
        "the_first_hour_on_real_pods",
    )
)
"""The other files of scenarios on kind that run beside others. What is named nowhere is on one worker."""
STANDS_BACK: Final = 19
"""Niceness of a worker that only computes: below that of the operator's plans (10)."""

AUTOGROUP: Final = Path("/proc/self/autogroup")


def scope_of(nodeid: str) -> str:
    """The tests of a scope run on one worker, one after the other.

    tests/integration shares a bare control plane; those on kind have scopes of their own; any other file is a scope, as
    its tests share fixtures, and plans that were made once.
    """
    path = nodeid.partition("::")[0]
    if path.startswith(ON_KIND):
        return path if path in LOOKING else "looking" if path in LOOKING_FIRST else "alone"
    if path.startswith(INTEGRATION):
        return INTEGRATION
    return path


def waits(scope: str) -> bool:
    """Whether its tests wait for a control plane, rather than compute."""
    return not scope.startswith("tests/") or scope == INTEGRATION


def hosts(workers: int, cores: int) -> int:
    """How many of the workers run scenarios: those beyond the cores; all where there are no more than cores."""
    return workers - cores if workers > cores else workers


def next_scope(queued: Iterable[str], *, host: bool) -> str | None:
    """The next scope for a worker, None: there is nothing for it. queued: in the order of `in_order`."""
    return next((scope for scope in queued if host or not waits(scope)), None)


def in_order(nodeids: Sequence[str], seconds: Mapping[str, float]) -> dict[str, int]:
    """Rank of each scope: first what waits, then what is known to take long, then what has many tests."""
    spent, tests = dict.fromkeys(map(scope_of, nodeids), 0.0), Counter(map(scope_of, nodeids))
    for nodeid in nodeids:
        spent[scope_of(nodeid)] += seconds.get(nodeid, 0.0)
    ordered = sorted(spent, key=lambda scope: (not waits(scope), -spent[scope], -tests[scope]))
    return {scope: rank for rank, scope in enumerate(ordered)}


def is_host(worker: str, workers: int) -> bool:
    """worker: its name, as xdist gives it, such as gw0."""
    return int(worker.removeprefix("gw")) < hosts(workers, os.cpu_count() or 1)


def pytest_configure(config: pytest.Config) -> None:
    """A worker that only computes stands back, in a session of its own: Linux may weigh sessions against each other."""
    given = getattr(config, "workerinput", None)
    if given is None or is_host(given["workerid"], given["workercount"]):
        return
    os.nice(STANDS_BACK)
    with suppress(OSError):
        os.setsid()
        AUTOGROUP.write_text(str(STANDS_BACK), encoding="ascii")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The order in which scopes are given to workers; a run in one process keeps its own."""
    if hasattr(config, "workerinput"):
        ranks = in_order([item.nodeid for item in items], known())
        items.sort(key=lambda item: ranks[scope_of(item.nodeid)])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Our distribution for `-n N` and loadgroup."""
    if config.option.dist not in ("load", "loadgroup"):
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            scope = next_scope(self.workqueue, host=is_host(node.gateway.id, self.numnodes))
            if scope is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return Scheduling(config, log)
