from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    """Coverage of millions of steps tells nothing that other tests do not, and takes as long as the steps."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)
