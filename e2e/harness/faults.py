"""Stops, starts, kills, freezes and thaws one component of a running demo."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from harness.cluster import Cluster
from harness.controlplane import PARTS

NAMES: Final = ("operator", "extender", "scheduler", "router", "prometheus", "twin", *PARTS)


class Condition(StrEnum):
    RUNS = "runs"
    FROZEN = "is frozen"
    ENDED = "does not run"


class Action(StrEnum):
    START = "start"
    STOP = "stop"
    KILL = "kill"
    FREEZE = "freeze"
    THAW = "thaw"


HELP: Final[Mapping[Action, str]] = {
    Action.START: "start a component, with the data that it had",
    Action.STOP: "end a component in order (SIGTERM)",
    Action.KILL: "end a component at once (SIGKILL)",
    Action.FREEZE: "halt a component without ending it (SIGSTOP): it keeps its ports, its Lease runs out",
    Action.THAW: "let a frozen component go on (SIGCONT)",
}
_REFUSED: Final[Mapping[tuple[Action, Condition], str]] = {
    (Action.START, Condition.RUNS): "runs already",
    (Action.START, Condition.FROZEN): "is frozen: thaw it",
    (Action.STOP, Condition.FROZEN): "is frozen and would not hear it: thaw it first, or kill it",
    (Action.STOP, Condition.ENDED): "does not run: there is nothing to stop",
    (Action.KILL, Condition.ENDED): "does not run: there is nothing to kill",
    (Action.FREEZE, Condition.FROZEN): "is frozen already",
    (Action.FREEZE, Condition.ENDED): "does not run: start it first",
    (Action.THAW, Condition.RUNS): "runs and is not frozen",
    (Action.THAW, Condition.ENDED): "does not run: start it",
}


def refusal(action: Action, condition: Condition) -> str | None:
    """Why a component in this condition cannot be acted upon, completing its name; None: it can."""
    return _REFUSED.get((action, condition))


def condition(cluster: Cluster, name: str) -> Condition:
    """A component's or part's condition now."""
    if not cluster.running(name):
        return Condition.ENDED
    return Condition.FROZEN if cluster.frozen(name) else Condition.RUNS


def act(cluster: Cluster, action: Action, name: str) -> str:
    """Acts upon a component; what it does now. Raises RuntimeError if its condition forbids it."""
    why_not = refusal(action, condition(cluster, name))
    if why_not is not None:
        raise RuntimeError(f"{name} {why_not}")
    match action:
        case Action.START if name in PARTS:
            cluster.start_control_plane()
        case Action.START:
            cluster.start_component(name)
        case Action.STOP:
            cluster.stop_component(name)
        case Action.KILL:
            cluster.kill_component(name)
        case Action.FREEZE:
            cluster.freeze_component(name)
        case Action.THAW:
            cluster.thaw_component(name)
    return f"{name} {condition(cluster, name)}"


def conditions_line(cluster: Cluster) -> str:
    """``operator runs, extender is frozen, ...``; Prometheus only where it was ever started."""
    shown = [name for name in NAMES if name != "prometheus" or cluster.state.process(name) is not None]
    return ", ".join(f"{name} {condition(cluster, name)}" for name in shown)
