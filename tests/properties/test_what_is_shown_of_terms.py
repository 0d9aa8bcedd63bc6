"""What `hetserve gpus` and `/ledger` show of pods that share on terms is the rule, and says so where it is broken."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.cli.placement.gpus_picture import compute_of
from hetserve.cli.placement.placed import gpus_document
from hetserve.objects.gpu_sharing import SharingTerms, Tenant, terms_text
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.placer import Placer
from hetserve_extender.observe.ledger_view import LedgerView
from sharing_terms import slowed, terms_of
from testing.cluster import gpu_node, gpu_pod

MODELS = ("a", "b", "c")
NAMESPACES = ("one", "two")
TENANTS = st.lists(
    st.builds(Tenant, st.sampled_from(NAMESPACES), st.sampled_from((*MODELS, None)), terms_of(MODELS)), max_size=4
)


def bound(number: int, tenant: Tenant) -> dict[str, Any]:
    """A pod that somebody put on the one GPU, whatever the rule says."""
    annotations = {names.ANNOTATION_GPU_SHARING: terms_text(tenant.terms)}
    of_it = {"namespace": tenant.namespace, "model": tenant.model, "annotations": annotations}
    return gpu_pod(f"p{number}", memory_mib=100, compute=100, node="n0", gpu="0", **of_it)  # type: ignore[arg-type]


@settings(max_examples=examples(40), deadline=None)
@given(TENANTS)
def test_each_pods_slow_down_is_shown_and_more_than_is_tolerated_is_a_problem(tenants: list[Tenant]) -> None:
    placer = Placer(clock=lambda: Seconds(0.0), hold=Seconds(0.0))
    NodeEventHandler(placer).replace([gpu_node("n0", gpus=1)])
    PodEventHandler(placer).replace([bound(number, tenant) for number, tenant in enumerate(tenants)])

    (gpu,) = gpus_document(placer)["gpus"]
    shown = {pod["name"]: pod["sharing"] for pod in gpu["pods"]}
    taken = slowed(tenants)
    for number, tenant in enumerate(tenants):
        pod, slow = shown[f"p{number}"], taken[number] * _fraction(tenant.terms)
        assert Fraction(pod["share"]) == Fraction(tenant.terms.share, 1_000_000)
        assert Fraction(pod["tolerance"]) == _fraction(tenant.terms)
        assert Fraction(pod["slowdown"]) == (slow if len(tenants) > 1 else 1)

    most = max(taken, default=Fraction(0))
    assert 100 - gpu["freeComputePercent"] == -(-100 * most // 1)
    assert any("times as long as alone" in problem.text for problem in placer.problems()) == (most > 1)
    assert abs(sum(compute_of(pod, gpu) for pod in gpu["pods"]) - (100 - gpu["freeComputePercent"])) < 1e-6
    (served,) = orjson.loads(b"".join(LedgerView.of(placer).pieces()))["gpus"]
    assert {pod["name"]: pod["sharing"] for pod in served["pods"]} == shown


def _fraction(terms: SharingTerms) -> Fraction:
    """Its tolerance."""
    return Fraction(terms.tolerance, 1_000_000)
