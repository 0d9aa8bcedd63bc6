"""Distributes tests over workers: tests on a control plane share one.

Replaces `--dist loadgroup`, which does not work with pytest 9.2
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

import os
import zlib
from typing import Any, Final

import pytest

SCENARIOS: Final = "e2e/"
INTEGRATION: Final = "tests/integration/"
OWN_CLUSTER: Final = frozenset(
    f"e2e/test_{name}.py"
    for name in (
        "a_kept_connection_follows_the_leader",
        "a_storm_over_commits_nothing",
        "demo",
        "documented_commands_run_on_a_cluster",
        "failover",
        "gates_are_lifted_on_uninstall",
        "least_privilege",
        "operator_failover",
        "probe_ports_ask_the_apiserver",
        "scheduler_failover",
        "the_first_hour_works",
        "the_service_follows_the_leader",
        "the_verbs_ask_for_certificates",
    )
)
"""Scenarios with clusters of their own alone: they need not wait for those that share one, the longest scope."""
LOADS: Final = frozenset(
    f"e2e/test_{name}.py"
    for name in (
        "a_budget_cut_waits_for_no_metrics",
        "a_leader_that_hangs_writes_nothing_late",
        "a_scarce_type_gives_way",
        "a_service_follows_its_batch_sizes",
        "a_service_follows_its_load",
        "a_service_follows_its_own_queries",
        "a_wrong_profile_shows_in_late_queries",
        "dashboards_ask_what_prometheus_answers",
        "prometheus_measures_the_control_plane",
        "the_load_twin_plays_against_what_is_ready",
    )
)
"""Scenarios that play and measure loads: the longest, as they wait for windows to pass. A third worker runs them."""
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
MANY_CORES: Final = 8


def scope_of(nodeid: str, cores: int) -> str:
    """The tests of a scope run on one worker.

    tests/integration shares a bare control plane, scenarios that play loads one with hetserve, the others one more, or
    two from 8 cores on; those on kind have scopes of their own; any other test is a scope. xdist begins with the scopes
    of most tests, so these begin first.
    """
    path = nodeid.partition("::")[0]
    if path.startswith(ON_KIND):
        return path if path in LOOKING else "looking" if path in LOOKING_FIRST else "alone"
    if path.startswith(INTEGRATION) or path in OWN_CLUSTER:
        return "control-plane"
    if path in LOADS:
        return "loads"
    if path.startswith(SCENARIOS):
        return f"scenarios-{zlib.crc32(path.encode()) % (2 if cores >= MANY_CORES else 1)}"
    return nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Our distribution for `-n N` and loadgroup."""
    if config.option.dist not in ("load", "loadgroup"):
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ClusterScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid, os.cpu_count() or 1)

    return ClusterScheduling(config, log)
