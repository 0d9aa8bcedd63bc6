"""Who stands before the instances: our router, and nginx, HAProxy and Envoy as their users would set them up.

Each is one process with one thread, and serves every setup that it is given at an address of its own. Nobody gives up,
retries or marks an instance down, so that all answer all queries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml
from benchmarks.router.player import Address
from benchmarks.router.processes import Running, ours, program, started
from benchmarks.router.setups import ROUTER, Setup, manifests_of

from harness import peers

Json = dict[str, Any]
TITLES: Final = {
    "router": "hetserve-router",
    "nginx": "nginx least_conn",
    "envoy": "Envoy least request",
    "haproxy": "HAProxy, one queue (maxconn 1)",
    "haproxy-two": "HAProxy, two backends by hetserve-items",
}


def joined(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def nginx_config(folder: Path, servers: str) -> str:
    """Of a process without a master. servers: what stands in its block `http`."""
    paths = "".join(
        f"{name}_temp_path {folder}/nginx-{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr error;\n"
        "events { worker_connections 16000; }\n"
        f"http {{\naccess_log off; keepalive_requests 100000000; keepalive_timeout 1h;\n{paths}"
        f"client_max_body_size 64m; client_body_buffer_size 1m;\n{servers}}}\n"
    )


def nginx_servers(setups: Sequence[Setup]) -> str:
    """least_conn over kept connections; faster instances weigh more."""
    text = ""
    for number, setup in enumerate(setups):
        places = "".join(f"server {joined(one.address)} weight={one.weight} max_fails=0;\n" for one in setup.instances)
        text += (
            f"upstream u{number} {{ least_conn; {places} keepalive 256; keepalive_requests 100000000; }}\n"
            f"server {{ listen {joined(setup.front)}; location / {{ proxy_pass http://u{number};\n"
            'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_read_timeout 1h; } }\n'
        )
    return text


def haproxy_config(setups: Sequence[Setup]) -> str:
    """One query at a time for each instance; the others wait in the backend's queue, the fastest idle one is first."""
    text = (
        "global\n  nbthread 1\n  maxconn 8000\ndefaults\n  mode http\n  balance first\n  http-reuse always\n"
        "  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n  timeout queue 1h\n"
    )
    for number, setup in enumerate(setups):
        base = setup.instances[0].type
        pools = {"all": list(setup.instances)}
        text += f"frontend f{number}\n  bind {joined(setup.front)}\n  default_backend b{number}-all\n"
        if setup.small:
            pools = {"large": [one for one in setup.instances if one.type == base]}
            pools["all"] = [one for one in setup.instances if one.type != base]
            text += f"  use_backend b{number}-large if {{ req.hdr_val(hetserve-items) gt {setup.small} }}\n"
        for pool, members in pools.items():
            text += f"backend b{number}-{pool}\n"
            text += "".join(f"  server {one.name} {joined(one.address)} maxconn 1\n" for one in members)
    return text


def envoy_config(fronts: Sequence[Address], places: Sequence[Sequence[tuple[Address, int]]]) -> Json:
    """places: behind each front, addresses with their weights."""
    return {
        "static_resources": {
            "listeners": [_listener(f"c{number}", front) for number, front in enumerate(fronts)],
            "clusters": [_cluster(f"c{number}", behind) for number, behind in enumerate(places)],
        }
    }


def _cluster(name: str, places: Sequence[tuple[Address, int]]) -> Json:
    """Least request over all instances, not over two at random; where they weigh alike these are the fewest."""
    extensions = "type.googleapis.com/envoy.extensions.load_balancing_policies"
    least = {
        "@type": f"{extensions}.least_request.v3.LeastRequest",
        "selection_method": "FULL_SCAN",
    }
    policy = {"typed_extension_config": {"name": "envoy.load_balancing_policies.least_request", "typed_config": least}}
    endpoints = [
        {"endpoint": {"address": _socket(address)}, "load_balancing_weight": weight} for address, weight in places
    ]
    most = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests"), 1_000_000)
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_balancing_policy": {"policies": [policy]},
        "circuit_breakers": {"thresholds": [most]},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def _socket(address: Address) -> Json:
    return {"socket_address": {"address": address[0], "port_value": address[1]}}


