"""Text of others, made safe to show."""

from __future__ import annotations


def sanitize(text: str) -> str:
    r"""A text whose every character shows: others (ESC, a newline, what turns the direction) are written as \x1b."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
