"""Sphinx settings of the documentation; `make docs` builds it, and a warning ends the build."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pygments.lexers import TextLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]

project = "hetserve"
author = "the hetserve authors"
copyright = author  # noqa: A001  Sphinx's name
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser", "sphinxcontrib.mermaid"]
root_doc = "index"
source_suffix = {".md": "markdown"}
html_theme = "alabaster"
html_theme_options = {"description": "Planned, placed and explained model services", "page_width": "1100px"}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}

myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
nitpicky = True


def setup(app: Sphinx) -> None:
    """Shows as plain text what Pygments has no lexer for, or one that knows no placeholders (`[W]`)."""
    for language in ("csv", "promql"):
        app.add_lexer(language, TextLexer)
    app.connect("source-read", name_files_of_the_tree)


def name_files_of_the_tree(app: Sphinx, page: str, text: list[str]) -> None:
    """A link out of docs/ becomes the path of its file: the site has no such page."""
    folder = (Path(app.srcdir) / page).parent

    def named(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        outside = target.is_relative_to(ROOT) and not target.is_relative_to(app.srcdir)
        return f"{found[1]} (`{target.relative_to(ROOT)}`)" if outside else found[0]

    text[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)#\s]+)\)", named, text[0])
