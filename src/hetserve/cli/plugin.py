"""What kubectl asks of its plugin `hetserve`: words that complete a command line."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from click.shell_completion import CompletionItem, ShellComplete

from hetserve.cli.app import app

NAME = "kubectl hetserve"


class Directive(IntEnum):
    """What kubectl's shell does beside the words, in the numbers of cobra (ShellCompDirective)."""

    FILES = 0
    NOTHING = 4
    FOLDERS = 16


def completions(arguments: Sequence[str]) -> str:
    """Lines for kubectl: a word and its help each, then the directive.

    arguments: words after `kubectl hetserve`; the last is the one to complete, perhaps empty.
    """
    *before, begun = arguments or ("",)
    found = ShellComplete(app, {}, NAME, "").get_completions(list(before), begun)
    words = [_line(item) for item in found if item.type == "plain"]
    return "\n".join([*words, f":{_directive(found)}"]) + "\n"


def _line(item: CompletionItem) -> str:
    help_ = " ".join(str(item.help or "").split())
    return f"{item.value}\t{help_}" if help_ else str(item.value)


def _directive(found: Sequence[CompletionItem]) -> int:
    types = {item.type for item in found}
    if "file" in types:
        return Directive.FILES
    return Directive.FOLDERS if "dir" in types else Directive.NOTHING
