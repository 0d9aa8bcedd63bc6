"""Messages of inference.GRPCInferenceService: requests with tensors in raw or typed contents, answers in raw ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from itertools import zip_longest
from typing import Any, Final

import numpy as np

from hetserve_shell.http.grpc import PREFIX, WireReader, field, framed, signed, varint
from hetserve_shell.http.limits import HttpError
from hetserve_worker.oip import DATATYPES, InferRequest, OipError, Tensor, typed_values, values_from_bytes

SERVICE: Final = "/inference.GRPCInferenceService/"
_FIXED: Final[Mapping[int, np.dtype[Any]]] = {6: np.dtype("<f4"), 7: np.dtype("<f8")}
"""Contents whose values have a fixed size, by the number of their field."""
_READS: Final[Mapping[int, Callable[[int], int]]] = {1: bool, 2: signed, 3: signed}
"""What the others are; the rest has no sign."""
_TEXTS: Final = 8


def parse_message(body: bytes | bytearray, model: str) -> InferRequest:
    """The request to a model, of a message with its prefix. Raises HttpError, OipError."""
    reader, name, raw = WireReader(body), "", list[memoryview]()
    inputs, outputs = list[tuple[str, str, tuple[int, ...], list[Any] | None]](), list[str]()
    for number, _, start, end in reader.fields(PREFIX, len(body)):
        if number == 1 and reader.text(start, end) != model:
            raise HttpError(HTTPStatus.NOT_FOUND, f"model_name {reader.text(start, end)[:60]!r}: must be {model}")
        if number == 3:
            name = reader.text(start, end)
        elif number == 5:
            inputs.append(_input(reader, start, end))
        elif number == 6:
            outputs.append(next(_texts(reader, 1, start, end), ""))
        elif number == 7:
            raw.append(memoryview(body)[start:end])
    if not inputs or len(raw) > len(inputs):
        raise OipError(
            f"inputs: {len(inputs)} tensors and {len(raw)} raw contents; must be one of these for each, or none"
        )
    tensors = tuple(_tensor(f"inputs.{at}", *one) for at, one in enumerate(zip_longest(inputs, raw)))
    return InferRequest(name, tensors, dict.fromkeys(outputs, True), binary=True)


def encode_message(model: str, version: str, request: InferRequest, given: Sequence[Tensor]) -> bytes:
    """The answer with its prefix. Raises OipError for an output that is not there."""
    tensors = {tensor.name: tensor for tensor in given}
    if lacking := [name for name in request.outputs if name not in tensors]:
        raise OipError(f"outputs {lacking[0][:60]!r}: must be of {', '.join(tensors)}")
    found = [tensors[name] for name in request.outputs or tensors]
    parts = [field(1, model), field(2, version), field(3, request.id)]
    parts += [field(5, field(1, one.name) + field(2, one.datatype) + _shape(one.shape)) for one in found]
    parts += [field(6, one.packed()) for one in found]
    return framed(b"".join(parts))


def encode_metadata(name: str, version: str, about: Mapping[str, Any]) -> bytes:
    """What a model is, with its prefix."""
    parts = [field(1, name), field(2, version), field(3, about["platform"])]
    for number, tensors in ((4, about["inputs"]), (5, about["outputs"])):
        parts += [
            field(number, field(1, one["name"]) + field(2, one["datatype"]) + _shape(one["shape"])) for one in tensors
        ]
    return framed(b"".join(parts))


def _shape(shape: Sequence[int]) -> bytes:
    return field(3, b"".join(map(varint, shape)))


def _input(reader: WireReader, start: int, end: int) -> tuple[str, str, tuple[int, ...], list[Any] | None]:
    """Name, datatype, shape and typed contents of an input."""
    name, datatype, shape, contents = "", "", list[int](), None
    for number, value, at, to in reader.fields(start, end):
        if number == 1:
            name = reader.text(at, to)
        elif number == 2:
            datatype = reader.text(at, to)
        elif number == 3:
            shape += map(signed, _varints(reader, value, at, to))
        elif number == 5:
            contents = _contents(reader, at, to)
    return name, datatype, tuple(shape), contents


def _contents(reader: WireReader, start: int, end: int) -> list[Any]:
    found = list[Any]()
    for number, value, at, to in reader.fields(start, end):
        if number in _FIXED:
            kind = _FIXED[number]
            found += np.frombuffer(reader.data[at : to - (to - at) % kind.itemsize], kind).tolist()
        elif number == _TEXTS:
            found.append(bytes(reader.data[at:to]))
        else:
            found += map(_READS.get(number, int), _varints(reader, value, at, to))
    return found


def _tensor(path: str, given: tuple[str, str, tuple[int, ...], list[Any] | None], raw: memoryview | None) -> Tensor:
    name, datatype, shape, contents = given
    if datatype not in DATATYPES:
        raise OipError(f"{path}.datatype {datatype[:40]!r}: must be one of {', '.join(DATATYPES)}")
    if min(shape, default=0) < 0 or len(shape) > 32 or (raw is None) == (contents is None):
        raise OipError(f"{path}: must have a shape of sizes from 0 on, and contents or raw_input_contents")
    if raw is not None:
        return Tensor(name, datatype, shape, values_from_bytes(f"raw_{path}", datatype, shape, raw))
    return Tensor(name, datatype, shape, typed_values(f"{path}.contents", datatype, shape, contents))


def _varints(reader: WireReader, value: int, at: int, end: int) -> Iterator[int]:
    """Integers that are packed into one field, or the one that it is."""
    if value >= 0:
        yield value
        return
    while at < end:
        value, at = reader.varint(at, end)
        yield value


def _texts(reader: WireReader, wanted: int, start: int, end: int) -> Iterator[str]:
    return (reader.text(at, to) for number, _, at, to in reader.fields(start, end) if number == wanted)
