"""Which service a request is for, by its header or its Host, and what its path asks for."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from hetserve_router.addresses import Asked, RequestTarget, service_of, target_of
from hetserve_shell.http.limits import HttpError

DOMAIN = "cluster.local"


def found(host: bytes, named: bytes = b"", namespaces: tuple[str, ...] = ("*",)) -> tuple[str, str]:
    return service_of(named, host, namespaces, DOMAIN)


@pytest.mark.parametrize(
    "host",
    [
        b"rm2.team",
        b"rm2.team:80",
        b"rm2.team.svc",
        b"rm2.team.svc:8000",
        b"rm2.team.svc.cluster.local",
        b"rm2.team.svc.cluster.local.",
        b"RM2.Team.svc.cluster.local.:80",
    ],
)
def test_a_service_is_named_by_its_host_in_each_of_its_forms(host: bytes) -> None:
    assert found(host) == ("team", "rm2")


def test_a_header_counts_before_the_host() -> None:
    assert found(b"gateway.example.com", b"team/rm2") == ("team", "rm2")


def test_a_bare_name_is_found_where_one_namespace_is_served() -> None:
    assert found(b"rm2", namespaces=("team",)) == ("team", "rm2")


@pytest.mark.parametrize("namespaces", [("*",), ("team", "other")])
def test_a_bare_name_says_what_to_ask_where_several_are(namespaces: tuple[str, ...]) -> None:
    with pytest.raises(HttpError, match=r"ask rm2\.NAMESPACE") as caught:
        found(b"rm2", namespaces=namespaces)
    assert caught.value.status == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("host", [b"", b"a.b.c.d", b"[::1]:80", b"10.1.2.3", b".", b"x" * 5000])
def test_another_host_names_the_header(host: bytes) -> None:
    with pytest.raises(HttpError, match="hetserve-service") as caught:
        found(host)
    assert caught.value.status == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("named", [b"rm2", b"/rm2", b"team/", b"a/b/c"])
def test_a_wrong_header_is_refused(named: bytes) -> None:
    with pytest.raises(HttpError, match="namespace/name") as caught:
        found(b"rm2.team", named)
    assert caught.value.status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (b"/v2", RequestTarget(Asked.SERVER_METADATA)),
        (b"/v2/", RequestTarget(Asked.SERVER_METADATA)),
        (b"/v2/health/live", RequestTarget(Asked.LIVE)),
        (b"/v2/health/ready", RequestTarget(Asked.READY)),
        (b"/v2/models/rm2", RequestTarget(Asked.MODEL_METADATA, "rm2")),
        (b"/v2/models/rm2/ready", RequestTarget(Asked.MODEL_READY, "rm2")),
        (b"/v2/models/rm2/infer", RequestTarget(Asked.INFER, "rm2")),
        (b"/v2/models/rm2/versions/3/infer", RequestTarget(Asked.INFER, "rm2")),
        (b"/v2/models/rm2/versions/3", RequestTarget(Asked.MODEL_METADATA, "rm2")),
        (b"/v2/models/a%20b/infer", RequestTarget(Asked.INFER, "a b")),
        (b"/", RequestTarget(Asked.OTHER)),
        (b"/v2/models", RequestTarget(Asked.OTHER)),
        (b"/v2/models//infer", RequestTarget(Asked.OTHER)),
        (b"/v2/models/rm2/unload", RequestTarget(Asked.OTHER)),
        (b"/v2/models/rm2/infer/more", RequestTarget(Asked.OTHER)),
        (b"/v2/repository/models/rm2/unload", RequestTarget(Asked.OTHER)),
    ],
)
def test_a_path_says_what_is_asked(path: bytes, target: RequestTarget) -> None:
    assert target_of(path) == target
