"""The explored scopes: small clusters with faults.

Three pods meet every single fault, two pods pairs, one pod, reborn, all together. A change of leader meets a second
fault with three pods and two GPUs; with one GPU, and with two and no fault, the deposed process is followed to its end.
A lapse and an end in order meet a change with two pods, and any fault with one.
"""

from __future__ import annotations

from typing import Final

from hetserve.placement.placer import Mode
from modelcheck.truth import PodSpec, Scope, Shape

ONE_NODE: Final = {"n0": 2}
TWO_NODES: Final = {"n0": 1, "n1": 1}
ALONE: Final = PodSpec(60, "m")
"""Fits once on a GPU."""
PACKED: Final = (("hetserve.io/placement-policy", "BestFit"),)
SMALL: Final = PodSpec(40, "m", annotations=PACKED)
OTHER: Final = PodSpec(40, "other", annotations=PACKED)
"""Fits beside SMALL, as another SMALL of its model does not."""
WHOLE: Final = PodSpec(0, "m", resources=(("hetserve.io/gpu", "1"),))
PAIR: Final = PodSpec(40, "m", resources=(("hetserve.io/gpu", "2"),))
HALF: Final = PodSpec(40, "m", resources=(("hetserve.io/gpu-compute", "60"),), annotations=PACKED)
"""Declares compute: the memory of a GPU takes two, its compute one."""
REST: Final = PodSpec(40, "other", resources=(("hetserve.io/gpu-compute", "40"),), annotations=PACKED)
"""Fits beside HALF in memory and compute, and never beside OTHER, which declares none."""
RIVAL: Final = PodSpec(40, "rival", resources=(("hetserve.io/gpu-compute", "60"),), annotations=PACKED)
"""Fits beside HALF in memory only."""
ALL_COMPUTE: Final = (("hetserve.io/gpu-compute", "100"),)
HALF_SHARE: Final = '{"share":"0.5","tolerance":"1.75","factors":{"*":"%s","other":"1.1"}}'
FRIEND: Final = PodSpec(40, "m", ALL_COMPUTE, (*PACKED, ("hetserve.io/gpu-sharing", HALF_SHARE % "3")))
"""On terms: tolerated by GUEST alone, whose pair was measured."""
GUEST: Final = PodSpec(40, "other", ALL_COMPUTE, (*PACKED, ("hetserve.io/gpu-sharing", HALF_SHARE % "1.2")))
FOE: Final = PodSpec(40, "foe", ALL_COMPUTE, (*PACKED, ("hetserve.io/gpu-sharing", HALF_SHARE % "1.2")))
"""Fits beside GUEST, and not beside FRIEND, which slows it down too much."""
ROLLED: Final = PodSpec(60, "m", deployment="d")
"""Of a Deployment that rolls: the next one gets the place of the one that goes."""
ROLLED_WHOLE: Final = PodSpec(0, "m", resources=(("hetserve.io/gpu", "1"),), deployment="d")
ROLLING: Final = {"delete": 1, "terminate": 1, "finish": 1, "create": 1, "lose": 1, "list": 1, "restart": 1}
ROLLOUT: Final = Shape((ROLLED, ROLLED), {"n0": 1})
THREE: Final = Shape((ALONE, ALONE, ALONE), ONE_NODE)
APART: Final = Shape((ALONE, ALONE, ALONE), TWO_NODES)
ONE_GPU: Final = Shape((ALONE, ALONE), {"n0": 1})
TWO_GPUS: Final = Shape((ALONE, ALONE), ONE_NODE)
ONE_POD: Final = Shape((ALONE,), {"n0": 1})

LOST: Final = {"lose": 1}
USERS: Final = {"delete": 1, "terminate": 1, "finish": 1, "create": 1}
WATCH: Final = {"list": 1, "repeat": 1}
HARDWARE: Final = {"node gone": 1, "node back": 1}
PROCESS: Final = {"restart": 1, "hang up": 1, "refuse": 1}
AGAIN: Final = {"filter again": 1, "bind again": 1}
ALL: Final = {**LOST, **USERS, **WATCH, **HARDWARE, **PROCESS, **AGAIN}
HAND: Final = {"relabel": 1, "strip": 1}
EDITED: Final = {**ALL, **HAND}
CHANGE: Final = {"promote": 1}
UNSURE: Final = {"lose": 1, "delete": 1, "refuse": 1}
FAILOVER: Final = {**CHANGE, **UNSURE}
BACK: Final = {"promote": 2, "restart": 1}
"""The lead comes back."""
END: Final = {**CHANGE, "end": 1}
"""The leader ends in order before the other one leads."""
LAPSE: Final = {**CHANGE, "lapse": 1}
"""A leader fails to renew, and wins the Lease back or loses it."""
RELEASE: Final = {"release": 1}
"""The leader's scheduler ends in order, and its extender learns of it late."""
ENDS: Final = {"end": 2, "promote": 2, "start": 1}
"""A rolling update: each hands over to a new process."""

