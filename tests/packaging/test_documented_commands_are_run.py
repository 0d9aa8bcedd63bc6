"""Every command that a page shows in a block of code is run by one test, or says why by none."""

from __future__ import annotations

import re

from documented import PAGES, ROOT, commands
from documented_commands import CLASSES, FIRST_HOUR, NOT_RUN, amiss, in_the_docs

FIRST_PAGE = ROOT / "docs" / "getting-started.md"


def test_every_command_of_the_pages_is_in_one_class_and_nothing_else_is() -> None:
    assert amiss(in_the_docs(), CLASSES) == []


def test_a_new_command_a_row_without_a_page_and_a_row_in_two_classes_are_named() -> None:
    new, gone, twice = amiss(
        {"hetserve new": ["a.md", "b.md"], "make x": ["a.md"]}, {"t": ["make x", "old"], "u": ["make x"]}
    )
    assert new.startswith("a.md, b.md shows `hetserve new`, and no test runs it: add it to the first class of ")
    assert gone.startswith("no page shows `old`: take it out of ")
    assert twice == "`make x` is in 2 classes: keep one"


def test_the_tests_that_run_them_exist_and_what_none_runs_has_a_reason() -> None:
    assert [path for path in CLASSES if path != "nowhere" and not (ROOT / path).is_file()] == []
    assert [command for command, reason in NOT_RUN.items() if len(reason) < 10] == []


def test_the_first_hour_runs_all_that_its_page_shows() -> None:
    text = FIRST_PAGE.read_text(encoding="utf-8")
    run = "".join(re.findall(r"^```sh\n.*?^```$\n", text, re.DOTALL | re.MULTILINE))
    assert set(commands(text)) == set(commands(run)) == set(FIRST_HOUR)


def test_commands_are_found_in_blocks_of_every_kind() -> None:
    text = (
        "prose `kubectl get x`\n\n```sh\nA=1 thing \\\n  --b  # why\n# alone\n```\n\n"
        "1. item:\n\n   ```text\n   helm list -A\n   output\n   ```\n\n"
        "```\n$ hetserve gpus | less\nhetserve 1.0 said this\n```\n\n"
        "    kubectl annotate node n a='[\n      {}]'\n    a formula = b\n\n```yaml\nmake: x\n```\n"
    )
    assert list(commands(text)) == [
        "A=1 thing --b",
        "helm list -A",
        "hetserve gpus | less",
        "kubectl annotate node n a='[ {}]'",
    ]
    assert sum(len(list(commands(page.read_text(encoding="utf-8")))) for page in PAGES) > 80
