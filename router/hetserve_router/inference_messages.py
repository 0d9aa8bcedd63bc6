"""What a router reads of a message of inference.GRPCInferenceService: tensors are jumped over."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from hetserve.base.units import Seconds
from hetserve_router.inference import InferenceFacts, counted, told_items, told_timeout
from hetserve_shell.http.grpc import PREFIX, WireReader, signed
from hetserve_shell.http.limits import HttpError

_TIMEOUT: Final = re.compile(rb"(\d{1,8})([HMSmun])")
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MODEL, _PARAMETERS, _INPUTS, _SHAPE = 1, 4, 5, 3


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
        if number == _MODEL:
            model = reader.text(start, end)
        elif number == _INPUTS and size is None:
            size = _first_size(reader, start, end)
        elif number == _PARAMETERS:
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


def _first_size(reader: WireReader, start: int, end: int) -> int:
    """The first dimension of a tensor; 1 where it has none."""
    for number, value, at, to in reader.fields(start, end):
        if number == _SHAPE and at < to:
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
