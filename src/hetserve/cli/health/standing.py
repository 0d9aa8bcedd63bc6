"""How a service stands, by its conditions: Ready, Stalled or on its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from hetserve.api.conditions import ConditionType

State = Literal["Unseen", "Reconciling", "Ready", "Stalled"]
_STATES: Final[tuple[tuple[ConditionType, State], ...]] = (
    (ConditionType.STALLED, "Stalled"),
    (ConditionType.READY, "Ready"),
    (ConditionType.RECONCILING, "Reconciling"),
)
_UNSEEN: Final = "the operator has not seen this generation yet"


@dataclass(frozen=True, slots=True)
class Standing:
    """State with the reason and message of the condition that says so; Unseen has no reason."""

    state: State
    reason: str
    message: str

    @property
    def settled(self) -> bool:
        return self.state in ("Ready", "Stalled")


def standing(raw: Mapping[str, Any]) -> Standing:
    """Standing of a raw InferenceService.

    A condition counts where it is about the generation there is: one of an earlier spec says nothing of this one.
    """
    generation = int((raw.get("metadata") or {}).get("generation") or 0)
    status = raw.get("status") or {}
    if int(status.get("observedGeneration") or 0) != generation:
        return Standing("Unseen", "", _UNSEEN)
    true = {
        str(condition.get("type")): condition
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True" and int(condition.get("observedGeneration") or 0) == generation
    }
    for kind, state in _STATES:
        if found := true.get(kind):
            return Standing(state, str(found.get("reason") or ""), str(found.get("message") or ""))
    return Standing("Unseen", "", _UNSEEN)
