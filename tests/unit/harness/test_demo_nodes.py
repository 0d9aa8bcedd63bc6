"""The demo has nodes enough for the plans of the samples: 20 T4s for four models with at most 10 instances each.

Any three models fit on a GPU and no model is twice on it. A pod of a model with 9 instances placed has at least 11 GPUs
without it; the 30 pods of the other models fill 10 of them at most.
"""

from __future__ import annotations

from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from harness.components import ROOT
from harness.nodes import DEMO
from hetserve.api.manifests import read_manifests
from hetserve.base.units import MiB, Seconds
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.planning.tenancy import DEFAULT_MAX_SLOWDOWN
from hetserve.profiles.sharing import WHOLE, compute_share
from hetserve.registry.placement_policies import PLACEMENT_POLICIES

SAMPLE: Final = read_manifests([str(ROOT / "manifests" / "samples" / "hetsev.yaml")])
TERMS: Final = {
    each.spec.model: share.terms(DEFAULT_MAX_SLOWDOWN)
    for each in SAMPLE.profiles
    if each.spec.instance_type == "hetsev-t4" and (share := compute_share(each.spec)) is not None
}
"""By model."""
MOST: Final = 10


@settings(max_examples=examples(60))
@given(order=st.permutations(sorted(TERMS) * MOST), policy=st.sampled_from(PLACEMENT_POLICIES.names))
def test_four_models_find_places_on_the_demos_t4s_in_whatever_order_their_pods_come(
    order: list[str], policy: str
) -> None:
    ledger, forever = Ledger(), Seconds(float("inf"))
    group = DEMO[0].group("hetsev-t4")
    gpus = tuple(Gpu(str(k), "Tesla-T4", MiB(15360)) for k in range(2))
    ledger.relist_nodes([NodeInventory(name, name, gpus) for name in group.node_names()])
    for number, model in enumerate(order):
        name, terms = f"p{number}", TERMS[model]
        request = GpuRequest(f"u{number}", "default", name, MiB(3072), model, compute=WHOLE, sharing=terms)
        chosen = decide(ledger.index, request, group.node_names(), policy=PolicyName(policy)).chosen
        assert chosen is not None, f"no place for instance {number}, of {model}"
        ledger.reserve(request, chosen.places, forever)


def test_the_samples_hold_no_more_t4s_than_that() -> None:
    (t4,) = [each for each in SAMPLE.types if each.metadata.name == "hetsev-t4"]
    assert t4.spec.max_instances == MOST
    assert len(TERMS) == 4
