"""Search methods that walk by chance: at random, by simulated annealing, by genetic search."""

from __future__ import annotations

import math
from random import Random
from typing import Final

from hetserve.planning.search.session import SearchSession

START_TEMPERATURE: Final = 0.3
"""A configuration that holds 30 % less is accepted with probability 1/e at the start."""
COOLING: Final = 0.95
_COLD: Final = 0.01
POPULATION: Final = 10
MUTATION: Final = 0.4


def random_search(session: SearchSession, seed: int) -> None:
    """Every open configuration is equally likely."""
    order = list(range(len(session.space)))
    Random(seed).shuffle(order)  # noqa: S311  reproducible, nothing secret
    for index in order:
        if session.over:
            return
        session.value(index)


def annealing(session: SearchSession, seed: int) -> None:
    """Simulated annealing (Kairos, Fig. 2).

    A step changes one instance. A worse configuration is accepted with probability exp(relative loss / temperature);
    every step multiplies the temperature by COOLING. A cold walk restarts.
    """
    source = Random(seed)  # noqa: S311  reproducible, nothing secret
    at, temperature = _restart(session, source), START_TEMPERATURE
    while not session.over:
        around = session.space.neighbours(at)
        if temperature < _COLD or not around:
            at, temperature = _restart(session, source), START_TEMPERATURE
            continue
        step = source.choice(around)
        here, there = session.value(at), session.value(step)
        loss = (there - here) / here if here > 0 else 0.0
        if loss >= 0 or source.random() < math.exp(loss / temperature):
            at = step
        temperature *= COOLING


def _restart(session: SearchSession, source: Random) -> int:
    start = int(source.choice(session.candidates.tolist()))
    session.value(start)
    return start


def genetic(session: SearchSession, seed: int) -> None:
    """Counts per type are the genes; children over the budget are repaired.

    Tournaments of two, uniform crossover, mutation by one instance; the best of parents and children survive.
    """
    source = Random(seed)  # noqa: S311  reproducible, nothing secret
    everyone = range(len(session.space))
    population = source.sample(everyone, min(POPULATION, len(session.space)))
    population = _valued(session, population)
    while not session.over:
        children = [_child(session, population, source) for _ in range(POPULATION)]
        if all(session.known(child) for child in children):
            children.append(int(source.choice(session.candidates.tolist())))
        children = _valued(session, children)
        pool = sorted({*population, *children}, key=lambda i: (-session.value(i), i))
        population = pool[:POPULATION]


def _valued(session: SearchSession, indices: list[int]) -> list[int]:
    kept = []
    for index in indices:
        if session.known(index) or not session.over:
            session.value(index)
            kept.append(index)
    return kept


def _child(session: SearchSession, population: list[int], source: Random) -> int:
    space = session.space
    mother, father = (_tournament(session, population, source) for _ in range(2))
    genes = [
        int(source.choice(pair))
        for pair in zip(space.counts[mother].tolist(), space.counts[father].tolist(), strict=True)
    ]
    if source.random() < MUTATION:
        genes[source.randrange(len(genes))] += source.choice((-1, 1))
    genes = [max(gene, 0) for gene in genes]
    index = space.find(tuple(genes))
    while index is None:
        # Repair: remove instances of random types until the space holds it, or take the mother.
        present = [i for i, gene in enumerate(genes) if gene > 0]
        if not present:
            return mother
        genes[source.choice(present)] -= 1
        index = space.find(tuple(genes))
    return index


def _tournament(session: SearchSession, population: list[int], source: Random) -> int:
    return max(source.choices(population, k=2), key=lambda i: (session.value(i), -i))
