"""Import circles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import grimp
import pytest

from house.imports import circles, imports_of, module_name
from house.tree import Tree, read

Written = Callable[[Mapping[str, str]], Tree]
ROOT = Path(__file__).parents[3]
PACKAGES = ("hetserve", "hetserve_operator", "hetserve_extender", "hetserve_shell", "hetserve_twin")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/acme/plan/__init__.py", "acme.plan"),
        ("src/acme/plan/deep/a.py", "acme.plan.deep.a"),
        ("operator/acme_operator/a.py", "acme_operator.a"),
        ("tests/support/a.py", "a"),
        ("benchmarks/kairos/a.py", "benchmarks.kairos.a"),
    ],
)
def test_a_module_is_named_from_the_folder_that_is_on_the_path(path: str, name: str) -> None:
    assert module_name(path) == name


def test_imports_in_functions_and_for_types_close_a_circle(written: Written) -> None:
    tree = written(
        {
            "src/acme/a.py": "from acme import b",
            "src/acme/b.py": "def late():\n    import acme.c",
            "src/acme/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from acme.a import A",
            "src/acme/outside.py": "import acme.a, os",
            "operator/shell/x.py": "import shell.y",
            "operator/shell/y.py": "import shell.x",
        }
    )

    assert circles(imports_of(tree.sources)) == [("acme.a", "acme.b", "acme.c"), ("shell.x", "shell.y")]


def test_a_chain_and_an_import_of_itself_are_no_circle(written: Written) -> None:
    tree = written({"src/p/a.py": "import p.b", "src/p/b.py": "import p.c", "src/p/c.py": "import p.c"})

    assert circles(imports_of(tree.sources)) == []


def test_a_name_of_a_package_is_its_module_or_else_the_package(written: Written) -> None:
    tree = written({"src/p/__init__.py": "LIMIT = 1", "src/p/a.py": "from p import LIMIT, b", "src/p/b.py": ""})

    assert imports_of(tree.sources)["p.a"] == {"p", "p.b"}


def test_relative_imports_start_at_the_package(written: Written) -> None:
    tree = written(
        {
            "src/p/__init__.py": "from .a import x",
            "src/p/a.py": "",
            "src/p/q/__init__.py": "from ..a import x",
            "src/p/q/b.py": "from . import c\nfrom .. import a",
            "src/p/q/c.py": "",
        }
    )

    assert imports_of(tree.sources) == {
        "p": {"p.a"},
        "p.a": set(),
        "p.q": {"p.a"},
        "p.q.b": {"p.a", "p.q.c"},
        "p.q.c": set(),
    }


@pytest.mark.deep
def test_the_product_imports_what_import_linter_sees() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)

    found = imports_of(read(ROOT).product)

    assert found == {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
