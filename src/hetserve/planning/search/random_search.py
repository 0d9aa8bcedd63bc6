"""Random search: every open configuration is equally likely."""

from __future__ import annotations

from random import Random

from hetserve.planning.search.session import Session


def run(session: Session, seed: int) -> None:
    order = list(range(len(session.space)))
    Random(seed).shuffle(order)  # noqa: S311  reproducible, nothing secret
    for index in order:
        if session.over:
            return
        session.value(index)
