"""The bodies of the protocol: every datatype in both forms, and what clients get wrong."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve_worker.oip import DATATYPES, INFERENCE_HEADER, OipError, Tensor, encode_answer, parse_request

Json = dict[str, Any]
INTEGERS = {
    f"{sign}INT{bits}": (-(2 ** (bits - 1)) if not sign else 0, 2 ** (bits - (not sign)) - 1)
    for sign in ("", "U")
    for bits in (8, 16, 32, 64)
}


def values_of(datatype: str) -> st.SearchStrategy[Any]:
    if datatype == "BOOL":
        return st.booleans()
    if datatype == "BYTES":
        return st.text(max_size=9)
    if datatype in INTEGERS:
        low, high = INTEGERS[datatype]
        return st.integers(low, high)
    return st.floats(width=int(datatype[2:]), allow_nan=False, allow_infinity=False)  # type: ignore[arg-type]


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, list[int], list[Any]]:
    """Datatype, shape and flat values."""
    datatype = draw(st.sampled_from(sorted(DATATYPES)))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    count = math.prod(shape)
    return datatype, shape, draw(st.lists(values_of(datatype), min_size=count, max_size=count))


def nested(shape: Sequence[int], values: list[Any]) -> list[Any]:
    for size in reversed(shape[1:]):
        values = [values[at : at + size] for at in range(0, len(values), size)] if size else []
    return values


def packed(datatype: str, values: list[Any]) -> bytes:
    """Binary form, written without the code under test."""
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in values)
    codes = {"BOOL": "?", "FP16": "e", "FP32": "f", "FP64": "d"}
    codes |= {f"INT{8 << n}": "bhiq"[n] for n in range(4)} | {f"UINT{8 << n}": "BHIQ"[n] for n in range(4)}
    return struct.pack(f"<{len(values)}{codes[datatype]}", *values)


def asked(*inputs: Json, binary: bytes | None = None, **more: Any) -> tuple[bytes, bytes]:
    """Body and header of a request."""
    text = json.dumps({"inputs": list(inputs), **more}).encode()
    return (text, b"") if binary is None else (text + binary, str(len(text)).encode())


def an_input(**changed: Any) -> Json:
    return {"name": "x", "datatype": "INT32", "shape": [2], "data": [1, 2]} | changed


@given(tensors(), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=examples(2000))
def test_a_tensor_comes_back_as_it_was_sent_in_both_forms(
    tensor: tuple[str, list[int], list[Any]], in_binary: bool, out_binary: bool, deep: bool
) -> None:
    datatype, shape, values = tensor
    sent: Json = {"name": "x", "datatype": datatype, "shape": shape}
    raw = packed(datatype, values)
    if in_binary:
        body, header = asked(
            sent | {"parameters": {"binary_data_size": len(raw)}},
            binary=raw,
            outputs=[{"name": "x", "parameters": {"binary_data": out_binary}}],
        )
    else:
        data = nested(shape, values) if deep else values
        body, header = asked(sent | {"data": data}, parameters={"binary_data_output": out_binary})
    request = parse_request(bytearray(body), header)
    headers, answer = encode_answer("m", "1", request, request.inputs)
    length = dict(headers).get(INFERENCE_HEADER)
    text, rest = (answer, b"") if length is None else (answer[: int(length)], answer[int(length) :])
    (output,) = orjson.loads(text)["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("x", datatype, shape)
    if out_binary:
        assert output["parameters"]["binary_data_size"] == len(rest)
        assert rest == raw
        assert dict(headers)[b"content-type"] == b"application/octet-stream"
    else:
        assert length is None
        found = output["data"]
        if datatype in {"FP16", "FP32"}:  # the shortest decimal of the narrow type
            found = np.array(found, f"<f{int(datatype[2:]) // 8}").tolist()
        assert found == values


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=2),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=2), parts, max_size=2),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["name", "datatype", "shape", "data", "parameters"]), ANY_JSON), ANY_JSON)
@settings(max_examples=examples(2000))
def test_whatever_json_is_sent_becomes_a_request_or_an_error_with_words(changed: Json, beside: Any) -> None:
    body, _ = asked(an_input(**changed), parameters=beside)
    said = ""
    try:
        (tensor,) = parse_request(body).inputs
        assert tensor.data.shape == (math.prod(tensor.shape),)
    except OipError as refused:
        said = str(refused)
    assert not said or re.match(r"(inputs|parameters|body)\b.*: ", said, re.DOTALL)


@pytest.mark.parametrize("extreme", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_binary_alone(extreme: float) -> None:
    raw = struct.pack("<d", extreme)
    sent = {"name": "x", "datatype": "FP64", "shape": [], "parameters": {"binary_data_size": 8}}
    request = parse_request(*asked(sent, binary=raw))
    with pytest.raises(OipError, match="outputs 'x': is not finite, as JSON must be; ask for binary_data"):
        encode_answer("m", "1", request, request.inputs)
    request = parse_request(*asked(sent, binary=raw, parameters={"binary_data_output": True}))
    assert encode_answer("m", "1", request, request.inputs)[1].endswith(raw)


def test_bytes_that_are_no_text_are_binary_alone() -> None:
    raw = struct.pack("<I", 2) + b"\xff\xfe"
    sent = {"name": "x", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(raw)}}
    request = parse_request(*asked(sent, binary=raw))
    with pytest.raises(OipError, match="outputs 'x': is no text; ask for binary_data"):
        encode_answer("m", "1", request, request.inputs)


def test_an_answer_has_the_id_and_the_outputs_that_are_asked_for() -> None:
    request = parse_request(*asked(an_input(), an_input(name="y"), id="a7", outputs=[{"name": "y"}]))
    headers, body = encode_answer("m", "3", request, request.inputs)
    output = {"name": "y", "datatype": "INT32", "shape": [2], "data": [1, 2]}
    assert orjson.loads(body) == {"model_name": "m", "model_version": "3", "id": "a7", "outputs": [output]}
    assert headers == [(b"content-type", b"application/json")]
    request = parse_request(*asked(an_input(), an_input(name="y")))
    everything = orjson.loads(encode_answer("m", "3", request, request.inputs)[1])
    assert [one["name"] for one in everything["outputs"]] == ["x", "y"]
    assert "id" not in everything
    with pytest.raises(OipError, match="outputs 'z': must be of x, y"):
        encode_answer("m", "3", parse_request(*asked(an_input(), outputs=[{"name": "z"}])), request.inputs)


def test_binary_inputs_follow_each_other_in_the_order_of_the_inputs_that_have_them() -> None:
    first, second = struct.pack("<i", 7), struct.pack("<2i", 8, 9)
    inputs = [
        {"name": "a", "datatype": "INT32", "shape": [1], "parameters": {"binary_data_size": 4}},
        an_input(name="b"),
        {"name": "c", "datatype": "INT32", "shape": [2], "parameters": {"binary_data_size": 8}},
    ]
    found = parse_request(*asked(*inputs, binary=first + second)).inputs
    assert [one.data.tolist() for one in found] == [[7], [1, 2], [8, 9]]


@pytest.mark.parametrize(("shape", "items"), [([5, 0], 5), ([], 1), ([1], 1)])
def test_the_items_of_a_query_are_the_first_dimension_of_its_first_input(shape: list[int], items: int) -> None:
    first = {"name": "a", "datatype": "BOOL", "shape": shape, "data": [True] * math.prod(shape)}
    assert parse_request(*asked(first, an_input())).items == items


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"shape": [-2]}, r"inputs\.0\.shape\.0 -2: .* greater than or equal to 0"),
        ({"shape": [2.0]}, r"inputs\.0\.shape\.0 2\.0: .* valid integer"),
        ({"shape": [True, 2]}, r"inputs\.0\.shape\.0 True: .* valid integer"),
        ({"shape": "2"}, r"inputs\.0\.shape '2': .* valid list"),
        ({"shape": [1] * 33}, r"inputs\.0\.shape .* at most 32 items"),
        ({"shape": [2**63, 2**63]}, r"inputs\.0\.data \[1, 2\]: must be 8507059\d+ values, as shape"),
        ({"shape": [3]}, r"inputs\.0\.data \[1, 2\]: must be 3 values, as shape \[3\] says"),
        ({"shape": [2, 2], "data": [[1, 2], [3]]}, r"must be 4 values"),
        ({"shape": [2, 2], "data": [[1, 2, 3], [4]]}, r"must be 4 values"),
        ({"shape": [1, 1], "data": [[[1]]]}, r"must be 1 values"),
        ({"data": [[1], [2]]}, r"must be 2 values"),
        ({"data": 7}, r"inputs\.0\.data 7: must be 2 values"),
        ({"data": {"a": 7}, "shape": []}, r"must be values of INT32"),
        ({"data": [1, 2.0]}, r"must be values of INT32"),
        ({"data": [1, True]}, r"must be values of INT32"),
        ({"data": [1, None]}, r"must be values of INT32"),
        ({"data": ["1", "2"]}, r"must be values of INT32"),
        ({"data": [1, 2**31]}, r"inputs\.0\.data: .*2147483648 out of bounds for int32; must fit INT32"),
        ({"data": [-1, 2], "datatype": "UINT64"}, r"must fit UINT64"),
        ({"data": [1, 10**30], "datatype": "UINT64"}, r"1e\+30\]: must be values of UINT64"),
        ({"data": [1, 1e39], "datatype": "FP32"}, r"overflow.*; must fit FP32"),
        ({"data": [1, 65520], "datatype": "FP16"}, r"must fit FP16"),
        ({"data": [0, 1], "datatype": "BOOL"}, r"must be values of BOOL"),
        ({"data": [b"a".decode(), 1], "datatype": "BYTES"}, r"must be values of BYTES"),
        ({"datatype": "INT4"}, r"inputs\.0\.datatype 'INT4': must be one of BOOL, INT8"),
        ({"datatype": 3}, r"inputs\.0\.datatype 3: .* valid string"),
        ({"name": None}, r"inputs\.0\.name None: .* valid string"),
        ({"data": None}, r"inputs\.0: must have data, or parameters\.binary_data_size, and not both"),
        ({"parameters": {"binary_data_size": 8}}, r"inputs\.0: must have data, or"),
        ({"parameters": {"binary_data_size": -1}, "data": None}, r"binary_data_size -1: .* greater than or equal"),
        ({"parameters": {"binary_data_size": 8}, "data": None}, r"size 8: must be at most the 0 bytes"),
        ({"parameters": {"binary_data_size": 2**70}, "data": None}, r"binary_data_size .*: "),
        ({"parameters": {"shared_memory_region": "r"}, "data": None}, r"inputs\.0: must have data, or"),
        ({"parameters": []}, r"inputs\.0\.parameters \[\]: "),
    ],
)
def test_a_wrong_input_is_refused_with_its_field_its_value_and_what_is_right(changed: Json, message: str) -> None:
    with pytest.raises(OipError, match=message):
        parse_request(*asked(an_input(**changed)))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "body: .*; must be JSON"),
        (b"{", "body: .*; must be JSON"),
        (b"[" * 100_000, "body: depth limit exceeded"),
        (b'{"inputs": ' * 2000, "body: depth limit exceeded"),
        (b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [NaN]}]}', "body: .*; must be JSON"),
        (b'{"inputs": [{"name": "x", "datatype": "FP64", "shape": [1], "data": [1e999]}]}', "body: .*; must be JSON"),
        (b'{"id": "\xff"}', "body: .*; must be JSON"),
        (b"[]", r"body \[\]: "),
        (b"null", "body None: "),
        (b"{}", "inputs {}: Field required"),
        (b'{"inputs": []}', r"inputs \[\]: .* at least 1 item"),
        (b'{"inputs": [3]}', r"inputs\.0 3: "),
        (b'{"inputs": {}}', "inputs {}: .* valid list"),
        (b'{"inputs": [%s3]}' % (b"3," * 500_000), r"inputs .*at most 256 items"),
        (b'{"inputs": [%s3]}' % (b"[]," * 500_000), r"inputs .*at most 256 items"),
    ],
)
def test_a_body_that_is_no_request_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(OipError, match=message):
        parse_request(body)


def test_two_inputs_of_one_name_are_refused() -> None:
    with pytest.raises(OipError, match=r"inputs \['x', 'x'\]: must have names of their own"):
        parse_request(*asked(an_input(), an_input()))


@pytest.mark.parametrize("header", [b"-1", b"1e3", b"x", b" 5", b"999", b"9" * 5000, "٣".encode()])
def test_a_length_of_json_that_the_body_has_not_is_refused(header: bytes) -> None:
    with pytest.raises(
        OipError, match=r"inference-header-content-length .*: must be the bytes of JSON, at most the 78 "
    ):
        parse_request(asked(an_input())[0], header)


@pytest.mark.parametrize(
    ("datatype", "shape", "raw", "message"),
    [
        ("INT32", [2], b"1234567", r"size 7: must be 8 bytes, for shape \[2\] of INT32"),
        ("INT32", [0, 2**63], b"1234", r"must be 0 bytes, for shape"),
        ("BOOL", [2], b"\x00\x02", r"must be 2 bytes, for shape \[2\] of BOOL, each 0 or 1"),
        ("BYTES", [1], b"\x01\x00\x00", "must be 1 texts, as the shape says; these are 1 of 5 bytes"),
        ("BYTES", [1], b"\xff\xff\xff\xffab", "must be 1 texts, as the shape says; these are 1 of 4294967299 bytes"),
        ("BYTES", [2], b"\x01\x00\x00\x00a", "must be 2 texts, as the shape says; these are 1 of 5 bytes"),
    ],
)
def test_binary_data_that_is_not_as_the_shape_says_is_refused(
    datatype: str, shape: list[int], raw: bytes, message: str
) -> None:
    sent = {"name": "x", "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": len(raw)}}
    with pytest.raises(OipError, match=message):
        parse_request(*asked(sent, binary=raw))


def test_binary_data_of_no_input_is_refused() -> None:
    with pytest.raises(OipError, match="body: 3 bytes are left behind the inputs; binary_data_size must count them"):
        parse_request(*asked(an_input(), binary=b"abc"))


def test_messages_stay_short_whatever_was_sent() -> None:
    deep = "x" * 100_000
    for changed in ({"datatype": deep}, {"data": [deep] * 2}, {"shape": [1.5] * 1000}, {"name": [deep]}):
        with pytest.raises(OipError) as refused:
            parse_request(*asked(an_input(**changed)))
        assert len(str(refused.value)) < 1000


def test_arrays_lie_as_their_type_wants_wherever_the_json_ends() -> None:
    raw = struct.pack("<2d", 1.5, 2.5)
    for name in ("x", "xy", "xyz", "wxyz"):
        sent = {"name": name, "datatype": "FP64", "shape": [2], "parameters": {"binary_data_size": 16}}
        (tensor,) = parse_request(*asked(sent, binary=raw)).inputs
        assert tensor.data.flags.aligned
        assert tensor.data.tolist() == [1.5, 2.5]


def test_an_answer_is_made_of_what_a_model_gives() -> None:
    request = parse_request(*asked(an_input(), parameters={"binary_data_output": True}))
    made = Tensor("y", "FP32", (1, 2), np.array([0.1, 2.0], np.float32))
    headers, body = encode_answer("m", "1", request, [made])
    text, rest = body[: int(dict(headers)[INFERENCE_HEADER])], body[int(dict(headers)[INFERENCE_HEADER]) :]
    assert rest == struct.pack("<2f", 0.1, 2.0)
    assert orjson.loads(text)["outputs"] == [
        {"name": "y", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
    ]
