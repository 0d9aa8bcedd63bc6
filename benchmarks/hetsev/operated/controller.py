"""The controller `hetserve`."""

from __future__ import annotations

import asyncio
from weakref import finalize

from benchmarks.hetsev.operated.manifests import Wishes
from benchmarks.hetsev.operated.operator_in_time import OperatorInTime
from benchmarks.hetsev.policy import Decided, Seen
from benchmarks.hetsev.scene import Scene

from hetserve.dispatch import make_policy
from hetserve.objects.gpu_sharing import ONE
from hetserve.planning.inputs import PlanSettings


class Hetserve:
    """The operator looks every second, and decides by itself when there is something to do.

    Its router predicts times of instances that share as slow as they may become, as the product's does.
    """

    interval = 1.0

    def __init__(self, scene: Scene, name: str = "hetserve", wishes: Wishes | None = None) -> None:
        wishes = wishes or Wishes()
        self.name, self.shares = name, wishes.sharing == "Shared"
        self.dispatch = make_policy("hetserve")
        settings = PlanSettings()
        self.expected = dict.fromkeys(scene.assumed.gpus, settings.max_slowdown / ONE) if self.shares else {}
        self.operator = OperatorInTime(scene, wishes, settings)
        self._loop = asyncio.new_event_loop()
        finalize(self, self._loop.close)

    def decide(self, seen: Seen) -> Decided:
        return self._loop.run_until_complete(self.operator.look(seen))
