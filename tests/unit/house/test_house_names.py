"""Class names that mean two things, and private names that tests use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from house.names import private_accesses, shared_class_names
from house.tree import Tree

Written = Callable[[Mapping[str, str]], Tree]
PRODUCT = """
    import os as _os

    _LIMIT = 3

    def _helper():
        _local = 1

    class Store:
        _kept: int

        def __init__(self):
            self._index, self.open = {}, 1

        def _tidy(self): ...
"""


def test_a_class_name_that_is_defined_twice_is_listed_with_its_modules(written: Written) -> None:
    tree = written(
        {
            "src/p/a.py": "class Outcome: ...\nclass Alone: ...",
            "src/p/b.py": "def f():\n    class Outcome: ...",
            "operator/o/c.py": "class Alone2: ...",
        }
    )

    assert shared_class_names(tree.product) == {"Outcome": ["p.a", "p.b"]}


@pytest.mark.parametrize(
    ("test", "names"),
    [
        ("from p.store import _LIMIT, Store", ["_LIMIT"]),
        ("from p import _private_module", ["_private_module"]),
        ("store._index.clear()", ["_index"]),
        ("store._kept = 3", ["_kept"]),
        ("store._tidy()\nstore._tidy()", ["_tidy", "_tidy"]),
        ("module._helper()", ["_helper"]),
        ("monkeypatch.setattr(store, '_LIMIT', 2)", ["_LIMIT"]),
        ("monkeypatch.setattr('p.store._LIMIT', 2)", ["_LIMIT"]),
        ("getattr(store, '_index')", ["_index"]),
        ("store.open\nstore.__init__()", []),
        ("_index = 1\nprint(_index, '_index')", []),
        ("other._local, other._unknown, other._os", []),
        ("from helpers import _helper", []),
        ("class Fake:\n    def __init__(self): self._index = 1\nFake()._index", []),
        ("class Fake(Scene):\n    def look(self): return self._kept", []),
        ("scene._kept", ["_kept"]),
    ],
)
def test_tests_that_use_private_names_of_the_product_are_found(written: Written, test: str, names: list[str]) -> None:
    tree = written(
        {
            "src/p/store.py": PRODUCT,
            "tests/support/scene.py": "class Scene:\n    _kept = 1",
            "tests/test_a.py": test,
        }
    )

    found = private_accesses(tree.below("tests"), tree.product)

    assert [access.name for access in found] == names
    assert all(access.place.startswith("tests/test_a.py:") for access in found)
