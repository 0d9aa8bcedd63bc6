from __future__ import annotations

import pytest

from hetserve.api.model_profile import ModelProfile
from hetserve.profiles.sharing import compute_share
from hetserve.serving.services import Neighbour, compute_use
from testing import builders


def test_shares_and_factors_come_from_the_profile() -> None:
    entries = [("two", 16, "1.1"), ("two", 4, "1.1"), ("three", 8, "1.15")]
    measured = {
        "spec.computeShare": "0.55",
        "spec.sharingMode": "MPS",
        "spec.interference": [{"model": model, "batch": batch, "factor": factor} for model, batch, factor in entries],
    }
    found = compute_share(ModelProfile.model_validate(builders.model_profile(overrides=measured)).spec)
    assert found is not None
    one, two, far = (
        Neighbour("a/one", "a", "one", 4),
        Neighbour("a/two", "a", "two", 16),
        Neighbour("b/3", "b", "three", 64),
    )
    use = compute_use(found, one, [one, two, far])
    assert use.share == 0.55
    # At batches 4 and 4 the scaling is 0.5; a model of another namespace is not the one that is named.
    assert use.on("a/two") == pytest.approx(0.1 / 0.5)
    assert use.on("b/3") == pytest.approx(0.15 / 2)
