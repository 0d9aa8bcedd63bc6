"""The joining policies."""

from __future__ import annotations

from typing import Final

from hetserve.registry.members import Member, Registry

JOINING_POLICIES: Final = Registry(
    Member(
        name="rate-fit",
        where="hetserve.dispatch.joining.rate_fit:rate_fit",
        about="the most accurate variant that carries the demand, as the recent rate and the queue show it",
    ),
    Member(
        name="slackfit",
        where="hetserve.dispatch.joining.superserve:slackfit",
        about="SuperServe's: of buckets of service times the highest within the head's slack, in it the most queries",
    ),
    Member(
        name="max-accuracy",
        where="hetserve.dispatch.joining.superserve:max_accuracy",
        about="SuperServe's MaxAcc: the most accurate variant that can be in time, then as many queries",
    ),
    Member(
        name="max-batch",
        where="hetserve.dispatch.joining.superserve:max_batch",
        about="SuperServe's MaxBatch: as many queries as can be in time, then the most accurate variant",
    ),
    Member(
        name="clipper",
        where="hetserve.dispatch.joining.superserve:clipper",
        about="Clipper+: one variant, as many queries as can be in time",
    ),
    Member(
        name="infaas",
        where="hetserve.dispatch.joining.superserve:infaas",
        about="INFaaS: the least accurate variant that is allowed",
    ),
    Member(
        name="coarse",
        where="hetserve.dispatch.joining.superserve:coarse",
        about="by the last second's rate, the same variant on all instances",
    ),
    Member(
        name="fang-fixed",
        where="hetserve.dispatch.joining.fang:fixed",
        about="Fang et al.: all that waits, at most 32 items",
    ),
    Member(
        name="fang",
        where="hetserve.dispatch.joining.fang:heuristic",
        about="Fang et al.: the least size that keeps up, then the variant whose answers are worth most",
    ),
    Member(
        name="fang-rl",
        where="hetserve.dispatch.joining.fang_rl:learned",
        about="Fang et al.: a trained network chooses size and variant, or waits; `fang` for another fleet",
    ),
)
"""Their functions are `hetserve.dispatch.joining.JoiningFactory`."""
