"""A real Envoy before routers and workers, by the route that docs/how-to-put-a-gateway-before-the-router.md shows."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from authorities import Authority, put
from documented import FENCED, ROOT
from gateway import HOST, Pem, envoy
from harness import limits, peers
from listening import ROUTER, WORKER, listening
from rpc_peers import rpc_callers
from testing import builders

pytestmark = pytest.mark.deep  # Envoy is 265 MB: make gateway-tests installs it, and runs these

PAGE: Final = ROOT / "docs" / "how-to-put-a-gateway-before-the-router.md"
SLOW: Final = {"spec.latency.linear": {"intercept": "10ms", "slope": "20ms"}}
"""By this profile 1,000 items take 20 s. The worker takes no time at all."""


def shown(kind: str) -> Any:
    """The manifest of a kind that the page shows."""
    found = [yaml.safe_load(block) for language, block in FENCED.findall(PAGE.read_text()) if language == "yaml"]
    (one,) = [each for each in found if each.get("kind") == kind]
    return one


ROUTE: Final = shown("HTTPRoute")
BY_GRPC: Final = shown("GRPCRoute")
NAME: Final = ROUTE["spec"]["hostnames"][0]


class Place:
    """A folder, and a worker that echoes."""

    def __init__(self, folder: Path, worker: int) -> None:
        self.folder, self.worker = folder, worker
        items = [builders.service(), builders.instance_type(), builders.model_profile(overrides=SLOW)]
        self.manifests = folder / "rm2.json"
        self.manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    @contextmanager
    def router(self, instance: str, **settings: Any) -> Iterator[tuple[subprocess.Popen[str], int]]:
        """A router with the worker under this name, and its first port of queries."""
        instances, config = self.folder / f"{instance}.json", self.folder / f"{instance}.yaml"
        entry = {"name": instance, "type": "g4dn.xlarge", "url": f"http://{HOST}:{self.worker}"}
        instances.write_text(json.dumps([entry]))
        config.write_text(json.dumps({"port": 0, "probePort": 0, **settings}))
        given = ("--config", config, "--manifests", self.manifests, "--instances", instances)
        with listening(ROUTER, *map(str, given)) as found:
            yield found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with listening(WORKER, "--model", "echo", "--name", "rm2", "--listen", f"{HOST}:0") as (_, worker):
        yield Place(tmp_path, worker)


def ask(client: httpx.Client, headers: dict[str, str] | None = None, items: int = 3) -> httpx.Response:
    tensor = {"name": "x", "shape": [items], "datatype": "INT64", "data": list(range(items))}
    said = {"host": NAME, **(headers or {})}
    named = {"sni_hostname": NAME}
    return client.post("/v2/models/rm2/infer", json={"inputs": [tensor]}, headers=said, extensions=named)


def client(port: int, context: ssl.SSLContext | None = None) -> httpx.Client:
    base = f"{'http' if context is None else 'https'}://{HOST}:{port}"
    streams = context is not None
    return httpx.Client(base_url=base, verify=context or False, trust_env=False, timeout=limits.ANSWER, http2=streams)


def test_a_route_says_which_service_is_asked_and_no_caller_can_say_another(place: Place) -> None:
    with place.router("a") as (_, router), envoy(place.folder, ROUTE, [router]) as port, client(port) as callers:
        answer = ask(callers, {"hetserve-service": "other/service"})
        assert (answer.status_code, answer.headers["hetserve-instance"]) == (200, "a")
        assert answer.json()["outputs"][0]["data"] == [0, 1, 2]
        assert callers.get("/v1", headers={"host": NAME}).status_code == 404, "the route leads /v2 alone"
        assert ask(callers, {"host": "elsewhere.example.com"}).status_code == 404


@pytest.mark.parametrize(
    ("timeouts", "status"),
    [
        pytest.param(ROUTE["spec"]["rules"][0]["timeouts"], 504, id="of the page"),
        pytest.param(None, 504, id="not set: 15 s"),
        pytest.param({"request": "0s"}, 200, id="none"),
    ],
)
def test_the_timeout_of_a_route_is_the_deadline_of_a_query(place: Place, timeouts: Any, status: int) -> None:
    route = deepcopy(ROUTE)
    route["spec"]["rules"][0]["timeouts"] = timeouts
    if timeouts is None:
        del route["spec"]["rules"][0]["timeouts"]
    with place.router("a") as (_, router), envoy(place.folder, route, [router]) as port, client(port) as callers:
        assert ask(callers).status_code == 200
        answer = ask(callers, {"x-envoy-expected-rq-timeout-ms": "100000"}, items=1000)
        assert answer.status_code == status, answer.text
        if status == httpx.codes.GATEWAY_TIMEOUT:
            assert "deadline" in answer.json()["error"], "the router says it, at once, and not Envoy 10 s later"


TRITON: Final = """
import sys, numpy
from tritonclient import http
client, headers = http.InferenceServerClient(sys.argv[1]), {"Host": sys.argv[2]}
assert client.is_server_ready(headers) and client.is_model_ready("rm2", headers=headers)
given = numpy.arange(700, dtype=numpy.float32).reshape(7, 100)
for binary in (True, False):
    tensor = http.InferInput("x", given.shape, "FP32")
    tensor.set_data_from_numpy(given, binary_data=binary)
    answer = client.infer("rm2", [tensor], headers=dict(headers), timeout=8_000_000)  # it writes into what it gets
    (name,) = [one["name"] for one in answer.get_response()["outputs"]]
    assert (answer.as_numpy(name) == given).all()
