"""The engine beside its plain reference: the same outcome of every query, whatever happens while a run goes on."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from effort import examples
from testing.plain_serving import PlainServing
from testing.serving_stories import EVERY, FATES, Player, Story, stories


@settings(max_examples=examples(240))
@given(stories(*EVERY))
def test_the_engine_serves_every_query_as_its_plain_reference(story: Story) -> None:
    engine, plain = Player.of(story), Player.of(story, PlainServing)
    np.testing.assert_allclose(engine.log, plain.log, rtol=0, atol=1e-9)
    assert engine.ended == plain.ended
    assert engine.fates.keys() == plain.fates.keys()
    for k, name in enumerate(FATES):
        one, other = ([fates[k] for fates in each.fates.values()] for each in (engine, plain))
        np.testing.assert_allclose(one, other, rtol=0, atol=0 if name == "instance" else 1e-9, err_msg=name)
