"""Settings of the extender."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator

from hetserve.api import names
from hetserve.base.units import Seconds, quantity_to_mib
from hetserve.placement import DEFAULT_POLICY, Mode, PolicyName, QueueSettings
from hetserve.placement.queues.weights import Weights
from hetserve.registry.placement_policies import PLACEMENT_POLICIES
from hetserve_shell.leader.settings import ElectionSettings
from hetserve_shell.settings import Duration, LogLevel, Port, ProbeAuthorization, SettingsModel


def _mebibytes(value: object) -> int:
    """MiB of a quantity such as 16Mi."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError("a size is a quantity such as 16Mi")  # noqa: TRY004  (pydantic wants ValueError)
    return quantity_to_mib(str(value))


def _policy(value: object) -> PolicyName:
    if not isinstance(value, str) or value not in PLACEMENT_POLICIES:
        *others, last = (f"'{name}'" for name in PLACEMENT_POLICIES.names)
        raise ValueError(f"Input should be {', '.join(others)} or {last}")
    return PolicyName(value)


class QueueOptions(SettingsModel):
    """Settings of the queues.

    queues: their number. unschedulable_after: how long an unschedulable pod occupies a slot. debounce: how long first
    pods are gathered. fail_open_after: time at our gate before a pod is released out of turn; None: never.
    """

    queues: Annotated[int, Field(ge=1, le=64)] | Literal["auto"] = 4
    weights: Weights = Weights.HETSEV
    beta: int = Field(default=8, ge=1, le=10_000)
    unschedulable_after: Duration = Field(default="30s")  # type: ignore[assignment]
    debounce: Duration = Field(default="50ms")  # type: ignore[assignment]

    fail_open_after: Duration | None = None

    @property
    def core(self) -> QueueSettings:
        return QueueSettings(queues=self.queues, beta=self.beta, weights=self.weights)


class LeaderElectionOptions(ElectionSettings):
    """One of several replicas serves."""

    namespace: str = Field(default=names.SYSTEM_NAMESPACE, min_length=1)
    lease_name: str = Field(default="hetserve-extender", min_length=1)


class Settings(SettingsModel):
    """Settings of the extender; port 0: the system chooses.

    probe_authorization: who gets metrics, ledger and log from the probe port; health is for everybody.
    """

    host: str = "0.0.0.0"  # noqa: S104  (the scheduler calls from another pod)
    port: Port = 8888
    probe_port: Port = 8889
    probe_authorization: ProbeAuthorization = "kubernetes"
    mode: Mode = Mode.DECIDE
    policy: Annotated[PolicyName, PlainValidator(_policy)] = DEFAULT_POLICY
    reservation_timeout: Duration = Field(default="30s")  # type: ignore[assignment]
    queue: QueueOptions = QueueOptions()
    leader_election: LeaderElectionOptions = LeaderElectionOptions()
    placement_log: Annotated[int, BeforeValidator(_mebibytes), Field(ge=0, le=1024)] = 0
    """MiB for the placement log; 0: none."""
    log_level: LogLevel = "info"

    def identified(self, identity: str) -> Self:
        """The same under another name in the Lease."""
        return self.model_copy(update={"leader_election": self.leader_election.identified(identity)})

    @property
    def hold(self) -> Seconds:
        """Time until an unused reservation ends."""
        return Seconds(self.reservation_timeout)
