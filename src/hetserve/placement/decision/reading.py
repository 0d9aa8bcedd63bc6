"""What a refusal says that kube-scheduler has passed on: the extender's reasons, read back.

An extender has no other way on a stock scheduler: the condition's reason is always Unschedulable, and its message has
each reason behind the number of its nodes. To write to each pod that is refused would cost a request per attempt.
So the kinds that matter are known by parts of their texts that both sides have from `wording`.
"""

from __future__ import annotations

import re
from typing import Final

from hetserve.placement.decision.wording import DECLARING, FREE, IDLE, SAME_MODEL, WITHOUT_MODEL

_NODES: Final = r"(?:^|[ ,:])\d+ "
"""How many nodes a reason is of."""
_SAME_MODEL: Final = re.compile(rf"{_NODES}(?:{SAME_MODEL}|fewer than \d+ GPUs {WITHOUT_MODEL})")
_NO_ROOM: Final = re.compile(
    rf"{_NODES}(?:(?:no|fewer than \d+) (?:{IDLE}|GPUs? with [^,;]*\b{FREE}\b)|{DECLARING} "
    "|Insufficient |Too many pods)"
)


def waits_for_other_model(message: str) -> bool:
    """Whether an instance waits only for a GPU that does not have its model yet: its type has room, for others.

    message: of the condition PodScheduled, whose reason is Unschedulable.
    """
    return _SAME_MODEL.search(message) is not None and _NO_ROOM.search(message) is None
