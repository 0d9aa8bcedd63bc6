"""Bugs of the load twin: queries counted late, twice or never, time that runs wrong, pods that serve and must not."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace, always, never
from mutants.mutant import Mutant

ENGINE: Final = "hetserve_twin.engine"
PLAY: Final = "tests/unit/twin/test_load_twin.py"

TWIN: Final = (
    Mutant(
        "twin: arrivals are counted only where somebody serves",
        ENGINE,
        "LoadTwin._step",
        Replace("figures.receive($sizes)", "self._numbers and figures.receive($sizes)"),
        PLAY,
        "test_what_nobody_serves_has_arrived_and_is_given_up_after_the_timeout",
    ),
    Mutant(
        "twin: clients that give up are not counted",
        ENGINE,
        "LoadTwin._give_up",
        DropStatement("self.services[key].dropped += gone"),
        PLAY,
        "test_what_nobody_serves_has_arrived_and_is_given_up_after_the_timeout",
    ),
    Mutant(
        "twin: the speed raises the rates",
        ENGINE,
        "Traffic.draw",
        Replace("self.rate_at(start) * (end - start)", "self.rate_at(start) * (end - start) * self.speed"),
        PLAY,
        "test_speed_shrinks_the_times_of_a_trace_and_not_its_rates",
    ),
    Mutant(
        "twin: a pod that is not Ready any more goes on serving",
        ENGINE,
        "LoadTwin.stand",
        DropStatement("self._run.drain($number)"),
        PLAY,
        "test_a_pod_that_is_not_ready_any_more_ends_what_it_serves_and_takes_no_more",
    ),
    Mutant(
        "twin: each pod has a GPU of its own",
        ENGINE,
        "LoadTwin._join",
        Replace("'/'.join(pod.devices[0])", "f'pod {pod.uid}'"),
        PLAY,
        "test_a_neighbour_on_the_same_gpu_slows_and_one_on_another_does_not",
    ),
    Mutant(
        "twin: the dispatch knows the hidden factor",
        "hetserve_twin.systems",
        "Truth.system",
        Replace("declared.means", "self._served(kinds, real, declared).means"),
        PLAY,
        "test_a_hidden_factor_is_real_and_the_dispatch_does_not_know_it",
    ),
    Mutant(
        "twin: what is true follows an edited profile",
        "hetserve_twin.systems",
        "Truth.learn",
        always("$is_new or $kind not in self.profiles"),
        PLAY,
        "test_an_edited_profile_changes_what_is_predicted_and_not_what_is_true",
    ),
    Mutant(
        "twin: no zeros for what belongs to no instance",
        "hetserve_twin.exposition",
        "TwinCollector._add_service",
        DropStatement("families[contract.DURATION].add_metric(...)"),
        "tests/unit/twin/test_twin_process.py",
        "test_zeros_are_there_before_the_first_query",
    ),
    Mutant(
        "trace: times that do not increase are taken",
        "hetserve.demand.trace",
        "read_trace",
        never("$before is not None and $time is not None and $time <= $before"),
        "tests/unit/demand/test_trace.py",
        "test_times_that_do_not_increase_are_named_with_the_remedy",
    ),
)
