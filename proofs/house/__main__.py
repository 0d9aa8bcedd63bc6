"""Measures the house and prints a Markdown table: one column for the tree before, one for the tree now.

Below the table are lists, of the tree now, that name what the table counts. The checkout is only read: a revision is
unpacked into a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from house.measure import House, measure
from house.table import lists, table
from house.tree import RevisionError, is_ancestor, opened

ROOT: Final = Path(__file__).parents[2]
BASELINE: Final = "1355a98"
"""The last commit before registries, nested packages and the kit."""
NONE: Final = "none"
NOW: Final = "now"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    before = options.before or (BASELINE if is_ancestor(BASELINE, ROOT) else NONE)
    try:
        houses = {f"before ({before})": _measured(before)} if before != NONE else {}
        houses[NOW] = _measured(options.tree)
    except RevisionError as error:
        parser.error(str(error))
    except SyntaxError as error:
        parser.error(f"{error.filename}:{error.lineno}: {error.msg}")
    if options.json:
        print(json.dumps({name: asdict(house) for name, house in houses.items()}, indent=2))
        return 0
    print(table(houses))
    for line in lists(houses[NOW], options.most, options.files):
        print(line)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="house", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", nargs="?", default=str(ROOT), help="folder or git revision (default: this checkout)")
    parser.add_argument(
        "--before",
        metavar="REV",
        help=f"folder or git revision to compare with, or {NONE} (default: {BASELINE} if the history holds it)",
    )
    parser.add_argument("--json", action="store_true", help="print all measures and every list as JSON")
    parser.add_argument("--files", action="store_true", help="list the files that adding each thing touches, too")
    parser.add_argument("--most", type=int, default=5, metavar="N", help="entries of each list (default: %(default)s)")
    return parser


def _measured(name: str) -> House:
    with opened(name, ROOT) as tree:
        return measure(tree)


if __name__ == "__main__":
    sys.exit(main())
