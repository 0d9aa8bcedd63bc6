"""An extender that decides nothing, in the same process technology as ours: what any extender costs at least.

Shape `one` answers with one node, taken in turn, `all` with every node and one score for each; `bind` does as
`one` and binds as well, with two annotations, over our connections to the API server: no ledger, no watch, no fence.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import socket
from functools import partial
from pathlib import Path

import orjson
import uvloop

from hetserve.api.names import ANNOTATION_GPU, ANNOTATION_GPU_MEMORY
from hetserve_extender.verbs import wire
from hetserve_shell.http.handlers import Handler, PathRouter, Routes
from hetserve_shell.http.server import HttpServer
from hetserve_shell.kube.client import KubernetesApi, pod_path
from hetserve_shell.kube.connection import ApiConnection

SHAPES = ("one", "all", "bind")


def routes(shape: str, api: KubernetesApi | None) -> Routes:
    """Verbs of a no-op; `api` is where shape `bind` binds."""
    turn = itertools.count()

    def filter_(body: bytes) -> bytes:
        names = orjson.loads(body)["NodeNames"]
        passed = names if shape == "all" else [names[next(turn) % len(names)]]
        return wire.filter_result(wire.FilterArgs({}, tuple(names)), passed, {})

    def prioritize(body: bytes) -> bytes:
        return wire.priorities(dict.fromkeys(orjson.loads(body)["NodeNames"], 5))

    verbs: dict[bytes, Handler] = {b"/filter": filter_, b"/prioritize": prioritize}
    if api is not None:
        verbs[b"/bind"] = partial(_bind, api)
    return verbs


async def _bind(api: KubernetesApi, body: bytes) -> bytes:
    args = wire.parse_bind(body)
    answer = await api.request("POST", pod_path(args.namespace, args.name, "binding"), body=_binding(args))
    return wire.bind_result("" if answer.ok else answer.message)


def _binding(args: wire.BindArgs) -> dict[str, object]:
    said = {ANNOTATION_GPU: "0", ANNOTATION_GPU_MEMORY: "1024"}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": args.name, "namespace": args.namespace, "uid": args.uid, "annotations": said},
        "target": {"apiVersion": "v1", "kind": "Node", "name": args.node},
    }


async def serve(port: int, shape: str, kubeconfig: Path | None) -> None:
    """Until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    connection = await ApiConnection.connect(kubeconfig, user_agent="no-op") if shape == "bind" else None
    server = HttpServer(PathRouter(routes(shape, KubernetesApi(connection) if connection else None)))
    await server.start(socket.create_server(("127.0.0.1", port)))
    await stop.wait()
    await server.stop(1.0)
    if connection is not None:
        await connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--kubeconfig", type=Path, help="of shape `bind`")
    options = parser.parse_args()
    uvloop.run(serve(options.port, options.shape, options.kubeconfig))


if __name__ == "__main__":
    main()
