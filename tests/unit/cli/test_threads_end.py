"""What follows a cluster ends with its reader: no thread goes on for a connection or a watch that is gone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from pathlib import Path

from harness import limits
from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.placement.placed import follow
from testing.cluster import gpu_node
from testing.kit.http_face import HttpFace
from testing.kit.port_forward import serve_forward


def test_a_watch_ends_once_its_reader_has_left(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with HttpFace.serving(gpu_node()) as api:
        placers = follow(ClusterClient.connect(str(api.kubeconfig(tmp_path)), None))
        next(placers)
        mine = [one for one in set(threading.enumerate()) - before if "_keep_up" in one.name]
        assert mine
        assert isinstance(placers, Generator)
        placers.close()
    for thread in mine:
        thread.join(limits.ANSWER)
    assert [thread.name for thread in mine if thread.is_alive()] == []


def test_a_forwarded_connection_ends_with_a_client_that_leaves_without_a_word() -> None:
    with socket.create_server(("127.0.0.1", 0)) as target:
        client, ours = socket.socketpair()
        port = target.getsockname()[1]
        thread = threading.Thread(target=serve_forward, args=(ours, 8080, port), daemon=True)
        thread.start()
        there, _ = target.accept()
        assert client.recv(64), "the numbers of the port: a client that leaves them unread resets the connection"
        client.close()
        thread.join(limits.ANSWER)
        assert not thread.is_alive()
        there.close()
        ours.close()
