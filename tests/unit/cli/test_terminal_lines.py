"""Labels of a block share one column and stay unbroken."""

from __future__ import annotations

import pytest

from hetserve.cli.output.terminal import Block, text_of

LONG = "text " * 40


@pytest.mark.parametrize("label", ["asks", "scheduler", "not judged", "released within"])
def test_a_label_is_never_broken_and_all_texts_of_a_block_begin_together(label: str) -> None:
    text = text_of([Block("pod default/p", (("state", "waits"), (label, LONG), ("refused", "no")))])
    _, state, labelled, *more, refused = text.splitlines()
    begins = state.index("waits")
    assert labelled.startswith(f"  {label} ")
    assert labelled.index("text") == begins
    assert refused.index("no") == begins
    assert all(line[:begins].isspace() for line in more)


def test_a_block_without_lines_is_its_title() -> None:
    assert text_of([Block("Queues", ())]) == "Queues\n"
