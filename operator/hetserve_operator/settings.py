"""Settings of the operator."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, PlainValidator

from hetserve.api import names
from hetserve.base.units import Millionths
from hetserve.planning.inputs import PlanSettings
from hetserve.profiles.sharing import parse_max_slowdown
from hetserve_shell.leader.settings import ElectionSettings
from hetserve_shell.settings import Duration, LogLevel, Port, SettingsModel


class OperatorElection(ElectionSettings):
    """One of several replicas writes."""

    namespace: str = Field(default=names.SYSTEM_NAMESPACE, min_length=1)
    lease_name: str = Field(default="hetserve-operator", min_length=1)


def _max_slowdown(value: object) -> Millionths:
    if not isinstance(value, str):
        raise ValueError('must be a decimal number in quotes, for example "1.25"')  # noqa: TRY004  (pydantic's)
    try:
        return parse_max_slowdown(value, "")
    except ValueError as error:
        raise ValueError(str(error).removeprefix(": ")) from None


class SharingOptions(SettingsModel):
    """What services that share a GPU are promised.

    max_slowdown: sigma, the most that sharing may multiply a service time by. extender_lease: the Lease in
    `extender_namespace` on which the extender that leads says that it books compute; empty: it is not asked, and counts
    as one that does.
    """

    max_slowdown: Annotated[Millionths, PlainValidator(_max_slowdown)] = Field(default="1.25")  # type: ignore[assignment]
    extender_namespace: str = Field(default=names.SYSTEM_NAMESPACE, min_length=1)
    extender_lease: str = ""


class OperatorSettings(SettingsModel):
    """Settings of the operator.

    probe_port: 0 lets the system choose. debounce: how long changes of a service are gathered. resync: how often the
    objects of each kind are counted; each service is looked at once in ten intervals. launch_weight: HetSev's lambda,
    per second of launch time. planner_processes: processes that plan; problems that take long have one more.
    planner_deadline: for one plan.
    """

    host: str = "0.0.0.0"  # noqa: S104  (probes come from the node)
    probe_port: Port = 8080
    saturation_threshold: float = Field(default=0.8, gt=0, le=1)
    launch_weight: float = Field(default=1 / 3600, ge=0, le=1, allow_inf_nan=False)
    debounce: Duration = Field(default="200ms")  # type: ignore[assignment]
    resync: Duration = Field(default="60s")  # type: ignore[assignment]
    workers: int = Field(default=16, ge=1, le=64)
    planner_processes: int = Field(default=2, ge=1, le=64)
    planner_deadline: Duration = Field(default="60s", gt=0)  # type: ignore[assignment]
    sharing: SharingOptions = SharingOptions()
    leader_election: OperatorElection = OperatorElection()
    log_level: LogLevel = "info"

    def identified(self, identity: str) -> Self:
        """The same under another name in the Lease."""
        return self.model_copy(update={"leader_election": self.leader_election.identified(identity)})

    @property
    def planning(self) -> PlanSettings:
        return PlanSettings(
            saturation_threshold=self.saturation_threshold,
            launch_weight=self.launch_weight,
            max_slowdown=self.sharing.max_slowdown,
        )
