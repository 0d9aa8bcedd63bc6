"""Settings of the operator."""

from __future__ import annotations

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from hetserve.api import names
from hetserve.base.units import Millionths
from hetserve.planning.inputs import PlanSettings
from hetserve.profiles.sharing import parse_max_slowdown
from hetserve_shell.leader.lease import ElectionSettings
from hetserve_shell.settings import Duration, LogLevel, Port, ProbeAuthorization, SettingsModel


class OperatorElection(ElectionSettings):
    """One of several replicas writes."""

    namespace: str = Field(default=names.SYSTEM_NAMESPACE, min_length=1)
    lease_name: str = Field(default="hetserve-operator", min_length=1)


def _max_slowdown(value: object) -> Millionths:
    if not isinstance(value, str):
        raise ValueError('must be a decimal number in quotes, for example "1.75"')  # noqa: TRY004  (pydantic's)
    try:
        return parse_max_slowdown(value, "")
    except ValueError as error:
        raise ValueError(str(error).removeprefix(": ")) from None


class SharingOptions(SettingsModel):
    """What services that share a GPU are promised.

    max_slowdown: sigma, the most that sharing may multiply a service time by. mps_memory_limit: whether instances that
    share a GPU under MPS may allocate no more memory than they ask for. extender_lease: the Lease in
    `extender_namespace`, the scheduler's, on which the extender beside it says that it counts slow-downs by pairs;
    empty: it is not asked, and counts as one that does.
    """

    max_slowdown: Annotated[Millionths, PlainValidator(_max_slowdown)] = Field(default="1.75")  # type: ignore[assignment]
    mps_memory_limit: bool = True
    extender_namespace: str = Field(default=names.SYSTEM_NAMESPACE, min_length=1)
    extender_lease: str = ""


def _prometheus_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:
        good = False
    if value and (not good or value.split() != [value]):
        raise ValueError("must be an address such as https://prometheus.monitoring.svc:9090; empty: none")
    if "@" in value or "?" in value or "#" in value:
        raise ValueError("must have no user, query or fragment; credentials belong into tokenFile")
    return value.rstrip("/")


class PrometheusOptions(SettingsModel):
    """Prometheus that services are measured by.

    url: empty: none. ca_file: certificates that its own is checked against; empty: the system's. token_file: holds the
    bearer token, and is read anew for each query, so that it may rotate; empty: none. timeout: for one
    query. interval: how often it is asked.
    """

    url: Annotated[str, AfterValidator(_prometheus_url)] = ""
    ca_file: str = ""
    token_file: str = ""
    timeout: Duration = Field(default="5s", gt=0)  # type: ignore[assignment]
    interval: Duration = Field(default="15s", gt=0)  # type: ignore[assignment]

    @property
    def configured(self) -> bool:
        return bool(self.url)

    @model_validator(mode="after")
    def _secrets_are_encrypted(self) -> Self:
        given = [name for name, path in (("caFile", self.ca_file), ("tokenFile", self.token_file)) if path]
        if given and not self.url.startswith("https://"):
            raise ValueError(f"{' and '.join(given)} must stand beside an https url, this one is {self.url!r}")
        return self


class MetricsOptions(SettingsModel):
    """Where the demand of services is measured. allow_queries: whether services may bring PromQL of their own."""

    prometheus: PrometheusOptions = PrometheusOptions()
    allow_queries: bool = False


class RouterEntry(SettingsModel):
    """A router. name: of its Service and Lease. namespaces: whose services it serves; "*": all that no other does."""

    name: str = Field(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")
    namespaces: tuple[Annotated[str, Field(pattern=r"^([*]|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)$")], ...] = Field(
        min_length=1
    )


class RoutingOptions(SettingsModel):
    """Which router serves which namespace. namespace: of the release, where the routers are."""

    namespace: str = Field(default=names.SYSTEM_NAMESPACE, min_length=1)
    cluster_domain: str = Field(default="cluster.local", min_length=1)
    routers: tuple[RouterEntry, ...] = ()

    @model_validator(mode="after")
    def _each_belongs_to_one(self) -> Self:
        places = [place for entry in self.routers for place in entry.namespaces]
        for what, found in (("namespace", places), ("name", [entry.name for entry in self.routers])):
            twice = [one for one in found if found.count(one) > 1]
            if twice:
                raise ValueError(f"routers: {what} {twice[0]} is there twice: leave one")
        return self

    def router_of(self, namespace: str) -> str | None:
        """The router that serves a namespace; None: none does."""
        by_place = {place: entry.name for entry in self.routers for place in entry.namespaces}
        return by_place.get(namespace, by_place.get("*"))

    def host_of(self, router: str) -> str:
        """DNS name of a router's Service."""
        return f"{router}.{self.namespace}.svc.{self.cluster_domain}"


class OperatorSettings(SettingsModel):
    """Settings of the operator.

    probe_port: 0 lets the system choose. probe_authorization: who gets /metrics from it. debounce: how long changes of
    a service are gathered. resync: how often the objects of each kind are counted; each service has a pass once in
    ten intervals. launch_weight: HetSev's lambda, per second of launch time. planner_processes: processes that plan,
    all but the first from when problems wait; of several, one is left for untried plans. planner_deadline: for one
    plan.
    """

    host: str = "0.0.0.0"  # noqa: S104  (probes come from the node)
    probe_port: Port = 8080
    probe_authorization: ProbeAuthorization = "kubernetes"
    saturation_threshold: float = Field(default=0.8, gt=0, le=1)
    launch_weight: float = Field(default=1 / 3600, ge=0, le=1, allow_inf_nan=False)
    debounce: Duration = Field(default="200ms")  # type: ignore[assignment]
    resync: Duration = Field(default="60s")  # type: ignore[assignment]
    workers: int = Field(default=16, ge=1, le=64)
    planner_processes: int = Field(default=3, ge=1, le=64)
    planner_deadline: Duration = Field(default="60s", gt=0)  # type: ignore[assignment]
    sharing: SharingOptions = SharingOptions()
    metrics: MetricsOptions = MetricsOptions()
    routing: RoutingOptions = RoutingOptions()
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
