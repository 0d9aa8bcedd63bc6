"""Settings of the load twin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from hetserve.profiles.latency_factors import latency_factor, latency_factors
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES, default_dispatch_policy
from hetserve_services.facts import MaxSlowdown
from hetserve_shell.settings import Duration, LogLevel, Port, ProbeAuthorization, SettingsModel


def _factors(value: object) -> dict[str, float]:
    """Factors by instance type of one factor, a mapping, or texts such as `1.2` and `g4dn.xlarge=1.3`."""
    if isinstance(value, Mapping):
        return {str(name): latency_factor(str(name), str(text)) for name, text in value.items()}
    return latency_factors(map(str, value) if isinstance(value, list | tuple) else [str(value)])


def _known_policy(value: object) -> str:
    if not isinstance(value, str) or value not in DISPATCH_POLICIES or DISPATCH_POLICIES[value].climbs:
        names = [member.name for member in DISPATCH_POLICIES if not member.climbs]
        raise ValueError(f"must be one of {', '.join(names)}")
    return value


def _load(value: object) -> object:
    """A load of a text such as `team/rm2=day.csv`; the namespace may be left out."""
    if not isinstance(value, str):
        return value
    where, equals, trace = value.partition("=")
    namespace, _, service = where.rpartition("/")
    if not (equals and service and trace):
        raise ValueError("a load is NAMESPACE/SERVICE=TRACE.csv")
    return {"namespace": namespace or "default", "service": service, "trace": trace}


Factors = Annotated[dict[str, float], BeforeValidator(_factors)]


class LoadSettings(SettingsModel):
    """One service's load. batches: as `hetserve plan --batches` takes it; empty: the service's spec.load.batchSizes.

    latency_factor: as in the settings, on top of it.
    """

    namespace: str = Field(default="default", min_length=1)
    service: str = Field(min_length=1)
    trace: Path
    batches: str = ""
    latency_factor: Factors = Field(default_factory=dict)


class TwinSettings(SettingsModel):
    """Settings of the twin; port 0: the system chooses.

    probe_authorization: who gets /metrics. speed: seconds of a trace in a second. latency_factor: real service times /
    those of the profiles; one for all types (`*`) or by type. slice: how much is played at once. timeout: when a client
    gives up a query that waits. max_slowdown: what policies expect of instances that share GPUs on types that no
    recorded plan has.
    """

    host: str = "127.0.0.1"
    port: Port = 8890
    probe_authorization: ProbeAuthorization = "kubernetes"
    loads: list[Annotated[LoadSettings, BeforeValidator(_load)]] = Field(min_length=1)
    speed: float = Field(default=1.0, gt=0, le=1e6, allow_inf_nan=False)
    latency_factor: Factors = Field(default_factory=dict)
    policy: Annotated[str, PlainValidator(_known_policy)] = default_dispatch_policy()
    seed: int = Field(default=0, ge=0, le=2**32)
    slice: Duration = Field(default="200ms", gt=0, le=5)  # type: ignore[assignment]
    timeout: Duration = Field(default="15s", gt=0)  # type: ignore[assignment]
    max_slowdown: MaxSlowdown = Field(default="1.75")  # type: ignore[assignment]
    log_level: LogLevel = "info"

    @model_validator(mode="after")
    def _one_load_each(self) -> TwinSettings:
        keys = [(load.namespace, load.service) for load in self.loads]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise ValueError(f"loads: {'/'.join(twice[0])} is there twice; give each service one trace")
        return self
