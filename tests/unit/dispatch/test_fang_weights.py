"""Weights of a learned policy: written and read whole; what is wrong is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetserve.base.files import UnreadableError
from hetserve.dispatch.joining import make_joining_policy
from hetserve.dispatch.joining.fang_rl import why_not
from hetserve.dispatch.joining.interface import VariantModel
from hetserve.dispatch.joining.weights import Network, PolicyWeights, load_weights, read_weights, shipped_weights
from hetserve.training.reinforce import fresh
from testing.fang import FULL_AND_TINY, Times, small_system


def weights(**changes: Any) -> PolicyWeights:
    fleet = {"p2": 1}
    network = fresh(PolicyWeights.inputs_of(fleet), 5, np.random.default_rng(0), hidden=3)
    given: dict[str, Any] = {
        "fleet": fleet,
        "variants": ("full", "tiny"),
        "sizes": (1, 4),
        "seed": 7,
        "slo": 1.0,
        "hard": 2.0,
    }
    return PolicyWeights(**{**given, "network": network, **changes})


def seen(types: Mapping[str, Times]) -> VariantModel:
    system = small_system(types)
    return system.model(system.predicted)


def test_what_is_written_is_read_again() -> None:
    given = weights()
    found = read_weights(json.dumps(given.as_json()), "here")
    assert found.as_json() == given.as_json()


def _set(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = to

    return change


def _without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.pop(name)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_without("fleet"), "here: lacks fleet"),
        (_set("policy", to="slackfit"), "policy 'slackfit': must be fang-rl"),
        (_set("seed", to=-1), "seed -1: must be at least 0"),
        (_set("seed", to=True), "seed True: must be a whole number"),
        (_set("fleet", to={}), "fleet {}: need at least one instance"),
        (_set("fleet", to={"p2": 0}), r"fleet {'p2': 0}: need at least one instance"),
        (_set("fleet", to={"p2": 1.5}), "fleet.p2 1.5: must be a whole number"),
        (_set("fleet", to={"p2": 2}), r"network.inner: shape 14 x 3: must be 15 x 3"),
        (_set("fleet", to=["p2"]), r"here: fleet \['p2'\]: must be instances by type"),
        (_set("fleet", to={"p2": 10**400}), "network.inner: shape 14 x 3: must be "),
        (_set("variants", to=["full", "full"]), "variants .*: need at least one, each once"),
        (_set("variants", to=["full"]), r"network.outer: shape 3 x 5: must be 3 x 3"),
        (_set("sizes", to=[4, 1]), r"sizes \[4, 1\]: need at least one, at least 1 item, rising"),
        (_set("sizes", to=[]), r"sizes \[\]"),
        (_set("sizes", to=4), "here: sizes 4: must be a list of whole numbers"),
        (_set("sizes", to=[1, 10**400]), r"sizes \[1, 10+\.\.\.0+\]: need .* at most 1048576 items"),
        (_set("sizes", to=[1, 10**30]), r"sizes \[1, 10+\]: need .* at most 1048576 items"),
        (_set("variants", to="full"), "here: variants 'full': must be a list of names"),
        (_set("sloSeconds", to="1s"), "sloSeconds '1s': must be seconds, a number above 0"),
        (_set("sloSeconds", to=True), "sloSeconds True: must be seconds"),
        (_set("sloSeconds", to=0), "sloSeconds 0: must be seconds"),
        (_set("deadlineSeconds", to=10**400), "deadlineSeconds 10{39}: must be seconds"),
        (_set("deadlineSeconds", to=float("nan")), "deadlineSeconds nan: must be seconds"),
        (_set("deadlineSeconds", to=0.5), "sloSeconds 1.0, deadlineSeconds 0.5: must be above 0, the SLO no later"),
        (_without("sloSeconds"), "here: lacks sloSeconds"),
        (_set("network", to=3), "network lacks inner"),
        (_set("network", "outer", to=[[1.0], [2.0, 3.0]]), "network.outer: must be numbers, in rows of one length"),
        (_set("network", "outer_bias", to=["a"] * 5), "network.outer_bias: must be numbers"),
        (_set("network", "outer_bias", to=[1.0] * 4), "network.outer_bias: shape 4: must be 5"),
        (_set("network", "inner", to=5), "network.inner: shape a number: must be 14 x 1"),
        (
            _set("network", "outer_bias", 0, to=10**400),
            "network.outer_bias: a number is beyond 1.8e308: must",
        ),
        (_set("network", "inner_bias", to=1.0), "network.inner: shape 14 x 3|network.inner_bias: shape a number"),
        (_set("network", "inner_bias", 1, to=float("nan")), "network.inner_bias: nan: must be finite"),
        (_set("network", "inner_bias", 1, to=float("inf")), "network.inner_bias: inf: must be finite"),
    ],
)
def test_bad_weights_are_refused_by_field_and_value(change: Callable[[dict[str, Any]], None], named: str) -> None:
    document = copy.deepcopy(weights().as_json())
    change(document)
    with pytest.raises(ValueError, match=named):
        read_weights(json.dumps(document), "here")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"fang-rl"', "null"])
def test_what_are_no_weights_is_refused_with_the_file(text: str) -> None:
    with pytest.raises(ValueError, match=r"here: (no JSON|lacks)"):
        read_weights(text, "here")


def test_lists_without_end_are_refused_with_the_file() -> None:
    with pytest.raises(ValueError, match=r"here: no weights: lists are nested too deep; write them by hetserve train"):
        read_weights("[" * 100_000, "here")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"gone.json: cannot be read"):
        load_weights(str(tmp_path / "gone.json"))


def test_weights_say_for_what_they_were_trained() -> None:
    given, model = weights(), seen({"p2": FULL_AND_TINY})
    assert given.misfit(model, {"p2": 1}) == ""
    assert given.misfit(seen({"p2": FULL_AND_TINY, "g2": FULL_AND_TINY})) == "trained for the types p2, not p2, g2"
    alone = replace(model, variants=model.variants[1:])
    assert given.misfit(alone) == "trained for the variants full, tiny, not full"
    assert given.misfit(model, {"p2": 3}) == "trained for 1 p2, not 3 p2"
    assert given.misfit(replace(model, slo=0.5, grace=1.5)) == "trained for an SLO of 1 s, not 0.5 s"
    assert given.misfit(replace(model, grace=0.25)) == "trained for a hard deadline of 2 s, not 1.25 s"


def test_the_packages_weights_are_whole_and_of_the_papers_fleets() -> None:
    assert [dict(one.fleet) for one in shipped_weights()] == [{"p2.xlarge": 1}, {"g2.2xlarge": 5, "p2.xlarge": 5}]
    assert {(one.slo, one.hard) for one in shipped_weights()} == {(1.0, 2.0)}
    assert {one.variants for one in shipped_weights()} == {("full", "tiny")}


def test_a_fleet_without_weights_is_told_each_reason() -> None:
    assert why_not(seen({"p2": FULL_AND_TINY}), {"p2": 1}).count("trained for the types") == len(shipped_weights())


def test_of_the_packages_sets_that_of_the_same_types_says_why_not() -> None:
    assert why_not(seen({"p2.xlarge": FULL_AND_TINY}), {"p2.xlarge": 2}) == "trained for 1 p2.xlarge, not 2 p2.xlarge"


def test_the_policys_setting_is_a_file_of_weights(tmp_path: Path) -> None:
    file = tmp_path / "weights.json"
    file.write_text(json.dumps(weights().as_json()), encoding="utf-8")
    assert make_joining_policy("fang-rl", weights=str(file)).name == "fang-rl"
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"weights.json: lacks policy, seed"):
        make_joining_policy("fang-rl", weights=str(file))


def test_a_network_of_one_neuron_has_its_shape_checked() -> None:
    with pytest.raises(ValueError, match=r"network.inner: shape 2: must be 14 x 2"):
        weights(network=Network(np.zeros(2), np.zeros(2), np.zeros((2, 5)), np.zeros(5)))
