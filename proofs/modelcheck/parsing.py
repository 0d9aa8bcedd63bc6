"""Reading an object is a function of the object, and the check's own objects never change: once is enough."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hetserve.placement import PodView, parse_pod, placer
from modelcheck.truth import OWN


@contextmanager
def parsing_once() -> Iterator[None]:
    """While it lasts, the Placer reads each of the check's own pods once; answers of the API server always."""
    parse, known = parse_pod, dict[int, PodView]()

    def parse_once(raw: Any) -> PodView:
        if id(raw) not in OWN:
            return parse(raw)
        pod = known.get(id(raw))
        if pod is None:
            pod = known[id(raw)] = parse(raw)
        return pod

    setattr(placer, "parse_pod", parse_once)  # noqa: B010  (the name as the Placer imported it)
    try:
        yield
    finally:
        setattr(placer, "parse_pod", parse)  # noqa: B010
