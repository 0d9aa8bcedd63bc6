"""Bodies of the Open Inference Protocol v2 over HTTP: JSON, and its extension of binary tensors.

The data of a tensor stays flat, in row-major order. What a client says of a shape is compared with what it sent, and
nothing is allocated by it.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hetserve_shell.http.takers import Headers

INFERENCE_HEADER: Final = b"inference-header-content-length"
"""Says how many bytes of JSON come before binary tensors, in requests and answers."""
DATATYPES: Final = {
    "BOOL": np.dtype("?"),
    **{f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
    "BYTES": np.dtype("O"),
}
_VALUES: Final[Mapping[str, set[type]]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}, "O": {str, bytes}}
"""Types of values that are not in binary form, by the kind of their array."""


class OipError(ValueError):
    """A request that is not served; names the field, its value, and what would be right."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """data: flat; of BYTES an array of bytes objects."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: NDArray[Any]

    def packed(self) -> bytes:
        """In binary form."""
        if self.data.dtype.kind == "O":
            return b"".join(len(text).to_bytes(4, "little") + text for text in self.data)
        return self.data.tobytes()


@dataclass(frozen=True, slots=True)
class InferRequest:
    """outputs: those that are asked for, and whether in binary form; empty: all, as `binary` says."""

    id: str
    inputs: tuple[Tensor, ...]
    outputs: Mapping[str, bool]
    binary: bool

    @property
    def items(self) -> int:
        """Items of the query: the first dimension of its first input; 1 where it has none."""
        return next(iter(self.inputs[0].shape), 1)


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _Parameters(_Part):
    binary_data_size: Annotated[int, Field(ge=0)] | None = None
    binary_data: bool | None = None
    binary_data_output: bool = False


class _Output(_Part):
    name: str
    parameters: _Parameters = _Parameters()


class _Input(_Output):
    datatype: str
    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=32)]
    data: Any = None


class _Body(_Part):
    id: str = ""
    inputs: Annotated[list[_Input], Field(min_length=1, max_length=256)]
    outputs: Annotated[list[_Output], Field(max_length=256)] = []
    parameters: _Parameters = _Parameters()


def parse_request(body: bytes | bytearray, json_bytes: bytes = b"") -> InferRequest:
    """The request of a body. json_bytes: value of its INFERENCE_HEADER, empty without one. Raises OipError."""
    whole = memoryview(body)
    if json_bytes and not (len(json_bytes) < 20 and json_bytes.isdigit() and int(json_bytes) <= len(whole)):
        right = f"must be the bytes of JSON, at most the {len(whole)} of the body"
        raise OipError(f"{INFERENCE_HEADER.decode()} {json_bytes[:40].decode('latin-1')!r}: {right}")
    size = int(json_bytes or len(whole))
    try:
        given = _Body.model_validate(orjson.loads(whole[:size]))
    except orjson.JSONDecodeError as error:
        raise OipError(f"body: {error}; must be JSON, as long as {INFERENCE_HEADER.decode()} says") from None
    except ValidationError as error:
        raise OipError("; ".join(_line(item) for item in error.errors()[:5])) from None
    names = [one.name for one in given.inputs]
    if len(set(names)) < len(names):
        raise OipError(f"inputs {reprlib.repr(names)}: must have names of their own")
    inputs, behind = [], whole[size:]
    for number, one in enumerate(given.inputs):
        tensor, behind = _tensor(f"inputs.{number}", one, behind)
        inputs.append(tensor)
    if behind:
        raise OipError(f"body: {len(behind)} bytes are left behind the inputs; binary_data_size must count them all")
    binary = given.parameters.binary_data_output
    asked = {one.name: one.parameters.binary_data for one in given.outputs}
    outputs = {name: binary if said is None else said for name, said in asked.items()}
    return InferRequest(given.id, tuple(inputs), outputs, binary)


def _line(item: Any) -> str:
    where = ".".join(map(str, item["loc"])) or "body"
    return f"{where} {reprlib.repr(item['input'])}: {item['msg']}"


