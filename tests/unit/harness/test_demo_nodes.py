"""The demo has nodes enough for the plans of the samples: 20 T4s for four models with at most 8 instances each.

Two instances fill a GPU's compute and no model is twice on it. A pod of a model with 7 instances placed has at least 13
GPUs without it; the 24 pods of the other models fill 12 of them at most.
"""

from __future__ import annotations

from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from harness.components import ROOT
from harness.nodes import DEMO
from hetserve.api.manifests import read_manifests
from hetserve.base.units import MiB, Percent, Seconds
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.profiles.sharing import BOOKED_SLOWDOWN, compute_booking, compute_share
from hetserve.registry.placement_policies import PLACEMENT_POLICIES

BOOKED: Final = {"resnet50": 50, "inception-v3": 50, "ssd-resnet50": 45, "transformer": 40}
"""Percent, by model."""
MOST: Final = 8


@settings(max_examples=examples(60))
@given(order=st.permutations(sorted(BOOKED) * MOST), policy=st.sampled_from(PLACEMENT_POLICIES.names))
def test_four_models_find_places_on_the_demos_t4s_in_whatever_order_their_pods_come(
    order: list[str], policy: str
) -> None:
    ledger, forever = Ledger(), Seconds(float("inf"))
    group = DEMO[0].group("hetsev-t4")
    gpus = tuple(Gpu(str(k), "Tesla-T4", MiB(15360)) for k in range(2))
    ledger.relist_nodes([NodeInventory(name, name, gpus) for name in group.node_names()])
    for number, model in enumerate(order):
        request = GpuRequest(f"u{number}", "default", f"p{number}", MiB(3072), model, compute=Percent(BOOKED[model]))
        chosen = decide(ledger.index, request, group.node_names(), policy=PolicyName(policy)).chosen
        assert chosen is not None, f"no place for instance {number}, of {model}"
        ledger.reserve(request, chosen.places, forever)


def test_the_samples_hold_no_more_t4s_than_that() -> None:
    manifests = read_manifests([str(ROOT / "manifests" / "samples" / "hetsev.yaml")])
    (t4,) = [each for each in manifests.types if each.metadata.name == "hetsev-t4"]
    assert t4.spec.max_instances == MOST
    shares = {each.spec.model: compute_share(each.spec) for each in manifests.profiles}
    assert {
        model: share and compute_booking(share.share, share.greatest_factor, BOOKED_SLOWDOWN)
        for model, share in shares.items()
    } == BOOKED
