"""On which event loops the tests of the kit run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The probes on both: the operator runs on asyncio's, the extender on uvloop, whose transports differ."""
    both = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return both if item.path.name == "test_probes.py" else {"asyncio": asyncio.new_event_loop}
