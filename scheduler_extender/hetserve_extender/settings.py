"""Settings of the extender."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator

from hetserve.api import names
from hetserve.base.units import Seconds, quantity_to_mib
from hetserve.placement.placer import Mode
from hetserve.placement.pods.requests import DEFAULT_POLICY, PolicyName, policy_name
from hetserve.placement.queues.rounds import QueueSettings, Weights
from hetserve_shell.settings import Duration, LogLevel, Port, ProbeAuthorization, SettingsModel


def _mebibytes(value: object) -> int:
    """MiB of a quantity such as 16Mi."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError("a size is a quantity such as 16Mi")  # noqa: TRY004  (pydantic wants ValueError)
    return quantity_to_mib(str(value))


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


class SchedulerOptions(SettingsModel):
    """The scheduler that calls our verbs.

    lease_namespace, lease_name: of the Lease by which it leads; we lead while it does. No name: there is no election.
    host: part of its identity in the Lease before the last underscore; empty: our host's name, which both share in a
    pod. health_url: where it says that it lives; empty: it is not asked.
    """

    lease_namespace: str = Field(default=names.SYSTEM_NAMESPACE, min_length=1)
    lease_name: str = "hetserve-scheduler"
    host: str = ""
    health_url: str = ""


class Settings(SettingsModel):
    """Settings of the extender; port 0: the system chooses.

    host: address of the probe port; the verbs are heard on the loopback alone.
    probe_authorization: who gets metrics, ledger and log from the probe port; health is for everybody.
    """

    host: str = "0.0.0.0"  # noqa: S104  (the kubelet and Prometheus call from outside)
    port: Port = 8888
    probe_port: Port = 8889
    probe_authorization: ProbeAuthorization = "kubernetes"
    mode: Mode = Mode.DECIDE
    policy: Annotated[PolicyName, PlainValidator(lambda value: policy_name(str(value)))] = DEFAULT_POLICY
    reservation_timeout: Duration = Field(default="30s")  # type: ignore[assignment]
    queue: QueueOptions = QueueOptions()
    scheduler: SchedulerOptions = SchedulerOptions()
    placement_log: Annotated[int, BeforeValidator(_mebibytes), Field(ge=0, le=1024)] = 0
    """MiB for the placement log; 0: none."""
    log_level: LogLevel = "info"

    def beside(self, host: str) -> Self:
        """The same for the scheduler of that host."""
        return self.model_copy(update={"scheduler": self.scheduler.model_copy(update={"host": host})})

    @property
    def hold(self) -> Seconds:
        """Time until an unused reservation ends."""
        return Seconds(self.reservation_timeout)
