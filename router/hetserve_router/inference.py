"""What a router reads of an inference request of the Open Inference Protocol v2: its size and how long it may take.

Tensors are not decoded. Whatever is too large to be parsed is known by its headers and its first bytes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson

from hetserve.base.units import Seconds
from hetserve_shell.http.grpc import PREFIX, WireReader, signed
from hetserve_shell.http.limits import HttpError

ITEMS: Final = b"hetserve-items"
"""Header: items of a query, for bodies whose size cannot be read."""
JSON_LENGTH: Final = b"inference-header-content-length"
"""Header of the protocol's binary extension: bytes of JSON before the tensors."""
GATEWAY_TIMEOUT: Final = b"x-envoy-expected-rq-timeout-ms"
"""Header: what Envoy waits for an answer, in place of what the client sent."""
MOST_PARSED: Final = 64 * 1024
"""Bytes of JSON that are parsed whole; clients write `parameters` last."""
LOOKED_AT: Final = 4 * 1024
"""Bytes of a larger one in which the first shape is looked for."""
MOST_ITEMS: Final = 10**9

_INPUTS: Final = re.compile(rb'(?<!\\)"inputs"\s*:\s*\[')
_SHAPE: Final = re.compile(rb'(?<!\\)"shape"\s*:\s*\[\s*(?:(\d{1,18})\s*[,\]]|\])')


@dataclass(slots=True)
class InferenceFacts:
    """items: of a query. timeout: what its client waits for at most [s]; None: it does not say.

    in_sequence: it belongs to a sequence, or may, so that asking twice may change the answer.
    """

    items: int
    timeout: Seconds | None = None
    in_sequence: bool = False


def read_inference(body: bytes | bytearray, items: bytes, json_length: bytes, encoding: bytes) -> InferenceFacts:
    """Facts of a request for inference.

    items, json_length, encoding: its headers ITEMS, JSON_LENGTH and Content-Encoding, empty where absent. Raises
    HttpError: 400 for what cannot be read, 415 for a compressed body without ITEMS.
    """
    told = told_items(items) if items else None
    if encoding and encoding.lower() != b"identity":
        if told is None:
            raise HttpError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"Content-Encoding {_text(encoding)}: compressed bodies are not read; say in the header "
                f"{_text(ITEMS)} how many items the query has",
            )
        return InferenceFacts(told, in_sequence=True)
    length = _length(json_length, len(body)) if json_length else len(body)
    if length > MOST_PARSED:
        found = _glimpsed(bytes(body[: min(length, LOOKED_AT)])) if told is None else told
        return InferenceFacts(found, in_sequence=True)
    return _parsed(body[:length], told)


def told_items(value: bytes) -> int:
    """Items as the header ITEMS says. Raises HttpError."""
    if value.isdigit() and len(value) <= 10 and 1 <= int(value) <= MOST_ITEMS:
        return int(value)
    raise _wrong(f"header {_text(ITEMS)} {_text(value)!r}: must be a whole number of items from 1 to {MOST_ITEMS}")


def _length(value: bytes, whole: int) -> int:
    if value.isdigit() and len(value) <= 12 and int(value) <= whole:
        return int(value)
    raise _wrong(f"header {_text(JSON_LENGTH)} {_text(value)!r}: must be a number of bytes, at most the body's {whole}")


def _glimpsed(head: bytes) -> int:
    inputs = _INPUTS.search(head)
    shape = _SHAPE.search(head, inputs.end()) if inputs else None
    if shape is None:
        raise _wrong(
            f"the body has more than {MOST_PARSED} bytes of JSON and no shape of its first input in the first "
            f"{LOOKED_AT}: say in the header {_text(ITEMS)} how many items the query has, or write the shape before "
            "the data"
        )
    return 1 if shape[1] is None else counted(int(shape[1]))


def _parsed(text: bytes | bytearray, told: int | None) -> InferenceFacts:
    try:
        request = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _wrong(f"the body is no JSON: {error}") from None
    if not isinstance(request, dict):
        raise _wrong("the body must be a JSON object with inputs")
    items, parameters = _first_size(request.get("inputs")) if told is None else told, request.get("parameters")
    if parameters is None:
        return InferenceFacts(items)
    if not isinstance(parameters, dict):
        raise _wrong("parameters: must be an object")
    timeout, sequence = told_timeout(parameters.get("timeout")), parameters.get("sequence_id")
    return InferenceFacts(items, timeout, sequence not in (None, 0, ""))