QUICK: Final[tuple[Scope, ...]] = (
    Scope("1 pod, any two faults or edits", Shape((ALONE,), ONE_NODE), EDITED, 2),
    Scope("2 pods, 1 GPU, two of lost, deleted and refused", ONE_GPU, UNSURE, 2),
    Scope("a whole GPU and a pair, any fault or edit", Shape((WHOLE, PAIR), ONE_NODE), EDITED, 1),
    Scope("2 pods, 1 GPU and compute for one, any fault or edit", Shape((HALF, RIVAL), {"n0": 1}), EDITED, 1),
    Scope("1 GPU, compute beside none declared, any fault or edit", Shape((REST, OTHER), {"n0": 1}), EDITED, 1),
    Scope("1 GPU, on terms and too much slowdown, any fault or edit", Shape((FRIEND, FOE), {"n0": 1}), EDITED, 1),
    Scope("1 GPU, on terms beside a percentage, any fault or edit", Shape((GUEST, REST), {"n0": 1}), EDITED, 1),
    Scope("2 processes, 1 GPU, a lapse and an end", ONE_GPU, {**LAPSE, **END}, 0, processes=2, retires=True),
    Scope(
        "2 processes, 1 pod, a release and a lost answer", ONE_POD, {**RELEASE, **LOST}, 1, processes=2, retires=True
    ),
    Scope("2 processes, 1 pod, two ends and a start", ONE_POD, ENDS, 1, processes=2, retires=True),
    Scope("2 processes, 1 pod, two changes and a restart", ONE_POD, BACK, 1, processes=2, retires=True),
)
"""Of every test run: eight seconds of processor time."""

SCOPES: Final[tuple[Scope, ...]] = (
    *QUICK,
    Scope("a rollout on 1 GPU, two faults", ROLLOUT, ROLLING, 2),
    Scope("a rollout beside a rival, 1 GPU, two faults", Shape((ROLLED, ROLLED, ALONE), {"n0": 1}), ROLLING, 2),
    Scope("a rollout of whole GPUs beside a rival", Shape((ROLLED_WHOLE, ROLLED_WHOLE, ALONE), ONE_NODE), UNSURE, 1),
    Scope("2 processes, 1 GPU, a rollout beside the change", ROLLOUT, {**ALL, **CHANGE}, 1, 2, retires=True),
    Scope("2 pods that share a GPU, any fault or edit", Shape((SMALL, OTHER), {"n0": 1}), EDITED, 1),
    Scope("mode score, 2 pods, any fault", Shape((ALONE, ALONE), TWO_NODES), ALL, 1, mode=Mode.SCORE),
    Scope(
        "2 processes, 1 GPU, a release and a lost answer", ONE_GPU, {**RELEASE, **LOST}, 1, processes=2, retires=True
    ),
    Scope("2 processes, 1 GPU, a fault beside an end", ONE_GPU, {**END, **UNSURE}, 1, processes=2, retires=True),
    Scope("2 processes, 1 GPU, any fault beside the change", ONE_GPU, {**ALL, **CHANGE}, 1, 2, retires=True),
    Scope("3 pods, 2 nodes x 1 GPU, any fault", APART, ALL, 1),
    Scope("3 pods, 1 node x 2 GPUs, any fault", THREE, ALL, 1),
    Scope("2 pods that share, any fault or edit", Shape((SMALL, OTHER), ONE_NODE), EDITED, 1),
    Scope("2 pods that share, edits and restart", Shape((SMALL, OTHER), ONE_NODE), {**HAND, "restart": 1}, 2),
    Scope("2 pods, two of lost, deleted and refused", TWO_GPUS, UNSURE, 2),
    Scope("2 pods that share memory and not compute, any fault or edit", Shape((HALF, RIVAL), ONE_NODE), EDITED, 1),
    Scope("compute beside none declared, any fault or edit", Shape((REST, OTHER), ONE_NODE), EDITED, 1),
    Scope("two that share compute and one more, a fault", Shape((HALF, REST, RIVAL), {"n0": 1}), UNSURE, 1),
    Scope("2 pods on terms that tolerate each other, any fault or edit", Shape((FRIEND, GUEST), ONE_NODE), EDITED, 1),
    Scope(
        "3 pods on terms, all but two tolerate each other, a fault", Shape((FRIEND, GUEST, FOE), ONE_NODE), UNSURE, 1
    ),
    Scope("2 processes, 1 GPU, a fault beside the change", ONE_GPU, FAILOVER, 1, processes=2),
    Scope("2 processes, 2 GPUs, any fault beside the change", TWO_GPUS, {**ALL, **CHANGE}, 1, 2, retires=True),
    Scope("2 processes, 3 pods, a fault beside the change", THREE, FAILOVER, 1, processes=2, retires=True),
    Scope("2 processes, 1 GPU, two changes and a restart", ONE_GPU, BACK, 1, processes=2, retires=True),
    Scope("2 processes, 2 GPUs, an end", TWO_GPUS, END, 0, processes=2, retires=True),
    Scope("2 processes, 1 pod, any fault, lapse and end", ONE_POD, {**ALL, **LAPSE, **END}, 1, 2, retires=True),
    Scope("2 processes, 1 pod, three changes", ONE_POD, {"promote": 3}, 0, processes=2, retires=True),
)
"""Of `make modelcheck` and `make test-deep`: two minutes of processor time."""

