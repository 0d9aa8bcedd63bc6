"""A real Envoy that does what a gateway makes of a route: the fields of the Gateway API that our page shows."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from harness import limits, peers
from harness.kube import Manifest
from harness.waiting import Unmet, wait_until

HOST: Final = "127.0.0.1"
LONG: Final = 60.0
"""Seconds in which Envoy connects and ends: longer than any test."""
_TYPE: Final = "type.googleapis.com/envoy.extensions"
RETRIED: Final = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
"""On which Envoy Gateway retries where a route says `retry`."""


@dataclass(frozen=True, slots=True)
class Pem:
    """Files in PEM. authority: of the other side; absent: it shows no certificate."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    name: str = ""
    """Of the other side."""

    def context(self) -> dict[str, Any]:
        """Envoy's CommonTlsContext."""
        made: dict[str, Any] = {}
        if self.certificate is not None:
            pair = {
                "certificate_chain": {"filename": str(self.certificate)},
                "private_key": {"filename": str(self.key)},
            }
            made["tls_certificates"] = [pair]
        if self.authority is not None:
            trusted: dict[str, Any] = {"trusted_ca": {"filename": str(self.authority)}}
            names = [{"san_type": "DNS", "matcher": {"exact": self.name}}] if self.name else []
            made["validation_context"] = trusted | ({"match_typed_subject_alt_names": names} if names else {})
        return made


def route_of(route: Manifest) -> dict[str, Any]:
    """Envoy's virtual host of an HTTPRoute or a GRPCRoute of one rule."""
    (rule,) = route["spec"]["rules"]
    made: dict[str, Any] = {"cluster": "router"}
    if "timeouts" in rule:
        made["timeout"] = _seconds(rule["timeouts"]["request"])
    if "retry" in rule:
        made["retry_policy"] = {
            "retry_on": RETRIED,
            "retriable_status_codes": rule["retry"]["codes"],
            "num_retries": rule["retry"]["attempts"],
            "retry_back_off": {"base_interval": _seconds(rule["retry"]["backoff"])},
        }
    set_ = [one for each in rule.get("filters", ()) for one in each["requestHeaderModifier"]["set"]]
    matches = rule["matches"]
    prefixes = [match["path"]["value"] if "path" in match else f"/{match['method']['service']}/" for match in matches]
    return {
        "name": route["metadata"]["name"],
        "domains": [name for host in route["spec"]["hostnames"] for name in (host, f"{host}:*")],
        "routes": [
            {
                "match": {"prefix": prefix},
                "route": made,
                "request_headers_to_add": [
                    {
                        "header": {"key": header["name"], "value": header["value"]},
                        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                    }
                    for header in set_
                ],
            }
            for prefix in prefixes
        ],
    }


def bootstrap(
    port: int, route: Manifest, routers: Sequence[int], own: Pem | None, theirs: Pem | None
) -> dict[str, Any]:
    """Envoy's configuration. routers: their ports. own: TLS of the gateway. theirs: TLS to the routers."""
    manager = {
        "@type": f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {"virtual_hosts": [route_of(route)]},
        "http_filters": [{"name": "router", "typed_config": {"@type": f"{_TYPE}.filters.http.router.v3.Router"}}],
    }
    chain: dict[str, Any] = {"filters": [{"name": "http", "typed_config": manager}]}
    if own is not None:
        chain["transport_socket"] = _tls("DownstreamTlsContext", own.context() | {"alpn_protocols": ["h2", "http/1.1"]})
    cluster: dict[str, Any] = {
        "name": "router",
        "connect_timeout": f"{LONG:.0f}s",
        "load_assignment": {
            "cluster_name": "router",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(one)}} for one in routers]}],
        },
        "health_checks": [
            {
                "timeout": f"{LONG:.0f}s",
                **dict.fromkeys(("interval", "no_traffic_interval"), "0.2s"),
                **dict.fromkeys(("unhealthy_threshold", "healthy_threshold"), 1),
                "http_health_check": {"path": "/v2/health/ready"},
            }
        ],
    }
    if route["kind"] == "GRPCRoute":
        options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
        explicit: dict[str, Any] = {"http2_protocol_options": {}}
        typed = {"@type": f"type.googleapis.com/{options}", "explicit_http_config": explicit}
        cluster["typed_extension_protocol_options"] = {options: typed}
        cluster["health_checks"][0]["http_health_check"]["codec_client_type"] = "HTTP2"
    if theirs is not None:
        newest = {"tls_params": {"tls_maximum_protocol_version": "TLSv1_3"}}  # Envoy's own default for backends: 1.2
        cluster["transport_socket"] = _tls("UpstreamTlsContext", theirs.context() | newest, sni=theirs.name)
    listener = {"name": "in", "address": _address(port), "filter_chains": [chain]}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


@contextmanager
def envoy(
    folder: Path, route: Manifest, routers: Sequence[int], own: Pem | None = None, theirs: Pem | None = None
) -> Iterator[int]:
    """Envoy before routers on this machine, once it answers; its port."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    path = folder / f"envoy-{port}.json"
    path.write_text(json.dumps(bootstrap(port, route, routers, own, theirs)))
    command = [peers.provide() / "envoy", "--config-path", path, "--use-dynamic-base-id", "--concurrency", "1"]
    with (
        path.with_suffix(".log").open("wb") as log,
        subprocess.Popen([*map(str, command), "--log-level", "warning"], stdout=log, stderr=log) as process,
    ):
        try:
            wait_until(lambda: _healthy(port, route, own), limits.REACTION, "Envoy to find a router that is ready")
            yield port
        finally:
            process.kill()


def _healthy(port: int, route: Manifest, own: Pem | None) -> bool | Unmet:
    (host, *_) = route["spec"]["hostnames"]
    base = f"{'http' if own is None else 'https'}://{HOST}:{port}"
    given: dict[str, Any] = {"verify": False, "trust_env": False, "timeout": limits.ANSWER}
    try:
        if route["kind"] == "GRPCRoute":  # what Envoy itself says of gRPC is a status in the head
            said = {"host": host, "content-type": "application/grpc", "te": "trailers"}
            answer = httpx.post(
                f"{base}/inference.GRPCInferenceService/ServerReady", content=bytes(5), headers=said, **given
            )
        else:
            answer = httpx.get(f"{base}/v2/health/ready", headers={"host": host}, **given)
    except httpx.HTTPError as error:
        return Unmet(repr(error))
    is_ready = answer.status_code == httpx.codes.OK and "grpc-status" not in answer.headers
    return is_ready or Unmet(f"{answer.status_code} {answer.text} {answer.headers}")


def _tls(kind: str, context: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    typed = {"@type": f"{_TYPE}.transport_sockets.tls.v3.{kind}", "common_tls_context": dict(context), **more}
    return {"name": "tls", "typed_config": typed}


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": HOST, "port_value": port}}


def _seconds(duration: str) -> str:
    """Envoy's duration of one of the Gateway API, such as 100ms."""
    number, unit = (duration[:-2], 0.001) if duration.endswith("ms") else (duration[:-1], 1.0)
    return f"{float(number) * unit:g}s"
