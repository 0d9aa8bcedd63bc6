"""spec.dispatch: how the queries of a service reach its instances; status.dispatch: where they are asked."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from hetserve.api.base import ApiModel, Rule
from hetserve.api.scalars import PositiveDuration, distinct
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES, default_dispatch_policy

MOST_INSTANCES: Final = 128
"""Of one service that a router dispatches to: one decision of policy `kairos` takes 28 ms at 500."""
_PATH: Final = r"^(/[A-Za-z0-9_~!$&'()*+,;=:@-][A-Za-z0-9._~!$&'()*+,;=:@-]*)+/?$"
"""No segment begins with a dot, so that none leads out of the prefix."""
_SERVED: Final = DISPATCH_POLICIES.names_of(lambda member: member.climbs is None)
"""A setting that hill climbing finds is of one mix and one plan."""


PolicyName = Annotated[
    str,
    Field(
        description="which instance serves which query; plans are judged under it too",
        pattern=f"^({'|'.join(_SERVED)})$",
        max_length=64,
        json_schema_extra={"enum": list(_SERVED)},
    ),
]
PathPrefix = Annotated[str, Field(pattern=_PATH, max_length=256, description="for example /v1/models/rm2:predict")]
Port = Annotated[int, Field(ge=1, le=65535)]


class DispatchPorts(ApiModel):
    """Container ports on which an instance speaks Open Inference Protocol v2; what is not set is not served."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.http) || has(self.grpc)",
            "at least one of http and grpc must be set",
            lambda p: p.http is not None or p.grpc is not None,
        ),
    )

    http: Port | None = Field(default=None, description="container port of HTTP; absent: no HTTP is served")
    grpc: Port | None = Field(default=None, description="container port of gRPC; absent: no gRPC is served")


class DispatchSpec(ApiModel):
    """How a router hands the queries of the service to its instances."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.paths) || self.paths.size() == 0 || has(self.ports.http)",
            "paths needs ports.http: they are forwarded over HTTP",
            lambda d: not d.paths or d.ports.http is not None,
        ),
    )

    policy: PolicyName = default_dispatch_policy()
    ports: DispatchPorts
    deadline: PositiveDuration | None = Field(
        default=None,
        description="a query that cannot be answered within this time is dropped, as is one whose own limit is "
        "shorter; absent: only those with a limit of their own",
    )
    max_queue: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="queries that may wait; more are refused (429). Absent: 16 for each instance, at least 64",
    )
    paths: Annotated[list[PathPrefix], distinct(str, "path")] = Field(
        default_factory=list,
        max_length=16,
        description="prefixes of further paths that are forwarded to an instance, each request as a query of one item; "
        "absent: none",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class DispatchStatus(ApiModel):
    """Where queries are asked."""

    address: str = Field(max_length=256, description="http://NAME.NAMESPACE; where only gRPC is served, its target")
    router: str = Field(max_length=63, description="Service and Lease of the router, in the namespace of the release")
    policy: str = Field(max_length=64, description="dispatch policy in force")
