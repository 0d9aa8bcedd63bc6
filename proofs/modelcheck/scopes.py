"""The scopes that are explored: small clusters, each with the faults that meet in it.

Three pods meet every single fault; two pods meet pairs; one pod, which is born again, meets them all together.
"""

from __future__ import annotations

from typing import Final

from hetserve.placement.placer import Mode
from modelcheck.truth import PodSpec, Shape
from modelcheck.world import Scope

ONE_NODE: Final = {"n0": 2}
TWO_NODES: Final = {"n0": 1, "n1": 1}
ALONE: Final = PodSpec(60, "m")
"""Fits once on a GPU."""
SMALL: Final = PodSpec(40, "m")
OTHER: Final = PodSpec(40, "other")
"""Fits beside SMALL, which another SMALL does not: it is of the same model."""
WHOLE: Final = PodSpec(0, "m", resources=(("hetserve.io/gpu", "1"),))
PAIR: Final = PodSpec(40, "m", resources=(("hetserve.io/gpu", "2"),))

LOST: Final = {"lose": 1}
USERS: Final = {"delete": 1, "terminate": 1, "finish": 1, "create": 1}
WATCH: Final = {"list": 1, "repeat": 1}
HARDWARE: Final = {"node gone": 1, "node back": 1}
PROCESS: Final = {"restart": 1, "hang up": 1, "refuse": 1}
AGAIN: Final = {"filter again": 1, "bind again": 1}
ALL: Final = {**LOST, **USERS, **WATCH, **HARDWARE, **PROCESS, **AGAIN}
FAILOVER: Final = {"promote": 1, "lose": 1, "delete": 1, "refuse": 1}

SCOPES: Final[tuple[Scope, ...]] = (
    Scope("3 pods, 2 nodes x 1 GPU, any fault", Shape((ALONE, ALONE, ALONE), TWO_NODES), ALL, 1),
    Scope("3 pods, 1 node x 2 GPUs, any fault", Shape((ALONE, ALONE, ALONE), ONE_NODE), ALL, 1),
    Scope("2 pods that share, any fault", Shape((SMALL, OTHER), ONE_NODE), ALL, 1),
    Scope("1 pod, any three faults", Shape((ALONE,), ONE_NODE), ALL, 3),
    Scope("a whole GPU and a pair, any fault", Shape((WHOLE, PAIR), ONE_NODE), ALL, 1),
    Scope("mode score, 2 pods, any fault", Shape((ALONE, ALONE), TWO_NODES), ALL, 1, mode=Mode.SCORE),
    Scope("2 processes, the leader changes", Shape((ALONE, ALONE), {"n0": 1}), FAILOVER, 1, processes=2),
)
"""Under two minutes on two cores."""

DEEP: Final[tuple[Scope, ...]] = (
    Scope("3 pods, two of them share, any fault", Shape((SMALL, SMALL, OTHER), ONE_NODE), ALL, 1),
    Scope("2 pods, any two faults", Shape((ALONE, ALONE), ONE_NODE), ALL, 2),
    Scope("2 pods, 2 nodes, any two faults", Shape((SMALL, OTHER), TWO_NODES), ALL, 2),
    Scope("1 pod, any four faults", Shape((ALONE,), ONE_NODE), {**ALL, "lose": 2, "delete": 2}, 4),
    Scope("mode score, 3 pods, any fault", Shape((SMALL, SMALL, OTHER), ONE_NODE), ALL, 1, mode=Mode.SCORE),
    Scope("2 processes, two faults", Shape((ALONE, ALONE), {"n0": 1}), FAILOVER, 2, processes=2),
)

UNFENCED: Final = Scope("2 processes without the fence", Shape((ALONE, ALONE), {"n0": 1}), FAILOVER, 2, 2, fenced=False)
"""Must break: else the fence would be needless."""
