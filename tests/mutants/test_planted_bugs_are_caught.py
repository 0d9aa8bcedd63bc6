"""The net that catches bugs is itself tried out; `make mutants` tries it with all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from effort import spread
from mutants.catalogue import MUTANTS, QUICK
from mutants.changes import Insert
from mutants.mutant import Mutant
from mutants.planting import planted_module
from mutants.trial import ROOT, try_out


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_still_has_its_place_in_the_source(mutant: Mutant) -> None:
    path, module = planted_module(mutant, ROOT)

    compile(module, path, "exec")
    assert f"def {mutant.test}(" in text_of(mutant.file)


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text()


@pytest.mark.deep
@pytest.mark.parametrize("mutant", spread(QUICK, 2), ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught_by_the_test_that_it_names(mutant: Mutant) -> None:
    result = try_out(mutant)

    assert result.caught, f"{mutant.node} passes although {mutant.name}: {result.words}"


@pytest.mark.deep
def test_a_bug_whose_code_cannot_run_is_not_caught_by_the_test_that_it_breaks() -> None:
    result = try_out(replace(QUICK[0], change=Insert("self.nothing_of_this_name()")))

    assert not result.caught
    assert "AttributeError" in result.words


def test_every_mutant_has_a_name_of_its_own() -> None:
    assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1
