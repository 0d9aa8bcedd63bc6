"""What a router reads of a message of gRPC, without decoding tensors."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve_router.inference import InferenceFacts, read_message, read_name
from hetserve_shell.http.grpc import WireReader, field, framed, http_status, refusal, signed, varint
from hetserve_shell.http.limits import HttpError
from rpc_clients import message

LARGEST = 2**63 - 1


def read(body: bytes, items: bytes = b"", timeout: bytes = b"") -> InferenceFacts:
    return read_message(body, items, timeout)[1]


@pytest.mark.parametrize(("shape", "items"), [((32, 4), 32), ((), 1), ((300,), 300)])
def test_a_query_has_as_many_items_as_the_first_dimension_of_its_first_input(
    shape: tuple[int, ...], items: int
) -> None:
    assert read_message(message("rm2", *shape, raw=b"\xff" * 1000), b"", b"") == ("rm2", InferenceFacts(items))


def test_of_several_inputs_the_first_counts_and_dimensions_may_stand_alone() -> None:
    inputs = field(5, field(3, 7) + field(3, 9)) + field(5, field(3, varint(2)))
    assert read(framed(field(1, "m") + inputs)).items == 7


def test_metadata_overrides_what_the_shape_says() -> None:
    assert read(message("rm2", 32), b"5").items == 5


@pytest.mark.parametrize(
    ("parameter", "metadata", "seconds"),
    [
        (0, b"", None),
        (1_500_000, b"", 1.5),
        (0, b"2S", 2.0),
        (1_500_000, b"2S", 1.5),
        (3_000_000, b"2S", 2.0),
        (0, b"5m", 0.005),
        (0, b"1H", 3600.0),
        (0, b"0n", 0.0),
        (1_500_000, b"0n", 0.0),
    ],
)
def test_the_least_of_the_limits_counts(parameter: int, metadata: bytes, seconds: float | None) -> None:
    assert read(message("rm2", 1, timeout=parameter), b"", metadata).timeout == seconds


@pytest.mark.parametrize(("value", "is_one"), [(0, False), (3, True), ("", False), ("a", True)])
def test_a_query_of_a_sequence_is_known(value: int | str, is_one: bool) -> None:
    assert read(message("rm2", 1, sequence_id=value)).in_sequence is is_one


def test_other_parameters_are_jumped_over() -> None:
    assert read(message("rm2", 2, priority=7, name="x")) == InferenceFacts(2)


def test_the_name_of_a_model_is_field_one() -> None:
    assert (read_name(framed(field(1, "a") + field(2, "1"))), read_name(framed(b""))) == ("a", "")


@given(st.binary(max_size=300))
def test_whatever_comes_is_read_or_refused(body: bytes) -> None:
    with suppress(HttpError):
        read(framed(body))


@given(st.integers(-LARGEST - 1, LARGEST))
def test_an_integer_is_read_as_it_was_written(value: int) -> None:
    written = varint(value)
    assert WireReader(written).varint(0, len(written)) == (value & (2**64 - 1), len(written))
    assert signed(value & (2**64 - 1)) == value


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503, 504])
def test_a_status_of_http_comes_back_from_grpc(status: int) -> None:
    _, headers, body = refusal(HttpError(HTTPStatus(status), "50% of é"))
    assert (http_status(headers), body) == (status, b"")
    assert dict(headers)[b"grpc-message"] == b"50%25 of %C3%A9"


def test_a_status_that_is_missing_or_unknown_is_an_error() -> None:
    assert http_status([]) == http_status([(b"grpc-status", b"99")]) == http_status([(b"grpc-status", b"x")]) == 500
    assert http_status([(b"grpc-status", b"0")]) == 200
