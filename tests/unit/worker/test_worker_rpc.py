"""Messages of gRPC at a worker: tensors in raw and typed contents, errors that name their field, one port for all."""

from __future__ import annotations

import struct
from http import HTTPStatus

import numpy as np
import pytest

from hetserve_shell.http.grpc import PREFIX, WireReader, field, framed, varint
from hetserve_shell.http.limits import HttpError
from hetserve_shell.http.server import HttpServer, listen
from hetserve_worker.instance import Instance
from hetserve_worker.models import digits, echo
from hetserve_worker.oip import InferRequest, OipError, Tensor
from hetserve_worker.rpc import encode_message, parse_message
from http_clients import until
from rpc_clients import message_of, rpc_client, status_of


def tensor(datatype: str, *shape: int, contents: bytes | None = None, name: str = "x") -> bytes:
    given = b"" if contents is None else field(5, contents)
    return field(5, field(1, name) + field(2, datatype) + field(3, b"".join(map(varint, shape))) + given)


def parsed(*parts: bytes) -> InferRequest:
    return parse_message(framed(b"".join((field(1, "m"), *parts))), "m")


@pytest.mark.parametrize(
    ("datatype", "contents", "values"),
    [
        ("BOOL", field(1, b"\1\0"), [True, False]),
        ("INT8", field(2, varint(-3) + varint(7)), [-3, 7]),
        ("INT64", field(3, 5) + field(3, -5), [5, -5]),
        ("UINT16", field(4, varint(1) + varint(65535)), [1, 65535]),
        ("UINT64", field(5, varint(2**64 - 1) + b"\0"), [2**64 - 1, 0]),
        ("FP32", field(6, struct.pack("<2f", 0.5, -2)), [0.5, -2]),
        ("FP64", field(7, struct.pack("<2d", 0.1, 3)), [0.1, 3]),
        ("BYTES", field(8, b"a") + field(8, b"\xff"), [b"a", b"\xff"]),
    ],
)
def test_typed_contents_are_read(datatype: str, contents: bytes, values: list[object]) -> None:
    assert parsed(tensor(datatype, 2, contents=contents)).inputs[0].data.tolist() == values


def test_raw_contents_belong_to_the_inputs_in_their_order() -> None:
    raw = (struct.pack("<2f", 1, 2), b"\1\0\0\0a")
    request = parsed(
        field(3, "7"), tensor("FP32", 2, name="a"), tensor("BYTES", 1, name="b"), *(field(7, r) for r in raw)
    )
    assert [one.name for one in request.inputs] == ["a", "b"]
    assert [one.data.tolist() for one in request.inputs] == [[1, 2], [b"a"]]
    assert (request.id, request.items) == ("7", 2)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ([], "inputs"),
        ([tensor("FP128", 1, contents=b"")], "inputs.0.datatype 'FP128'"),
        ([tensor("FP32", 2, contents=field(6, struct.pack("<f", 1)))], "must be 2 values, as shape [2] says"),
        ([tensor("INT8", 1, contents=field(3, 300))], "must fit INT8"),
        ([tensor("INT8", 1, contents=field(6, struct.pack("<f", 1.5)))], "contents [1.5]: must be values of INT8"),
        ([tensor("FP32", 2), field(7, b"123")], "raw_inputs.0: must be 8 bytes"),
        ([tensor("FP32", 1)], "must have a shape"),
        ([tensor("FP32", 1), field(7, b"1234"), field(7, b"1234")], "2 raw contents"),
        ([tensor("FP32", -1), field(7, b"")], "sizes from 0 on"),
    ],
)
def test_a_wrong_message_names_its_field(parts: list[bytes], named: str) -> None:
    with pytest.raises(OipError, match=r".") as caught:
        parsed(*parts)
    assert named in str(caught.value)


def test_another_model_and_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(HttpError) as caught:
        parse_message(framed(field(1, "other")), "m")
    assert caught.value.status == HTTPStatus.NOT_FOUND
    with pytest.raises(HttpError, match="not of protobuf"):
        parse_message(framed(b"\x0b\xff"), "m")


def test_the_outputs_that_are_asked_for_are_answered_in_raw_contents() -> None:
    given = [Tensor(name, "INT64", (1,), np.array([number])) for number, name in enumerate("ab")]
    request = parsed(tensor("BOOL", 1, contents=field(1, 1)), field(6, field(1, "b")))
    body = encode_message("m", "1", request, given)
    fields = [(number, body[at:to]) for number, _, at, to in WireReader(body).fields(PREFIX, len(body))]
    assert fields[-1] == (6, b"\1" + bytes(7))
    assert sum(number == 5 for number, _ in fields) == 1
    with pytest.raises(OipError, match="outputs 'c'"):
        encode_message("m", "1", parsed(tensor("BOOL", 1, contents=field(1, 1)), field(6, field(1, "c"))), given)


async def test_a_port_serves_digits_by_grpc_and_says_what_it_is() -> None:
    server, listener = HttpServer(Instance("digits", digits())), listen("127.0.0.1", 0)
    await server.start(listener)
    async with rpc_client(*listener.getsockname()[:2]) as client:
        body = framed(b"".join([field(1, "digits"), tensor("FP32", 1, 64, name="images"), field(7, bytes(256))]))
        found = message_of(await client.rpc("ModelInfer", body))
        assert b"labels" in found
        assert b"probabilities" in found
        about = message_of(await client.rpc("ModelMetadata", framed(field(1, "digits"))))
        assert b"scikit_learn" in about
        assert message_of(await client.rpc("ModelReady", framed(field(1, "digits")))) == field(1, 1)
        assert status_of(await client.rpc("ModelInfer", framed(field(1, "digits"))))[0] == 3
        assert status_of(await client.rpc("RepositoryIndex", framed(b"")))[0] == 12
    await server.stop(1.0)
    await until(lambda: not server.open)


async def test_an_instance_that_is_not_ready_says_so() -> None:
    server, listener = HttpServer(Instance("m", echo(), fault="unready")), listen("127.0.0.1", 0)
    await server.start(listener)
    async with rpc_client(*listener.getsockname()[:2]) as client:
        assert message_of(await client.rpc("ServerLive", framed(b""))) == field(1, 1)
        assert message_of(await client.rpc("ModelReady", framed(field(1, "m")))) == b""
    await server.stop(1.0)