def _first_size(inputs: Any) -> int:
    """Items: the first dimension of the first input; 1 where there is none."""
    if not isinstance(inputs, list) or not inputs or not isinstance(inputs[0], dict):
        raise _wrong("inputs: must be a list of at least one tensor")
    shape = inputs[0].get("shape")
    if shape is None or shape == []:
        return 1
    if not isinstance(shape, list) or type(shape[0]) is not int:
        raise _wrong("inputs[0].shape: must be a list of whole numbers")
    size: int = shape[0]
    return size if 1 <= size <= MOST_ITEMS else counted(size)


def counted(size: int) -> int:
    """Items as a shape says. Raises HttpError."""
    if 1 <= size <= MOST_ITEMS:
        return size
    raise _wrong(f"inputs[0].shape[0] {size}: must be from 1 to {MOST_ITEMS}")


def told_timeout(value: Any) -> Seconds | None:
    """Of the parameter `timeout`, microseconds as in Triton; 0: none. Raises HttpError."""
    if value is None or value == 0:
        return None
    if type(value) is int and 0 < value < 2**63:
        return Seconds(value / 1e6)
    raise _wrong(f"parameters.timeout {value!r}: must be a whole number of microseconds; 0: no timeout")


def gateway_timeout(value: bytes) -> float:
    """Of the header GATEWAY_TIMEOUT, empty where absent [s]; infinite: none."""
    return int(value) / 1e3 if value and value.isdigit() and len(value) <= 15 and int(value) else math.inf


def _wrong(message: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, message[:1000])


def _text(value: bytes) -> str:
    return value[:100].decode("latin-1")


_TIMEOUT: Final = re.compile(rb"(\d{1,8})([HMSmun])")
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MODEL_FIELD, _PARAMETERS_FIELD, _INPUTS_FIELD, _SHAPE_FIELD = 1, 4, 5, 3


def read_name(body: bytes | bytearray) -> str:
    """The model of a message with its prefix: field 1 of all of them. Raises HttpError."""
    reader = WireReader(body)
    return next(
        (reader.text(start, end) for number, _, start, end in reader.fields(PREFIX, len(body)) if number == 1), ""
    )


def read_message(body: bytes | bytearray, items: bytes, timeout: bytes) -> tuple[str, InferenceFacts]:
    """Model and facts of a request for inference with its prefix. items, timeout: its metadata. Raises HttpError."""
    reader, model, size = WireReader(body), "", None
    limits, in_sequence = [_within(timeout)], False
    for number, _, start, end in reader.fields(PREFIX, len(body)):
        if number == _MODEL_FIELD:
            model = reader.text(start, end)
        elif number == _INPUTS_FIELD and size is None:
            size = _first_shape(reader, start, end)
        elif number == _PARAMETERS_FIELD:
            name, value = _parameter(reader, start, end)
            if name == "timeout":
                limits.append(told_timeout(value))
            elif name == "sequence_id":
                in_sequence = value not in {0, "", None}
    within = min((one for one in limits if one is not None), default=None)
    if items:
        return model, InferenceFacts(told_items(items), within, in_sequence)
    if size is None:
        raise HttpError(HTTPStatus.BAD_REQUEST, "inputs: must be at least one tensor")
    return model, InferenceFacts(counted(size), within, in_sequence)


def _within(timeout: bytes) -> Seconds | None:
    if not timeout:
        return None
    found = _TIMEOUT.fullmatch(timeout)
    if found is None:
        said = timeout[:20].decode("latin-1")
        raise HttpError(HTTPStatus.BAD_REQUEST, f"grpc-timeout {said!r}: must be up to 8 digits and one of HMSmun")
    return Seconds(int(found[1]) * _UNITS[found[2]])


def _first_shape(reader: WireReader, start: int, end: int) -> int:
    """The first dimension of a tensor; 1 where it has none."""
    for number, value, at, to in reader.fields(start, end):
        if number == _SHAPE_FIELD and at < to:
            return signed(reader.varint(at, to)[0] if value < 0 else value)
    return 1


def _parameter(reader: WireReader, start: int, end: int) -> tuple[str, object]:
    """Name and value of a parameter: a text, an integer, or None."""
    name, value = "", None
    for number, _, at, to in reader.fields(start, end):
        if number == 1:
            name = reader.text(at, to)
        else:
            for kind, integer, begin, stop in reader.fields(at, to):
                value = signed(integer) if integer >= 0 else reader.text(begin, stop) if kind == 3 else None
    return name, value
