"""What `hetserve doctor` reads of an installation, and what its checks find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from hetserve.base.units import Seconds

OPERATOR: Final = "operator"
EXTENDER: Final = "extender"
SCHEDULER: Final = "scheduler"
"""The components, as the chart labels them; the last is the second scheduler."""


_SHOWN: Final = 3


def workload_of(name: str, component: str) -> str:
    """Name of the Deployment of a component whose objects have that name: scheduler and extender are one pod."""
    return f"{name.removesuffix(EXTENDER)}{SCHEDULER}" if component == EXTENDER else name


@dataclass(frozen=True, slots=True)
class Unread:
    """In the place of a fact: why it could not be read."""

    why: str


@dataclass(frozen=True, slots=True)
class CrdFact:
    """`differs`: paths at which its version differs from the one that this program was built with, a few of them."""

    established: bool
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseFact:
    """`silent`: s since the last renewal, by the API server's clock; `duration`: s after which a leader is replaced."""

    holder: str
    silent: Seconds
    duration: Seconds


@dataclass(frozen=True, slots=True)
class WaitFact:
    """Why a pod is not ready. container: empty: the pod itself waits. image: of the container; message: a line.

    ended: whether the container has run, and so has left a log.
    """

    pod: str
    container: str
    image: str
    reason: str
    message: str
    ended: bool = False


@dataclass(frozen=True, slots=True)
class DeploymentFact:
    """Replicas: how many are wanted, are ready, and are not yet of its latest template; what its pods wait for."""

    wanted: int
    ready: int
    behind: int = 0
    waits: tuple[WaitFact, ...] | Unread = ()


@dataclass(frozen=True, slots=True)
class ComponentFact:
    """The operator, the extender or the second scheduler. None: there is no such object.

    name: of its objects. component: as the chart labels it. elects: whether its settings ask for a Lease, which is
    then read. version: of hetserve; empty: nothing says it. open: whether its settings show metrics, ledger and log to
    everybody.
    """

    name: str
    component: str
    settings: bool | Unread
    elects: bool
    lease: LeaseFact | Unread | None
    deployment: DeploymentFact | Unread | None
    version: str = ""
    open: bool = False

    @property
    def workload(self) -> str:
        """Name of its Deployment."""
        return workload_of(self.name, self.component)


@dataclass(frozen=True, slots=True)
class SchedulerFact:
    """The second scheduler's configuration.

    url: of the extender that books our GPUs; None: none is configured. ignorable: whether pods are bound without it.
    names: its profiles.
    """

    url: str | None
    ignorable: bool
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailedPods:
    """Pods that the scheduler could not judge for an error: their number, the first and its message."""

    count: int
    first: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodesFact:
    """Nodes: their number, GPUs known, texts of those whose inventory is unreadable, names of those with GPUs of
    another device plugin and no inventory. refused: names of nodes whose GPUs somebody else gives, by the words why.
    missing: names of nodes of whose GPUs some are broken, by the words.
    """

    nodes: int
    gpus: int
    unreadable: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstallationFacts:
    """An installation at one time.

    namespace: of the installation. version: (major, minor) and the API server's words. crds: by plural name; None:
    absent. own, missing_rights: of the caller, of the components. policies: our ValidatingAdmissionPolicies that are
    bound.
    """

    namespace: str
    version: tuple[int, int, str]
    crds: Mapping[str, CrdFact | None] | Unread
    components: tuple[ComponentFact, ...]
    scheduler: SchedulerFact | Unread | None
    failed: FailedPods | Unread
    nodes: NodesFact | Unread
    own: tuple[str, ...]
    missing_rights: tuple[str, ...] | Unread
    policies: tuple[str, ...] | Unread


class Level(StrEnum):
    OK = "Ok"
    NOTE = "Note"
    UNKNOWN = "Unknown"
    PROBLEM = "Problem"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """`what` is so, `why` it matters and what to `do`; both are empty where all is well."""

    check: str
    level: Level
    what: str
    why: str = ""
    do: str = ""


def some(texts: tuple[str, ...]) -> str:
    """The first texts, and how many more there are."""
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
