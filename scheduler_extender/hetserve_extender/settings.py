"""Settings of the extender."""

from __future__ import annotations

from pydantic import Field

from hetserve.placement import Mode, PolicyName, QueueSettings
from hetserve.units import Seconds
from hetserve_shell.settings import Duration, LogLevel, Port, SettingsModel


class QueueOptions(SettingsModel):
    """Queues: k, beta, when an unschedulable pod stops counting, and how long events are gathered."""

    queues: int = Field(default=4, ge=1, le=64)
    beta: int = Field(default=8, ge=1, le=10_000)
    unschedulable_after: Duration = Field(default="30s")  # type: ignore[assignment]
    debounce: Duration = Field(default="50ms")  # type: ignore[assignment]

    @property
    def core(self) -> QueueSettings:
        return QueueSettings(queues=self.queues, beta=self.beta)


class Settings(SettingsModel):
    """Everything the extender can be told; port 0 lets the system choose."""

    host: str = "0.0.0.0"  # noqa: S104  (the scheduler calls from another pod)
    port: Port = 8888
    probe_port: Port = 8889
    mode: Mode = Mode.DECIDE
    policy: PolicyName = PolicyName.WORST_FIT
    reservation_timeout: Duration = Field(default="30s")  # type: ignore[assignment]
    queue: QueueOptions = QueueOptions()
    log_level: LogLevel = "info"

    @property
    def hold(self) -> Seconds:
        """How long a filter's reservation lasts."""
        return Seconds(self.reservation_timeout)
