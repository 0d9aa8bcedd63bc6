"""What `hetserve doctor` reads of an installation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetserve.base.units import Seconds


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
class DeploymentFact:
    wanted: int
    ready: int


@dataclass(frozen=True, slots=True)
class ComponentFact:
    """An operator or extender. None: there is no such object; `elects`: whether its settings ask for a Lease.

    open: whether its settings show metrics, ledger and log to everybody.
    """

    name: str
    settings: bool | Unread
    elects: bool
    lease: LeaseFact | Unread | None
    deployment: DeploymentFact | Unread | None
    open: bool = False


@dataclass(frozen=True, slots=True)
class SchedulerFact:
    """The second scheduler's configuration.

    url: of the extender that books our GPUs; None: none is configured. ignorable: whether pods are bound without it.
    names: its profiles. endpoints: ready addresses of the extender's Service; None: the URL is no Service's.
    """

    url: str | None
    ignorable: bool
    names: tuple[str, ...]
    endpoints: int | Unread | None


@dataclass(frozen=True, slots=True)
class FailedPods:
    """Pods that the scheduler could not judge for an error: their number, the first and its message."""

    count: int
    first: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodesFact:
    """Nodes: their number, GPUs known, texts of those whose inventory is unreadable, names of those with GPUs of
    another device plugin and no inventory."""

    nodes: int
    gpus: int
    unreadable: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """An installation at one time.

    namespace: of the installation. version: (major, minor) and the API server's words. crds: by plural name; None:
    absent. own, components: rights that are missing. policies: our ValidatingAdmissionPolicies that are bound.
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
