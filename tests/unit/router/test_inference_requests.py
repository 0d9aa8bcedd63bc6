"""What a router reads of an inference request, without decoding tensors."""

from __future__ import annotations

import json
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.base.units import Seconds
from hetserve_router.inference import LOOKED_AT, MOST_PARSED, InferenceFacts, read_inference
from hetserve_shell.http.limits import HttpError


def body_of(*shape: int, data: Any = (), **more: Any) -> bytes:
    tensor = {"name": "x", "shape": list(shape), "datatype": "FP32", "data": list(data)}
    return json.dumps({"inputs": [tensor], **more}).encode()


def read(body: bytes, items: bytes = b"", json_length: bytes = b"", encoding: bytes = b"") -> InferenceFacts:
    return read_inference(body, items, json_length, encoding)


def refused(body: bytes, items: bytes = b"", json_length: bytes = b"", encoding: bytes = b"") -> HttpError:
    with pytest.raises(HttpError) as caught:
        read(body, items, json_length, encoding)
    return caught.value


def test_a_query_has_as_many_items_as_the_first_dimension_of_its_first_input() -> None:
    assert read(body_of(32, 4)).items == 32


@pytest.mark.parametrize("tensor", [{"name": "x"}, {"name": "x", "shape": []}])
def test_an_input_without_a_shape_or_with_a_scalar_one_is_one_item(tensor: Any) -> None:
    assert read(json.dumps({"inputs": [tensor]}).encode()).items == 1


def test_the_header_counts_before_the_shape() -> None:
    assert read(body_of(32), items=b"7").items == 7


def test_parameters_are_read_also_behind_the_data() -> None:
    found = read(body_of(2, parameters={"timeout": 1_500_000, "sequence_id": 9}))
    assert found == InferenceFacts(2, Seconds(1.5), in_sequence=True)


@pytest.mark.parametrize("value", [0, "", None])
def test_no_sequence_is_one_that_may_be_asked_twice(value: Any) -> None:
    assert not read(body_of(2, parameters={"sequence_id": value})).in_sequence


def test_of_a_binary_body_the_json_part_is_parsed() -> None:
    head = body_of(16, 3)
    assert read(head + b"\x00" * 200_000, json_length=str(len(head)).encode()).items == 16


def test_of_a_large_body_the_first_shape_is_found_at_its_beginning() -> None:
    assert read(body_of(48, 1000, data=[0.5] * MOST_PARSED)) == InferenceFacts(48, in_sequence=True)


def test_a_large_body_whose_shape_comes_late_names_the_header() -> None:
    late = b'{"inputs":[{"name":"x","data":[' + b"1," * MOST_PARSED + b'1],"shape":[3]}]}'
    error = refused(late)
    assert error.status == HTTPStatus.BAD_REQUEST
    assert "hetserve-items" in str(error)
    assert str(LOOKED_AT) in str(error)
    assert read(late, items=b"3").items == 3


def test_a_shape_within_a_text_is_not_taken_for_one() -> None:
    name = '\\"inputs\\":[{\\"shape\\":[999]'
    text = '{"id":"' + name + '","inputs":[{"name":"x","shape":[5],"data":[' + "1," * MOST_PARSED + "1]}]}"
    assert read(text.encode()).items == 5


def test_a_compressed_body_needs_the_header() -> None:
    assert read(b"\x1f\x8b", items=b"4", encoding=b"gzip") == InferenceFacts(4, in_sequence=True)
    error = refused(b"\x1f\x8b", encoding=b"gzip")
    assert error.status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    assert "hetserve-items" in str(error)


@pytest.mark.parametrize("value", [b"0", b"-1", b"1.5", b"x", b"1" * 40, b"\xb2"])
def test_a_wrong_header_is_named_with_its_value(value: bytes) -> None:
    error = refused(body_of(1), items=value)
    assert error.status == HTTPStatus.BAD_REQUEST
    assert "hetserve-items" in str(error)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "JSON"),
        (b"[1]", "object"),
        (b"[" * 50_000, "JSON"),
        (b'{"inputs": {}}', "inputs"),
        (b'{"inputs": []}', "inputs"),
        (b'{"inputs": [3]}', "inputs"),
        (b'{"inputs": [{"shape": 3}]}', "shape"),
        (b'{"inputs": [{"shape": [true]}]}', "shape"),
        (b'{"inputs": [{"shape": [1.5]}]}', "shape"),
        (b'{"inputs": [{"shape": [NaN]}]}', "JSON"),
        (b'{"inputs": [{"shape": [-1]}]}', "shape"),
        (b'{"inputs": [{"shape": [0]}]}', "shape"),
        (b'{"inputs": [{"shape": [99999999999999999]}]}', "shape"),
        (b'{"inputs": [{"shape": [1]}], "parameters": 3}', "parameters"),
        (b'{"inputs": [{"shape": [1]}], "parameters": {"timeout": -1}}', "timeout"),
        (b'{"inputs": [{"shape": [1]}], "parameters": {"timeout": 1.5}}', "timeout"),
        (b'{"inputs": [{"shape": [1]}], "parameters": {"timeout": true}}', "timeout"),
    ],
)
def test_what_cannot_be_read_is_refused_by_the_name_of_the_field(body: bytes, named: str) -> None:
    error = refused(body)
    assert error.status == HTTPStatus.BAD_REQUEST
    assert named in str(error)
    assert len(str(error)) <= 1000


@pytest.mark.parametrize("value", [b"-1", b"x", b"99999", b"1" * 30])
def test_a_wrong_length_of_the_json_part_is_refused(value: bytes) -> None:
    assert refused(body_of(1), json_length=value).status == HTTPStatus.BAD_REQUEST


@pytest.mark.law
@given(
    st.binary(max_size=300), st.binary(max_size=12), st.binary(max_size=6), st.sampled_from([b"", b"gzip", b"identity"])
)
def test_any_bytes_are_read_or_refused(body: bytes, items: bytes, json_length: bytes, encoding: bytes) -> None:
    with suppress(HttpError):
        assert read(body, items, json_length, encoding).items >= 1
