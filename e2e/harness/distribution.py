"""Distributes tests over workers: a file is given to one, files that are known to take long first.

Replaces `--dist loadgroup`, which does not work with pytest 9.2
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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


def in_order(nodeids: Sequence[str], seconds: Mapping[str, float]) -> dict[str, int]:
    """Rank of each scope: first what is known to take long, then what has many tests."""
    spent, tests = dict.fromkeys(map(scope_of, nodeids), 0.0), Counter(map(scope_of, nodeids))
    for nodeid in nodeids:
        spent[scope_of(nodeid)] += seconds.get(nodeid, 0.0)
    ordered = sorted(spent, key=lambda scope: (-spent[scope], -tests[scope]))
    return {scope: rank for rank, scope in enumerate(ordered)}


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

    config.option.loadscopereorder = False
    return Scheduling(config, log)