def encode_answer(model: str, version: str, request: InferRequest, given: Sequence[Tensor]) -> tuple[Headers, bytes]:
    """Headers and body with the outputs that are asked for. Raises OipError for one that is not there."""
    tensors, blocks, described = {tensor.name: tensor for tensor in given}, [], []
    for name, binary in (request.outputs or dict.fromkeys(tensors, request.binary)).items():
        if name not in tensors:
            raise OipError(f"outputs {reprlib.repr(name)}: must be of {', '.join(tensors)}")
        tensor = tensors[name]
        entry: dict[str, Any] = {"name": name, "datatype": tensor.datatype, "shape": tensor.shape}
        if binary:
            blocks.append(tensor.packed())
            entry["parameters"] = {"binary_data_size": len(blocks[-1])}
        else:
            entry["data"] = _listed(tensor)
        described.append(entry)
    named = {"model_name": model, "model_version": version, **({"id": request.id} if request.id else {})}
    text = orjson.dumps({**named, "outputs": described}, option=orjson.OPT_SERIALIZE_NUMPY)
    if not blocks:
        return [(b"content-type", b"application/json")], text
    headers = [(b"content-type", b"application/octet-stream"), (INFERENCE_HEADER, b"%d" % len(text))]
    return headers, b"".join((text, *blocks))


def _tensor(path: str, given: _Input, behind: memoryview) -> tuple[Tensor, memoryview]:
    """The tensor of an input, and what it leaves of the binary data behind the JSON."""
    size, shape, datatype = given.parameters.binary_data_size, tuple(given.shape), given.datatype
    if datatype not in DATATYPES:
        raise OipError(f"{path}.datatype {reprlib.repr(datatype)}: must be one of {', '.join(DATATYPES)}")
    if (size is None) == (given.data is None):
        raise OipError(f"{path}: must have data, or parameters.binary_data_size, and not both")
    if size is None:
        return Tensor(given.name, datatype, shape, typed_values(f"{path}.data", datatype, shape, given.data)), behind
    where = f"{path}.parameters.binary_data_size {size}"
    if size > len(behind):
        raise OipError(f"{where}: must be at most the {len(behind)} bytes that are left behind the JSON")
    return Tensor(given.name, datatype, shape, values_from_bytes(where, datatype, shape, behind[:size])), behind[size:]


def typed_values(path: str, datatype: str, shape: tuple[int, ...], given: Any) -> NDArray[Any]:
    """Data of a tensor from values that are flat, or nested as the shape says. Raises OipError, which names `path`."""
    dtype, found = DATATYPES[datatype], np.array(given, object)
    if found.shape not in {shape, (math.prod(shape),)}:
        raise OipError(f"{path} {reprlib.repr(given)}: must be {math.prod(shape)} values, as shape {list(shape)} says")
    values = found.ravel().tolist()
    if not _VALUES[dtype.kind].issuperset(map(type, values)):
        raise OipError(f"{path} {reprlib.repr(given)}: must be values of {datatype}")
    try:
        with np.errstate(over="raise"):
            return np.array([v.encode() if isinstance(v, str) else v for v in values], dtype)
    except (OverflowError, FloatingPointError) as error:
        raise OipError(f"{path}: {error}; must fit {datatype}") from None


def values_from_bytes(where: str, datatype: str, shape: tuple[int, ...], raw: memoryview) -> NDArray[Any]:
    """Data of a tensor in binary form. where: what is named by an error. Raises OipError."""
    dtype, count = DATATYPES[datatype], math.prod(shape)
    if dtype.kind == "O":
        return np.array(_texts(where, raw, count), dtype)
    if len(raw) != count * dtype.itemsize or (dtype.kind == "b" and (np.frombuffer(raw, np.uint8) > 1).any()):
        right = f"must be {count * dtype.itemsize} bytes, for shape {list(shape)}"
        raise OipError(f"{where}: {right} of {datatype}{', each 0 or 1' if dtype.kind == 'b' else ''}")
    return np.require(np.frombuffer(raw, dtype), requirements="A")


def _texts(where: str, raw: memoryview, count: int) -> list[bytes]:
    """Texts, each behind its length in four bytes, the lowest first."""
    found, at = list[bytes](), 0
    while at < len(raw):
        begin, at = at + 4, at + 4 + int.from_bytes(raw[at : at + 4], "little")
        found.append(bytes(raw[begin:at]))
    if at > len(raw) or len(found) != count:
        raise OipError(f"{where}: must be {count} texts, as the shape says; these are {len(found)} of {at} bytes")
    return found


def _listed(tensor: Tensor) -> Any:
    """Data as JSON has it. Raises OipError where it has none."""
    if tensor.data.dtype.kind == "f" and not np.isfinite(tensor.data).all():
        raise OipError(f"outputs {reprlib.repr(tensor.name)}: is not finite, as JSON must be; ask for binary_data")
    if tensor.data.dtype.kind != "O":
        return tensor.data
    try:
        return [value.decode() for value in tensor.data]
    except UnicodeDecodeError:
        raise OipError(f"outputs {reprlib.repr(tensor.name)}: is no text; ask for binary_data") from None