DEEP: Final[tuple[Scope, ...]] = (
    Scope("3 pods, two share, any fault or edit", Shape((SMALL, SMALL, OTHER), ONE_NODE), EDITED, 1),
    Scope("2 pods, any two faults", Shape((ALONE, ALONE), ONE_NODE), ALL, 2),
    Scope("2 pods, 2 nodes, any two faults or edits", Shape((SMALL, OTHER), TWO_NODES), EDITED, 2),
    Scope("1 pod, any three faults", Shape((ALONE,), ONE_NODE), ALL, 3),
    Scope("1 pod, any four faults", Shape((ALONE,), ONE_NODE), {**EDITED, "lose": 2, "delete": 2}, 4),
    Scope("mode score, 2 pods, any fault or edit", Shape((SMALL, OTHER), TWO_NODES), EDITED, 1, mode=Mode.SCORE),
    Scope("mode score, 3 pods, any fault", Shape((SMALL, SMALL, OTHER), ONE_NODE), ALL, 1, mode=Mode.SCORE),
    Scope("2 processes, 3 pods, any fault beside the change", THREE, {**ALL, **CHANGE}, 1, 2, retires=True),
    Scope("2 processes, 3 pods, 2 nodes, a fault beside the change", APART, FAILOVER, 1, 2, retires=True),
    Scope("2 processes, 2 GPUs, two changes", TWO_GPUS, {"promote": 2}, 0, processes=2, retires=True),
    Scope("2 processes, 1 GPU, two changes, a request lost", ONE_GPU, {"promote": 2, "lose": 1}, 1, 2, retires=True),
    Scope("2 processes, 2 GPUs, a change of leader", TWO_GPUS, CHANGE, 0, processes=2),
    Scope("2 processes, 1 GPU, a lapse, nobody forgotten", ONE_GPU, LAPSE, 0, processes=2),
    Scope("2 processes, 1 GPU, a fault, lapse and end", ONE_GPU, {**LAPSE, **END, **UNSURE}, 1, 2, retires=True),
    Scope("2 processes, 2 GPUs, a lapse and an end", TWO_GPUS, {**LAPSE, **END}, 0, processes=2, retires=True),
    Scope("2 processes, 2 GPUs, a fault beside an end", TWO_GPUS, {**END, **UNSURE}, 1, processes=2, retires=True),
    Scope("2 processes, 1 GPU, two ends and a start", ONE_GPU, ENDS, 1, processes=2, retires=True),
    Scope("2 processes, 1 pod, a lapse and three changes", ONE_POD, {"promote": 3, "lapse": 1}, 0, 2, retires=True),
)

UNFENCED: Final = Scope("2 processes without the fence", ONE_GPU, FAILOVER, 1, 2, fenced=False)
"""Must break, or the fence were needless."""
