"""How much sharing a GPU slows an instance: the model of processor sharing, and nothing else.

stretch = max(1 + sum over busy neighbours j of c_ij x scale(b_i, b_j), sum over all busy instances of u), where u is
the share of the GPU's compute that an instance uses while it serves. The first term is what neighbours do to each other
even if there is compute for all; the second shares out the compute that there is.
"""

from __future__ import annotations

import math

from hetserve.compiled import njit_inner
from hetserve.simulation.shared.services import MEASURED_AT
from hetserve.simulation.shared.state import JointState


@njit_inner
def batch_scaling(own: float, other: float) -> float:
    """How interference grows with the batches of two neighbours [items]: 1 at 8 and 8."""
    return math.sqrt(own * other) / MEASURED_AT


@njit_inner
def stretch_of(slot: int, first: int, last: int, world: JointState) -> float:
    """Stretch of a busy instance; the GPU's instances are gpus.members[first:last]."""
    tables, instances, members = world.tables, world.instances, world.gpus.members
    kind, batch = instances.kind[slot], instances.batch[slot]
    slowed, used = 1.0, 0.0
    for k in range(first, last):
        other = members[k]
        if not instances.busy[other]:
            continue
        used += tables.shares[instances.kind[other]]
        if other != slot:
            slowed += tables.harm[kind, instances.kind[other]] * batch_scaling(batch, instances.batch[other])
    return max(slowed, used)
