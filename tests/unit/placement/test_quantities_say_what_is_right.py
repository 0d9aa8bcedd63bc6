"""A quantity that is too much is answered with what would be right."""

from __future__ import annotations

import pytest

from hetserve.placement.pods.view import parse_pod
from testing.cluster import gpu_pod

WRITTEN = {
    "gibibytes": ("16Gi", "hetserve.io/gpu-memory: 16Gi is too much; it counts MiB: write 16384"),
    "megabytes": ("16000M", "hetserve.io/gpu-memory: 16000M is too much; it counts MiB: write 15259"),
    "a number beyond any GPU": (
        "200000000",
        "hetserve.io/gpu-memory: 200000000 is too much; it counts MiB, at most 134217728",
    ),
}


@pytest.mark.parametrize(("quantity", "words"), WRITTEN.values(), ids=WRITTEN)
def test_a_quantity_in_another_unit_is_answered_with_the_number_to_write(quantity: str, words: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        parse_pod(gpu_pod(memory_mib=quantity))
    assert str(error.value) == words
