"""The collector stays out of lists, and comes back; freed memory is kept."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import subprocess
import sys
from typing import Any

import pytest

from harness import limits
from hetserve_shell.kube.connection import RawObject
from hetserve_shell.kube.informer import Reflector
from hetserve_shell.tasks import garbage
from testing.cluster import gpu_node
from testing.kit.apiserver import FakeApiServer


@pytest.mark.parametrize("was_on", [True, False])
def test_a_pause_ends_as_it_began_even_by_an_error(was_on: bool) -> None:
    try:
        (gc.enable if was_on else gc.disable)()
        inside = contextlib.ExitStack()
        inside.enter_context(garbage.paused())
        assert not gc.isenabled()
        inside.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        assert gc.isenabled() is was_on
    finally:
        gc.enable()


async def test_a_list_is_read_without_a_collection_and_walked_over_by_none_later() -> None:
    api, seen = FakeApiServer(), list[bool]()
    for number in range(200):
        api.add(gpu_node(f"n{number}"))

    class EventHandler:
        def replace(self, objects: Any) -> None:
            seen.append(gc.isenabled())
            self.known = [[item] for item in objects]

        def apply(self, event: str, raw: Any) -> None:
            raise NotImplementedError

    def reduce(raw: RawObject) -> RawObject:
        seen.append(gc.isenabled())
        return raw

    gc.unfreeze()
    reflector = Reflector(api, "/api/v1/nodes", EventHandler(), reduce=reduce)
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(limits.ANSWER):
        await reflector.relist()
    task.cancel()
    await asyncio.wait([task])
    try:
        assert set(seen) == {False}
        assert gc.isenabled()
        assert gc.get_freeze_count() >= 200
    finally:
        gc.unfreeze()


@pytest.mark.deep
async def test_of_a_list_that_comes_while_verbs_are_served_no_collection_walks_over_the_pages_so_far() -> None:
    api, frozen = FakeApiServer(), list[int]()
    for number in range(200):
        api.add(gpu_node(f"n{number}"))

    class EventHandler:
        def replace(self, objects: Any) -> None:
            frozen.clear()
            self.known = list(objects)

        def apply(self, event: str, raw: Any) -> None:
            raise NotImplementedError

    def reduce(raw: RawObject) -> RawObject:
        frozen.append(gc.get_freeze_count())
        if len(frozen) == 200:
            spans.append(frozen[-1] - frozen[0])
        return dict(raw)

    spans = list[int]()
    reflector = Reflector(api, "/api/v1/nodes", EventHandler(), reduce=reduce)
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()  # for as long as a collection of all that other tests have left takes
    gc.unfreeze()
    await reflector.relist()
    task.cancel()
    await asyncio.wait([task])
    gc.unfreeze()
    assert len(spans) == 2
    assert spans[0] <= 0, "before the first list is known nobody waits, and what the start leaves is collected"
    assert spans[1] >= 150


FAULTS = """
import resource
from hetserve_shell.tasks import garbage
garbage.keep_freed()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bodies = [bytearray(600_000) for _ in range(8)]
before = faults()
for _ in range(500):
    bodies.clear()
    bodies += [bytearray(600_000) for _ in range(8)]
print(faults() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library than glibc")
def test_large_bodies_take_the_memory_of_those_before_them() -> None:
    """Page faults, by the process: eight bodies of 600 kB lie beside each other, again and again."""
    found = subprocess.run(
        [sys.executable, "-c", FAULTS], check=True, capture_output=True, text=True, timeout=limits.COMMAND
    )
    assert int(found.stdout) < 1_000, "each of 4,000 bodies has 147 pages"
