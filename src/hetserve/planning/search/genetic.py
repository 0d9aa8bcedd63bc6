"""Genetic search: counts per type are the genes; children over the budget are repaired.

Tournaments of two, uniform crossover, mutation by one instance; the best of parents and children survive. A brood
without a new configuration gets a random one.
"""

from __future__ import annotations

from random import Random
from typing import Final

from hetserve.planning.search.session import Session

POPULATION: Final = 10
MUTATION: Final = 0.4


def run(session: Session, seed: int) -> None:
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


def _valued(session: Session, indices: list[int]) -> list[int]:
    """Configurations with a known value, within the session's limit."""
    kept = []
    for index in indices:
        if session.known(index) or not session.over:
            session.value(index)
            kept.append(index)
    return kept


def _child(session: Session, population: list[int], source: Random) -> int:
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


def _tournament(session: Session, population: list[int], source: Random) -> int:
    return max(source.choices(population, k=2), key=lambda i: (session.value(i), -i))
