"""Routers before servers that gRPC's own library runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway import HOST
from listening import ROUTER, WORKER, listening
from rpc_peers import rpc_callers, rpc_instance
from testing import builders

pytestmark = pytest.mark.deep  # gRPC's library is in the environment of peers: make gateway-tests installs it


def test_an_instance_that_stops_in_order_answers_what_it_has_and_is_asked_no_more(tmp_path: Path) -> None:
    items = [builders.service(), builders.instance_type(), builders.model_profile()]
    manifests, config, instances = (tmp_path / f"{name}.json" for name in ("manifests", "config", "instances"))
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    config.write_text(json.dumps({"port": 0, "probePort": 0}))
    given = [f"--{path.stem}={path}" for path in (config, manifests, instances)]
    worker = listening(WORKER, "--model", "echo", "--name", "rm2", "--listen", f"{HOST}:0")
    with rpc_instance() as (stopping, one), worker as (_, other):
        urls = {"a": one, "b": other}
        entries = [{"name": name, "type": "g4dn.xlarge", "url": f"http://{HOST}:{urls[name]}"} for name in urls]
        instances.write_text(json.dumps(entries))
        with listening(ROUTER, *given) as (_, router):
            address = f"{HOST}:{router}"
            with rpc_callers(address, "rm2.default") as caller, rpc_callers(address, "rm2.default") as beside:
                caller.tell()
                assert stopping.heard() == "asked"
                assert stopping.ask() == "stopping"
                assert [beside.ask() for _ in range(3)] == ["b"] * 3
                stopping.tell()
                assert caller.heard() == "a", "what it had begun"
                assert [caller.ask() for _ in range(3)] == ["b"] * 3
