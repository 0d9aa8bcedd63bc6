"""Joined queries in the engine beside the plain reference: the same outcome, whatever happens while a run goes on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from effort import examples
from hetserve.registry.joining_policies import JOINING_POLICIES
from testing.joining import FATES, JoiningStory, fates, joining_stories, policies, told
from testing.plain_joining import REFERENCES, USABLE
from testing.plain_serving import PlainServing


def test_every_joining_policy_has_a_reference() -> None:
    assert set(REFERENCES) == set(USABLE) == {policy.name for policy in policies()}
    assert set(REFERENCES) == set(JOINING_POLICIES.names)


@pytest.mark.parametrize("name", REFERENCES)
def test_each_policy_serves_as_its_plain_reference(name: str) -> None:
    @settings(max_examples=examples(300))
    @given(joining_stories(*(policy for policy in policies() if policy.name == name)))
    def serves(story: JoiningStory) -> None:
        engine, plain = told(story), told(story, PlainServing)
        one, other = fates(engine), fates(plain)
        for fate in FATES:
            np.testing.assert_allclose(one[fate], other[fate], rtol=0, atol=1e-9, err_msg=fate)

    serves()