def _listener(cluster: str, front: Address) -> Json:
    route = {"match": {"prefix": "/"}, "route": {"cluster": cluster, "timeout": "0s"}}
    filters = "type.googleapis.com/envoy.extensions.filters"
    manager = {
        "@type": f"{filters}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": cluster,
        "http_filters": [
            {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{filters}.http.router.v3.Router"}}
        ],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    return {"name": cluster, "address": _socket(front), "filter_chains": [chain]}


# Processes


@contextmanager
def nginx(folder: Path, name: str, servers: str, fronts: Sequence[Address]) -> Iterator[Running]:
    """An nginx with these servers. Raises ProgramMissingError."""
    own = folder / name
    own.mkdir(exist_ok=True)
    config = own / "nginx.conf"
    config.write_text(nginx_config(own, servers), encoding="utf-8")
    with started(folder, name, [program("nginx"), "-p", str(own), "-c", str(config)]) as running:
        yield running.await_answers(fronts)


def answering(body: bytes, addresses: Sequence[Address]) -> str:
    """Servers of nginx that answer everything at once."""
    listens = " ".join(f"listen {joined(each)};" for each in addresses)
    return f"server {{ {listens} default_type application/json; location / {{ return 200 '{body.decode()}'; }} }}\n"


@contextmanager
def envoy(
    folder: Path, name: str, fronts: Sequence[Address], places: Sequence[Sequence[tuple[Address, int]]]
) -> Iterator[Running]:
    """See `envoy_config`. Raises PeersError."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(envoy_config(fronts, places)), encoding="utf-8")
    command = [str(peers.provide() / "envoy"), "-c", str(path), "--concurrency", "1", "--log-level", "error"]
    with started(folder, name, [*command, "--disable-hot-restart"]) as running:
        yield running.await_answers(fronts)


@contextmanager
def router(folder: Path, setups: Sequence[Setup]) -> Iterator[Running]:
    """Our router, from files, with its limits as they are by default; all setups are asked at ROUTER."""
    paths = {"manifests": folder / "manifests.yaml", "instances": folder / "instances.yaml"}
    paths["manifests"].write_text(yaml.dump_all(manifests_of(list(setups)), Dumper=yaml.CSafeDumper), encoding="utf-8")
    entries = [
        {
            "name": one.name,
            "type": one.type,
            "url": f"http://{joined(one.address)}",
            "service": setup.target.service,
        }
        for setup in setups
        for one in setup.instances
    ]
    paths["instances"].write_text(json.dumps(entries), encoding="utf-8")
    host, port = ROUTER
    command = [ours("hetserve-router"), "--host", host, "--port", str(port), "--probe-port", str(port + 1)]
    command += ["--probe-authorization", "none", "--log-level", "warning"]
    command += [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    with started(folder, "router", command) as running:
        yield running.await_answers([ROUTER])


Start = Callable[[Path, Sequence[Setup]], Any]


@contextmanager
def _nginx(folder: Path, setups: Sequence[Setup]) -> Iterator[Running]:
    with nginx(folder, "nginx", nginx_servers(setups), [each.front for each in setups]) as running:
        yield running


@contextmanager
def _haproxy(folder: Path, setups: Sequence[Setup]) -> Iterator[Running]:
    path = folder / f"{setups[0].balancer}.cfg"
    path.write_text(haproxy_config(setups), encoding="utf-8")
    with started(folder, setups[0].balancer, [program("haproxy"), "-db", "-f", str(path)]) as running:
        yield running.await_answers([each.front for each in setups])


@contextmanager
def _envoy(folder: Path, setups: Sequence[Setup]) -> Iterator[Running]:
    places = [[(one.address, one.weight) for one in each.instances] for each in setups]
    with envoy(folder, "envoy", [each.front for each in setups], places) as running:
        yield running


STARTS: Final[Mapping[str, Start]] = {
    "router": router,
    "nginx": _nginx,
    "envoy": _envoy,
    "haproxy": _haproxy,
    "haproxy-two": _haproxy,
}
