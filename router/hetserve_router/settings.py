"""Settings of the router."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hetserve_router.access_log import AccessLogged
from hetserve_services.facts import MaxSlowdown
from hetserve_shell.leader.lease import ElectionSettings
from hetserve_shell.settings import Duration, LogLevel, Port, ProbeAuthorization, SettingsModel


class RouterElection(ElectionSettings):
    namespace: str = Field(default="hetserve-system", min_length=1)
    lease_name: str = Field(default="default", min_length=1)


class RouterTls(SettingsModel):
    """The port of queries over TLS 1.3; its PEM files are read again when they change.

    client_ca: who signs clients, and then no query comes without TLS; absent: no client needs a certificate.
    """

    port: Port = 8443
    certificate: Path
    key: Path
    client_ca: Path | None = None


class RouterSettings(SettingsModel):
    """Settings of the router; port 0: the system chooses.

    port: of queries. probe_port: of health and metrics. body: bytes of one query; bodies: of all. connections: of
    clients. uploading, unread, idle: what clients may take [s]. max_slowdown: what policies expect of instances that
    share GPUs on types that no recorded plan has. namespaces: those whose services are served; `*`: all but
    other_namespaces, which other routers serve. access_log: the queries of which a line is written.
    """

    host: str = "127.0.0.1"
    port: Port = 8000
    probe_port: Port = 8891
    probe_authorization: ProbeAuthorization = "kubernetes"
    body: int = Field(default=64 << 20, ge=1024, le=1 << 31)
    bodies: int = Field(default=512 << 20, ge=1 << 20, le=1 << 36)
    connections: int = Field(default=16384, ge=16, le=1 << 20)
    uploading: Duration = Field(default="60s", gt=0)  # type: ignore[assignment]
    unread: Duration = Field(default="10s", gt=0)  # type: ignore[assignment]
    idle: Duration = Field(default="1h", gt=0)  # type: ignore[assignment]
    max_slowdown: MaxSlowdown = Field(default="1.75")  # type: ignore[assignment]
    cluster_domain: str = Field(default="cluster.local", min_length=1, max_length=200)
    namespaces: list[str] = Field(default=["*"], min_length=1)
    other_namespaces: list[str] = Field(default=[])
    tls: RouterTls | None = None
    leader_election: RouterElection = RouterElection()
    access_log: AccessLogged = "none"
    log_level: LogLevel = "info"
