"""Ends the leader of two extenders and times the next bind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness import limits
from harness.cluster import Cluster
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.placement.check import violations

GOAL: Final = 5.0
"""Seconds from the end of the leader to the next bound pod, as `make bench-placement` measures it."""


@dataclass(frozen=True)
class ExtenderPair:
    """Two extenders on a cluster with many bound pods."""

    cluster: Cluster
    sandbox: Sandbox

    def leader(self) -> str:
        lease = self.cluster.get("leases", "hetserve-extender", "hetserve-system")
        return "extender-standby" if lease["spec"]["holderIdentity"].startswith("standby") else "extender"

    def fail_over(self, title: str, end: Callable[[str], None], *, on_the_way: int = 0) -> float:
        """Ends the leader; seconds until the next bind. `on_the_way`: ungated pods created before."""
        name, old = title.replace(" ", "-"), self.leader()
        if on_the_way:
            self.sandbox.deployment(name, "big", replicas=on_the_way, mib=1024, model=None, gated=False)
            wait_until(
                lambda: bool(self.sandbox.bound(f"app={name}")), limits.REACTION, "the first pod on its way to be bound"
            )
        start = time.monotonic()
        end(old)
        before = 0
        if on_the_way:  # late binds of the old leader
            wait_until(lambda: self.leader() != old, limits.ROLLOUT, "another leader")
            before = min(len(self.sandbox.bound(f"app={name}")), on_the_way - 1)
        else:
            self.sandbox.deployment(name, "big", replicas=1, mib=1024, model=None)
        wait_until(
            lambda: len(self.sandbox.bound(f"app={name}")) > before,
            limits.ROLLOUT,
            "a pod to be bound by the new leader",
        )
        seconds = time.monotonic() - start
        print(f"{title}: the next pod was bound {seconds:.2f} s after the end of {old}")
        assert self.leader() != old
        self.sandbox.wait_for_bound(max(on_the_way, 1), f"app={name}", timeout=limits.ROLLOUT)
        self.check()
        self.cluster.start_component(old)
        return seconds

    def check(self) -> None:
        """No GPU is over-committed, and the ledger equals the pods' annotations."""
        assert not violations(self.cluster.kube.list("pods"), self.cluster.kube.list("nodes"))
        ports = self.cluster.ports
        probe = ports.standby_probe if self.leader() == "extender-standby" else ports.extender_probe
        wait_until(lambda: ledger_is_the_cluster(self.cluster, probe), limits.REACTION, "the ledger to be right")


def ledger_is_the_cluster(cluster: Cluster, port: int) -> bool | Unmet:
    """Whether the ledger at a probe port equals the pods' annotations."""
    ledger = {
        (gpu["node"], gpu["gpu"]): gpu["memoryMiB"] - gpu["freeMiB"]
        for gpu in cluster.probe(port, "/ledger").json()["gpus"]
        if gpu["pods"]
    }
    return ledger == cluster.gpu_used() or Unmet("the ledger is not what the pods' annotations add up to")
