"""The best settings of a HorizontalPodAutoscaler over one trace: a single type, queries/s of an instance, and a window.

Shares of what an instance serves without a pause are tried, upwards from the first while queries stay in time, else
downwards: a list that ends at 95 % would hide cheaper settings. Targets above 1 may do, as instances are whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from benchmarks.horizontal import WINDOW
from benchmarks.reporting import Json
from benchmarks.scaling.rivals import HorizontalPodAutoscaler, targets

from hetserve.base.units import QPS
from hetserve.planning import Problem
from hetserve.planning.slo import serves_whole_mix
from hetserve.scaling.replay.arrivals import Arrived
from hetserve.scaling.replay.fleet import Fleet
from hetserve.scaling.replay.following import run
from hetserve.scaling.replay.serving import Play

FIRST: Final = 0.95
UPWARDS: Final = (1.0, 1.05, 1.1, 1.15, 1.2, 1.25)
DOWNWARDS: Final = (0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
OTHER_WINDOWS: Final = (60.0, 150.0, 600.0)
_HOPELESS: Final = 3.0
"""Times the allowed share of late queries: large ones wait first, so fewer are late than rates alone say."""
_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Setting:
    """A type, the target as a share of what one instance of it serves without a pause, and the window [s]."""

    type: str
    share: float
    window: float = WINDOW


class Autoscalers:
    """HorizontalPodAutoscalers over one trace; each is played once. seed: of batch sizes and service times."""

    def __init__(self, problem: Problem, arrived: Arrived, seed: int) -> None:
        self._problem, self._arrived, self._seed = problem, arrived, seed
        self._fleets: dict[Setting, Fleet] = {}
        self._late: dict[Setting, float] = {}
        usable = [o for o in problem.types if serves_whole_mix(o, problem, problem.slo.percentile)]
        self._types = sorted((option.name for option in usable), key=lambda name: (self._dollars_at_first(name), name))

    def cheapest(self, allowed: float) -> Json:
        """{type, target, window, dollars, late} with at most the share `allowed` of queries late; empty: none has."""
        best: Setting | None = None
        for window in (WINDOW, *OTHER_WINDOWS):
            for name in self._types:
                best = self._better(name, window, allowed, best)
        return {} if best is None else self._as_json(best)

    def _better(self, name: str, window: float, allowed: float, best: Setting | None) -> Setting | None:
        """The cheapest of a type and a window, or `best` if that is no dearer."""
        found = best
        for share in (FIRST, *UPWARDS):
            setting = Setting(name, share, window)
            if self._is_dearer(setting, best):
                continue  # a higher target costs less
            if not self._keeps(setting, allowed):
                break
            found = setting
        if found is not best:
            return found
        for share in DOWNWARDS:
            setting = Setting(name, share, window)
            if self._is_dearer(setting, best):
                return best
            if self._keeps(setting, allowed):
                return setting
        return best

    def _is_dearer(self, setting: Setting, best: Setting | None) -> bool:
        return best is not None and self._dollars(setting) >= self._dollars(best)

    def _keeps(self, setting: Setting, allowed: float) -> bool:
        """Whether few enough are late. What is overloaded by far is not played: its queues would be endless.

        Nor is what was late with a longer window: at no time does a shorter one keep more instances.
        """
        longer = [replace(setting, window=one) for one in (WINDOW, *OTHER_WINDOWS) if one > setting.window]
        if any(self._late.get(one, 0.0) > allowed for one in longer):
            return False
        return self._beyond_rates(setting) <= _HOPELESS * allowed and self._late_share(setting) <= allowed

    def _beyond_rates(self, setting: Setting) -> float:
        """Share of the queries that arrive in minutes beyond what the instances that serve then can do on average."""
        ends = np.arange(self._arrived.begin, self._arrived.end + _MINUTE, _MINUTE)
        arrived = np.histogram(self._arrived.times, ends)[0]
        seconds = np.zeros(len(arrived))
        for span in self._fleet(setting).spans:
            seconds += np.maximum(np.minimum(span.left, ends[1:]) - np.maximum(span.ready, ends[:-1]), 0.0)
        rate = targets(self._problem, setting.type, np.ones(1))[0]
        return float(np.maximum(arrived - rate * seconds, 0.0).sum() / max(arrived.sum(), 1))

    def _dollars_at_first(self, name: str) -> float:
        return self._dollars(Setting(name, FIRST))

    def _target(self, setting: Setting) -> QPS:
        return targets(self._problem, setting.type, np.array([setting.share]))[0]

    def _fleet(self, setting: Setting) -> Fleet:
        if setting not in self._fleets:
            fleet = Fleet(replace(self._problem, budget=None))
            target = self._target(setting)
            rival = HorizontalPodAutoscaler(self._problem, setting.type, target, setting.window)
            run(rival, fleet, self._arrived)
            self._fleets[setting] = fleet
        return self._fleets[setting]

    def _dollars(self, setting: Setting) -> float:
        return self._fleet(setting).dollars(self._arrived.begin, self._arrived.end)

    def _late_share(self, setting: Setting) -> float:
        if setting not in self._late:
            spans = self._fleet(setting).spans
            self._late[setting] = Play(self._problem, self._arrived, spans, self._seed).served().late_share
        return self._late[setting]

    def _as_json(self, setting: Setting) -> Json:
        late, dollars = self._late_share(setting), self._dollars(setting)
        target = self._target(setting)
        return {"type": setting.type, "target": target, "window": setting.window, "dollars": dollars, "late": late}