print(answer.get_response()["model_name"])
"""


def test_tritons_client_asks_through_the_gateway(place: Place) -> None:
    with place.router("a") as (_, router), envoy(place.folder, ROUTE, [router]) as port:
        command = [peers.provide() / "python", "-c", TRITON, f"{HOST}:{port}", NAME]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limits.COMMAND)
        assert (done.returncode, done.stdout.strip()) == (0, "rm2"), done.stderr


def test_a_router_that_ends_refuses_no_query_of_the_gateway(place: Place) -> None:
    with ExitStack() as stack:
        (ending, one), (_, other) = (stack.enter_context(place.router(name)) for name in ("a", "b"))
        port = stack.enter_context(envoy(place.folder, ROUTE, [one, other]))
        callers = stack.enter_context(client(port))
        seen = set[str]()
        while seen != {"a", "b"}:
            seen.add(served(callers))
        ending.send_signal(signal.SIGTERM)
        meanwhile = list[str]()
        while ending.poll() is None:
            meanwhile.append(served(callers))
        assert ending.returncode == 0
        assert meanwhile.count("a") < meanwhile.count("b") / 2, "the gateway leads elsewhere before it ends"
        assert {served(callers) for _ in range(20)} == {"b"}


def served(callers: httpx.Client) -> str:
    """Who answers a query."""
    answer = ask(callers)
    assert answer.status_code == 200, answer.text
    return answer.headers["hetserve-instance"]


TRITON_BY_GRPC: Final = """
import sys, numpy
from tritonclient import grpc
client = grpc.InferenceServerClient(sys.argv[1], channel_args=[("grpc.default_authority", sys.argv[2])])
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("rm2")
assert client.get_model_metadata("rm2").name == "rm2"
for size in (100, 100_000):
    given = numpy.arange(7 * size, dtype=numpy.float32).reshape(7, size)
    tensor = grpc.InferInput("x", given.shape, "FP32")
    tensor.set_data_from_numpy(given)
    answer = client.infer("rm2", [tensor], client_timeout=10, headers={"hetserve-service": "other/service"})
    (name,) = [one.name for one in answer.get_response().outputs]
    assert (answer.as_numpy(name) == given).all()
try:
    client.infer("other", [tensor])
except grpc.InferenceServerException as error:
    print(error.status(), error.message())
"""


def test_tritons_client_asks_by_grpc_through_the_gateway(place: Place) -> None:
    with place.router("a") as (_, router), envoy(place.folder, BY_GRPC, [router]) as port:
        command = [peers.provide() / "python", "-c", TRITON_BY_GRPC, f"{HOST}:{port}", NAME]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limits.COMMAND)
        assert (done.returncode, done.stdout.split()[:1]) == (0, ["StatusCode.NOT_FOUND"]), done.stderr
        assert "serves model rm2" in done.stdout


def test_a_router_that_ends_refuses_no_query_by_grpc(place: Place) -> None:
    """The route says nothing of retries: each query that failed, while it waits or computes, would be seen."""
    told = ("--profile", place.manifests, "--instance-type", "g4dn.xlarge", "--listen", f"{HOST}:0")
    with ExitStack() as stack:
        _, place.worker = stack.enter_context(listening(WORKER, "--model", "echo", "--name", "rm2", *map(str, told)))
        (ending, one), (_, other) = (stack.enter_context(place.router(name)) for name in ("a", "b"))
        port = stack.enter_context(envoy(place.folder, BY_GRPC, [one, other]))
        callers = stack.enter_context(rpc_callers(f"{HOST}:{port}", NAME, beside=8))

        def asked() -> list[str]:
            return [callers.ask(), *(callers.heard() for _ in range(7))]

        while set(asked()) != {"a", "b"}:
            pass
        callers.tell()
        meanwhile = Counter([callers.heard()])
        ending.send_signal(signal.SIGTERM)  # while others of these wait, or are computed
        meanwhile.update(callers.heard() for _ in range(7))
        while ending.poll() is None:
            meanwhile.update(asked())
        assert ending.returncode == 0
        assert set(meanwhile) == {"a", "b"}, "what has come is answered"
        assert meanwhile["a"] < meanwhile["b"] / 2, "the gateway leads elsewhere before it ends"
        assert set(asked()) == {"b"}


def test_tls_ends_at_the_gateway_and_begins_again_to_the_router(place: Place, tmp_path: Path) -> None:
    policy = shown("BackendTLSPolicy")["spec"]["validation"]["hostname"]
    authority = Authority(tmp_path, "one")
    at = put(tmp_path / "router", authority.server(policy), authority)
    settings = {"port": 0, "certificate": f"{at}/tls.crt", "key": f"{at}/tls.key", "clientCa": f"{at}/ca.crt"}
    outside, inside = authority.server(NAME), authority.leaf("gateway")
    own = Pem(outside.certificate, outside.key)
    theirs = Pem(inside.certificate, inside.key, authority.certificate, policy)
    with place.router("a", tls=settings) as (_, router), envoy(place.folder, ROUTE, [router], own, theirs) as port:
        trusted = ssl.create_default_context(cafile=authority.certificate)
        with client(port, trusted) as callers:
            answer = ask(callers)
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
