"""Promise: a change of type opens no gap, and a budget that is lowered is obeyed with what carries most."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.kube import Kube
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_INSTANCE_TYPE, LABEL_SERVICE

LOAD = 30
"""Queries/s: four instances of the old type at 80 %, or two of the new one."""
OLD_RATE, NEW_RATE = 10, 20
OLD_PRICE, NEW_PRICE = 500, 800
"""Thousandths of a dollar per hour."""


class Moving:
    """A service that runs on four instances of the old type."""

    def __init__(self, cluster: Cluster, sandbox: Sandbox, budget: str) -> None:
        self.cluster, self.sandbox = cluster, sandbox
        sandbox.nodes("old", count=2, gpus=2)
        sandbox.nodes("new", count=2, gpus=1)
        self.old = sandbox.instance_type("old", overrides={"spec.price.hourly": "0.5"})
        self.new = sandbox.instance_type("new", overrides={"spec.price.hourly": "0.8"})
        sandbox.profile("m", self.old)
        sandbox.profile("m", self.new, seconds=0.05)
        sandbox.service("svc", "m", [self.old], {"spec.load": {"expectedQPS": LOAD}, "spec.budget": {"hourly": budget}})
        sandbox.ready("svc")

    def to_new(self) -> None:
        """Declares the new type, and waits until nothing else runs."""
        self.sandbox.edit("svc", {"spec": {"instanceTypes": {"names": [self.new]}}})
        wait_until(
            lambda: self.replicas() == {self.new: 2} or Unmet(self.replicas()), limits.ROLLOUT, "the new type alone"
        )
        self.sandbox.ready("svc")

    def replicas(self) -> dict[str, int]:
        found = self.sandbox.kube.list("deployments", self.sandbox.namespace)
        of = [d["spec"]["selector"]["matchLabels"][LABEL_INSTANCE_TYPE] for d in found]
        return dict(Counter({kind: d["spec"]["replicas"] for kind, d in zip(of, found, strict=True)}))

    def rate(self, ready: Mapping[str, int]) -> int:
        return ready.get(self.old, 0) * OLD_RATE + ready.get(self.new, 0) * NEW_RATE

    def cost(self, there: Mapping[str, int]) -> int:
        return there.get(self.old, 0) * OLD_PRICE + there.get(self.new, 0) * NEW_PRICE

    @contextmanager
    def watched(self) -> Iterator[list[tuple[int, int]]]:
        """(rate of what is ready, cost of all that is there) at each of many looks during the block."""
        seen: list[tuple[int, int]] = []
        stop = threading.Event()

        def watch() -> None:
            kube = Kube(self.cluster.folder.kubeconfig)
            while not stop.is_set():
                seen.append(self._look(kube))
                stop.wait(0.02)
            kube.close()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield seen
        finally:
            stop.set()
            thread.join()

    def _look(self, kube: Kube) -> tuple[int, int]:
        there: Counter[str] = Counter()
        ready: Counter[str] = Counter()
        for pod in kube.list("pods", self.sandbox.namespace, labels=f"{LABEL_SERVICE}=svc"):
            kind = pod["metadata"]["labels"][LABEL_INSTANCE_TYPE]
            there[kind] += 1
            serves = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
            ready[kind] += serves and "deletionTimestamp" not in pod["metadata"]
        return self.rate(ready), self.cost(there)


@pytest.mark.parametrize(
    ("budget", "least"),
    [("3.6", 40), ("2.9", 40), ("2", 20)],
    ids=["room for both", "room for one new", "no room"],
)
def test_what_is_ready_carries_the_load_through_a_change_of_type(
    cluster: Cluster, namespace: str, budget: str, least: int
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        moving = Moving(cluster, sandbox, budget)
        with moving.watched() as seen:
            moving.to_new()
        rates, costs = zip(*seen, strict=True)
        print(f"budget {budget}: least {min(rates)} q/s, most {max(costs) / 1000} $/h, in {len(seen)} looks")
        assert min(rates) >= least
        assert max(costs) <= float(budget) * 1000
        assert "transition" not in sandbox.kube.get("inferenceservices", "svc", namespace)["status"]


def test_a_budget_below_every_plan_is_obeyed_at_once(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        moving = Moving(cluster, sandbox, "2.9")
        begun = time.monotonic()
        sandbox.edit("svc", {"spec": {"budget": {"hourly": "1.2"}}})
        wait_until(lambda: moving.replicas() == {moving.old: 2} or Unmet(moving.replicas()), limits.REACTION, "the cut")
        print(f"the budget was obeyed {time.monotonic() - begun:.2f} s after it was lowered")

        def said() -> bool | Unmet:
            status = sandbox.kube.get("inferenceservices", "svc", namespace)["status"]
            found = {c["type"]: (c["status"], c["message"]) for c in status["conditions"]}
            within, feasible = found["WithinBudget"], found["Feasible"]
            right = within == ("True", "what runs costs 1.000 $/h, the budget is 1.200 $/h")
            return (right and feasible[0] == "False" and "1.2 $/h" in feasible[1]) or Unmet(found)

        wait_until(said, limits.REACTION, "both conditions to give both numbers")
        sandbox.edit("svc", {"spec": {"budget": {"hourly": "2.9"}}})
        sandbox.ready("svc")
        assert moving.replicas() == {moving.old: 4}
