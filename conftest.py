"""Fixtures of the control-plane harness for every test below; importing them builds and starts nothing."""

import gc
import os
import sys

from hypothesis import settings

from effort import DEEP, examples

# A busy machine is no failure, and a failing example must be the same for everybody.
settings.register_profile(
    "hetserve", deadline=None, derandomize=not DEEP, print_blob=True, max_examples=examples(300 if DEEP else 100)
)
settings.load_profile("hetserve")

# Processes that tests start compile each module anew otherwise: a second each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

pytest_plugins = ["harness.costs", "harness.tiers", "harness.fixtures", "harness.distribution"]


def pytest_collection_finish() -> None:
    """Ten thousand tests stay to the end: no garbage collection walks over them, which took a sixteenth of a run."""
    gc.collect()
    gc.freeze()
