"""Tiers: `make test` runs what is not deep; `make test-deep` what is, and each law with many examples.

The marker `deep` says the tier of a test. A law of hypothesis is marked `law` here: the tier says how many examples it
tries (`effort.examples`). Limits of tests grow with the machine's slowness.
"""

from __future__ import annotations

import pytest

from effort import DEEP
from harness import limits


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks laws, and gives each test without a limit of its own the usual one; a law of many examples the longest."""
    for item in items:
        law = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if law:
            item.add_marker(pytest.mark.law)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(limits.LONGEST_TEST if law and DEEP else limits.TEST))
