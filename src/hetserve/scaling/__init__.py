"""How a service follows what is measured of it: facts, history and clock in, an explained decision out."""

from hetserve.scaling.decision import Action, Decision, Limit, Measured, ScalingReason
from hetserve.scaling.facts import Change, Facts, InForce, Pause
from hetserve.scaling.plans.answers import Answer, Ask, Pending, Unanswered
from hetserve.scaling.policy import decide
from hetserve.scaling.rules import Direction, ScalingRules, StepLimit, scaling_rules

__all__ = [
    "Action",
    "Answer",
    "Ask",
    "Change",
    "Decision",
    "Direction",
    "Facts",
    "InForce",
    "Limit",
    "Measured",
    "Pause",
    "Pending",
    "ScalingReason",
    "ScalingRules",
    "StepLimit",
    "Unanswered",
    "decide",
    "scaling_rules",
]
