"""Which servers are busy together: each model alone, copies of it, pairs, and sets that no fit sees."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Final

COPIES: Final = 4
SETS: Final = 16
SEED: Final = 0

Member = tuple[str, int]
"""Model and batch."""
Run = tuple[Member, ...]
"""Those that are busy at the same time."""


def runs(batches: dict[str, tuple[int, ...]]) -> list[Run]:
    """batches: by model, the smallest first. What is alone is measured again at the end: clocks and heat drift."""
    alone = [((model, batch),) for model, sizes in batches.items() for batch in sizes]
    ends = [(model, size) for model, sizes in batches.items() for size in (sizes[0], sizes[-1])]
    copies = [(one,) * count for one in ends for count in range(2, COPIES + 1)]
    pairs = [pair for pair in itertools.combinations(ends, 2) if pair[0][0] != pair[1][0]]
    again: list[Run] = [(one,) for one in ends]
    return [*alone, *copies, *pairs, *_sets(list(batches), ends), *again]


def _sets(models: list[str], ends: list[Member]) -> Iterator[Run]:
    """Three or four different models, each small or large, drawn without repetition."""
    draw, seen = random.Random(SEED), set[Run]()  # noqa: S311
    small = dict(reversed(ends))
    for size in (3, 4):
        for chosen in itertools.combinations(models, size):
            seen.add(tuple((model, small[model]) for model in chosen))
    while len(seen) < SETS:
        drawn = sorted(draw.sample(models, draw.choice((3, 4))), key=models.index)
        seen.add(tuple(draw.choice([end for end in ends if end[0] == model]) for model in drawn))
    return iter(sorted(seen, key=lambda run: (len(run), run)))
