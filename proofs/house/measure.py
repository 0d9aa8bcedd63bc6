"""All measures of one tree."""

from __future__ import annotations

from dataclasses import dataclass

from house.extension import Extension, extensions
from house.imports import circles, imports_of
from house.names import Access, private_accesses, shared_class_names
from house.prose import Page, Prose, pages_of, prose_of
from house.repeats import Repeat, repeats
from house.sizes import Size, Spread, folders, function_lines, module_lines, size_of
from house.tree import PRODUCT, ROOTS, Tree


@dataclass(frozen=True, slots=True)
class House:
    """`folders` to `repeats` are of the product, `circles` of all Python."""

    sizes: dict[str, Size]
    folders: dict[str, int]
    modules: Spread
    functions: Spread
    prose: Prose
    shared_class_names: dict[str, list[str]]
    repeats: list[Repeat]
    circles: list[tuple[str, ...]]
    extensions: dict[str, Extension]
    private_accesses: list[Access]
    guides: tuple[Page, ...]
    decisions: tuple[Page, ...]


def measure(tree: Tree) -> House:
    product = tree.product
    return House(
        sizes={root: size_of(tree.below(root)) for root in ROOTS},
        folders=folders(product),
        modules=module_lines(product),
        functions=function_lines(product),
        prose=prose_of(product),
        shared_class_names=shared_class_names(product),
        repeats=repeats(product),
        circles=circles(imports_of(tree.sources)),
        extensions=extensions(tree),
        private_accesses=private_accesses(tree.below("tests", "e2e"), tree.below(*PRODUCT, "proofs/modelcheck")),
        guides=pages_of(tree.folder / "docs"),
        decisions=pages_of(tree.folder / "docs" / "decisions"),
    )
