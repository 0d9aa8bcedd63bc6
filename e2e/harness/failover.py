"""Ends the leader of two pairs of scheduler and extender, and times the next bind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx

from harness import limits
from harness.cluster import Cluster
from harness.components import HOST, STANDBY
from harness.processes import end
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE
from hetserve.placement.check import violations

GOAL: Final = 6.2
"""Seconds from the end of the leader to the next bound pod, as `make bench-placement` measures it."""
LEASE: Final = "hetserve-scheduler"
ELECTED: Final[dict[str, Any]] = {"scheduler": {"replicas": 2, "leaderElection": {"enabled": True}}}
"""Values of the chart for two pairs."""
PROBED_EVERY: Final = 1.0
PROBED_IN_VAIN: Final = 3
"""As the chart sets the liveness probe of the scheduler's container."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What is one pod in a cluster. `probe`: the extender's port of health and ledger."""

    scheduler: str
    extender: str
    probe: int


@dataclass(frozen=True)
class TwoPairs:
    """Two pairs on a cluster with many bound pods."""

    cluster: Cluster
    sandbox: Sandbox

    @classmethod
    def start(cls, cluster: Cluster, namespace: str, bound: int) -> TwoPairs:
        """On 20 nodes of 8 GPUs with so many pods."""
        cluster.install_hetserve(ELECTED)
        for name in ("extender-standby", "scheduler-standby"):
            cluster.start_component(name)
        sandbox = Sandbox(cluster, namespace)
        sandbox.nodes("big", count=20, gpus=8)
        sandbox.deployment("many", "big", replicas=bound, mib=2048, model=None, gated=False)
        sandbox.wait_for_bound(bound, "app=many", timeout=limits.CROWD)
        return cls(cluster, sandbox)

    def both(self) -> tuple[Pair, Pair]:
        ports = self.cluster.ports
        return (
            Pair("scheduler", "extender", ports.extender_probe),
            Pair("scheduler-standby", "extender-standby", ports.standby_probe),
        )

    def holder(self) -> str:
        """Identity of the scheduler that leads; empty: none."""
        lease = self.cluster.kube.find("leases", LEASE, SYSTEM_NAMESPACE)
        return str((lease or {"spec": {}})["spec"].get("holderIdentity") or "")

    def leader(self, living: Pair | None = None) -> Pair:
        """The pair whose scheduler held the Lease last. living: as of `restarted`."""
        holder = wait_until(
            lambda: self.restarted(living) and (self.holder() or Unmet("nobody")),
            limits.REACTION,
            "a scheduler that leads",
        )
        return self.both()[holder.startswith(f"{STANDBY}_")]

    def restarted(self, living: Pair | None) -> bool:
        """As the kubelet does, starts a pair's scheduler again that ended as it could not renew its Lease in time."""
        if living is not None:
            self.cluster.start_component(living.scheduler, wait=False)
        return True

    def fail_over(self, title: str, end: Callable[[Pair], None], *, on_the_way: int = 0, moves: bool = True) -> float:
        """Ends the leader or a part of it; seconds until the next bind. `on_the_way`: ungated pods created before.

        moves: whether the other pair leads then.
        """
        name, old, holder = title.replace(" ", "-"), self.leader(), self.holder()
        (other,) = (pair for pair in self.both() if pair != old)
        if on_the_way:
            self.sandbox.deployment(name, "big", replicas=on_the_way, mib=1024, model=None, gated=False)
            wait_until(
                lambda: bool(self.sandbox.bound(f"app={name}")), limits.REACTION, "the first pod on its way to be bound"
            )
        start = time.monotonic()
        end(old)
        before = 0
        if on_the_way:  # late binds of the old leader
            wait_until(
                lambda: self.restarted(other) and self.holder() not in {"", holder}, limits.ROLLOUT, "another leader"
            )
            before = min(len(self.sandbox.bound(f"app={name}")), on_the_way - 1)
        else:
            self.sandbox.deployment(name, "big", replicas=1, mib=1024, model=None)
        wait_until(
            lambda: self.restarted(other) and len(self.sandbox.bound(f"app={name}")) > before,
            limits.ROLLOUT,
            "a pod to be bound by the new leader",
        )
        seconds = time.monotonic() - start
        print(f"{title}: the next pod was bound {seconds:.2f} s after the end of {old.extender}")
        assert (self.leader(other) != old) is moves
        wait_until(
            lambda: self.restarted(other) and len(self.sandbox.bound(f"app={name}")) >= max(on_the_way, 1),
            limits.ROLLOUT,
            "the other pods to be bound",
        )
        self.check(other)
        self.bring_back(old)
        return seconds

    # How a pair, or a part of it, ends

    def kill(self, pair: Pair) -> None:
        for name in (pair.scheduler, pair.extender):
            self.cluster.kill_component(name)

    def stop(self, pair: Pair) -> None:
        """As the kubelet ends a pod: both containers hear SIGTERM at once."""
        records = (self.cluster.state.process(self.cluster.component(name).process) for name in pair_names(pair))
        assert not end([one for one in records if one is not None], grace=10.0), "killed, not ended"

    def freeze(self, pair: Pair) -> None:
        for name in pair_names(pair):
            self.cluster.freeze_component(name)

    def kill_extender(self, pair: Pair) -> None:
        """The kubelet starts a container that ended at once."""
        self.cluster.kill_component(pair.extender)
        self.cluster.start_component(pair.extender, wait=False)

    def freeze_extender(self, pair: Pair) -> None:
        """The kubelet ends a container whose liveness probe fails too often: here that of the scheduler.

        It is started again by `bring_back`: a container takes longer than the other scheduler to look at the Lease.
        """
        self.cluster.freeze_component(pair.extender)
        failed = 0
        while failed < PROBED_IN_VAIN:
            began = time.monotonic()
            failed = 0 if alive(pair.probe) else failed + 1
            time.sleep(max(PROBED_EVERY - (time.monotonic() - began), 0.0))
        self.cluster.stop_component(pair.scheduler)

    def bring_back(self, pair: Pair) -> None:
        """Two pairs again."""
        lost = self.cluster.frozen(pair.scheduler)
        for name in pair_names(pair):
            if self.cluster.frozen(name):
                self.cluster.thaw_component(name)
        if lost:  # it finds the Lease another's
            wait_until(lambda: not self.cluster.running(pair.scheduler), limits.ROLLOUT, "a scheduler that lost to end")

        def whole() -> bool:
            for name in pair_names(pair):
                self.cluster.start_component(name, wait=False)
            return alive(pair.probe)

        wait_until(whole, limits.ROLLOUT, "both pairs to live")

    def check(self, living: Pair | None = None) -> None:
        """No GPU is over-committed, and the ledger equals the pods' annotations. living: as of `restarted`."""
        assert not violations(self.cluster.kube.list("pods"), self.cluster.kube.list("nodes"))
        probe = self.leader(living).probe
        wait_until(lambda: ledger_is_the_cluster(self.cluster, probe), limits.REACTION, "the ledger to be right")


def pair_names(pair: Pair) -> tuple[str, str]:
    return pair.scheduler, pair.extender


def alive(probe: int) -> bool:
    """What the kubelet learns of a pair within a second."""
    try:
        return httpx.get(f"http://{HOST}:{probe}/livez", timeout=1.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def ledger_is_the_cluster(cluster: Cluster, port: int) -> bool | Unmet:
    """Whether the ledger at a probe port equals the pods' annotations."""
    ledger = {
        (gpu["node"], gpu["gpu"]): gpu["memoryMiB"] - gpu["freeMiB"]
        for gpu in cluster.probe(port, "/ledger").json()["gpus"]
        if gpu["pods"]
    }
    return ledger == cluster.gpu_used() or Unmet("the ledger is not what the pods' annotations add up to")
