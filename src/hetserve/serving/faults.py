"""What a policy can do wrong, as the compiled loop reports it."""

from __future__ import annotations

REPEATED_QUERY, NO_SUCH_QUERY, NO_SUCH_WORKER, UNSERVABLE, ENDLESS_WAKING = -1, -2, -3, -4, -5
_MESSAGES = {
    REPEATED_QUERY: "answered twice for one query",
    NO_SUCH_QUERY: "answered for a query that is not in the queue",
    NO_SUCH_WORKER: "dispatched to an instance that does not exist",
    UNSERVABLE: "dispatched a batch to a type that cannot serve it",
    ENDLESS_WAKING: "asks to be woken again and again without doing anything",
}


class PolicyContractError(RuntimeError):
    """A policy broke the contract of hetserve.dispatch.interface."""


def contract_error(policy: str, status: int) -> PolicyContractError:
    """Error for the fault (negative) that the loop returned."""
    return PolicyContractError(f"policy {policy} {_MESSAGES[status]}")
