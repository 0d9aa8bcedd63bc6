"""Tiers: `make test` runs what is not deep; `make test-deep` what is, and each law with many examples.

The marker `deep` says the tier of a test. A law of hypothesis is marked `law` here: the tier says how many examples it
tries (`effort.examples`). Limits of tests grow with the machine's slowness.
"""

from __future__ import annotations

import pytest

from harness import limits


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks laws, and gives each test without a limit of its own the usual one."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.law)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(limits.TEST))
