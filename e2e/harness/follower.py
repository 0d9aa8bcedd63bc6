"""A service that follows the load that is played and Prometheus measures: its types, instances and decisions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness import limits
from harness.commands import hetserve
from harness.kube import Manifest
from harness.prometheus import Prometheus
from harness.sandbox import Sandbox
from harness.twin import Trace, Twin
from harness.waiting import Unmet, wait_until
from hetserve.api.names import LABEL_INSTANCE_TYPE
from hetserve.scaling.record.ring import ring_name

CALM, BUSY, LITTLE = 24.0, 48.0, 10.0
"""Queries/s of the loads."""
PER_INSTANCE: Final = 10
"""Queries/s that an instance of 100 ms a query carries."""
PRICE: Final = 0.5
"""$/h of an instance of the one type."""
WINDOW = 5
"""Seconds."""
LAUNCH: Final = 2
SCALING: Final = {
    "saturation": "0.6",
    "scaleUp": {"stabilizationWindow": "2s", "lookAhead": "None"},
    "scaleDown": {"stabilizationWindow": f"{WINDOW}s"},
}
SERVICE: Final = "svc"


@dataclass(frozen=True)
class Mark:
    """A moment of the API server: a revision, and the instances of each Deployment (uid, type) then."""

    revision: str
    instances: dict[str, tuple[str, int]]


class Follower:
    """The service `svc`; the types come first, `begin` applies it."""

    def __init__(self, sandbox: Sandbox, prometheus: Prometheus, twin: Twin | None = None) -> None:
        self.sandbox, self.prometheus, self.twin = sandbox, prometheus, twin
        self.key = (sandbox.namespace, SERVICE)
        self.kinds: list[str] = []

    @classmethod
    def of_one_type(cls, sandbox: Sandbox, prometheus: Prometheus, twin: Twin | None = None) -> Follower:
        """With room for twelve instances of `PRICE` each. twin: that plays its load; None: real queries are."""
        follower = cls(sandbox, prometheus, twin)
        follower.type("gpu", nodes=12, price=f"{PRICE}")
        return follower

    def type(self, name: str, *, nodes: int, gpus: int = 1, pods: int = 110, seconds: float = 0.1, price: str) -> str:
        """Adds a type that is launched in two seconds, and its nodes; returns its name.

        pods: that a node takes, whatever GPUs it has. seconds: of a query.
        """
        self.sandbox.nodes(name, count=nodes, gpus=gpus, pods=pods)
        overrides = {"spec.launchTime": f"{LAUNCH}s", "spec.price.hourly": price}
        self.kinds.append(self.sandbox.instance_type(name, overrides=overrides))
        self.sandbox.profile("m", self.kinds[-1], seconds=seconds)
        return self.kinds[-1]

    def begin(self, *kinds: str, **spec: Any) -> None:
        """Applies it. kinds: types that it may use; none: all. spec: fields beside those of measuring and scaling."""
        self.sandbox.play_launch_times()
        metrics = {"source": "Hetserve", "window": f"{WINDOW}s", "staleAfter": f"{WINDOW}s"}
        given = {"load": {"expectedQPS": CALM}, "metrics": metrics, "scaling": SCALING} | spec
        fields = {f"spec.{name}": value for name, value in given.items()}
        self.sandbox.service(SERVICE, "m", list(kinds) or self.kinds, fields)

    def play(self, trace: Trace, batches: str | None = None, **settings: Any) -> None:
        """batches: sizes of the queries, as in the twin's file; None: as declared. settings: others of that file."""
        assert self.twin is not None
        self.twin.play({self.key: trace}, batches=batches, **{"timeout": "2s", **settings})

    # What is there

    def status(self) -> Manifest:
        status: Manifest = self.sandbox.kube.get("inferenceservices", SERVICE, self.sandbox.namespace)["status"]
        return status

    def condition(self, kind: str) -> str:
        """Its status; Absent: it is not there."""
        found = {c["type"]: c["status"] for c in self.status().get("conditions", ())}
        return str(found.get(kind, "Absent"))

    def told(self) -> list[tuple[Any, ...]]:
        """(action, reason, from, to) of the last decisions, the newest first."""
        keys = ("action", "reason", "from", "to")
        entries = self.status().get("lastDecisions", ())
        return [tuple(entry[key] for key in keys) for entry in entries]

    def deployments(self) -> list[Manifest]:
        return self.sandbox.kube.list("deployments", self.sandbox.namespace)

    def counts(self) -> dict[str, int]:
        """Instances that its Deployments ask for, by type; without zeros."""
        found: Counter[str] = Counter()
        for deployment in self.deployments():
            found[_kind(deployment)] += deployment["spec"]["replicas"]
        return {kind: count for kind, count in found.items() if count}

    def instances(self) -> int:
        return sum(self.counts().values())

    # What was written

    def mark(self) -> Mark:
        """Now, for `since`."""
        resource = self.sandbox.kube.resource("deployments")
        found = self.sandbox.kube.request("GET", resource.path(self.sandbox.namespace)).json()
        there = {one["metadata"]["uid"]: (_kind(one), one["spec"]["replicas"]) for one in found["items"]}
        return Mark(found["metadata"]["resourceVersion"], there)

    def at(self, mark: Mark) -> int:
        """Instances at the mark."""
        return sum(count for _, count in mark.instances.values())

    def since(self, mark: Mark) -> list[dict[str, int]]:
        """Instances by type at the mark and after each write since that changed them; nothing is missed."""
        there = dict(mark.instances)
        seen = [_by_type(there)]
        for event, deployment in self.sandbox.kube.watch("deployments", self.sandbox.namespace, mark.revision, 1):
            uid = deployment["metadata"]["uid"]
            assert event in ("ADDED", "MODIFIED", "DELETED"), deployment
            if event == "DELETED":
                there.pop(uid, None)
            else:
                there[uid] = (_kind(deployment), deployment["spec"]["replicas"])
            if (now := _by_type(there)) != seen[-1]:
                seen.append(now)
        return seen

    def totals_since(self, mark: Mark) -> list[int]:
        """Instances of all types, as of `since`."""
        return [sum(counts.values()) for counts in self.since(mark)]

    # Waiting

    def serves(self, enough: Callable[[int], bool], what: str) -> None:
        """Waits until there are so many instances and the service is Ready."""

        def there() -> bool | Unmet:
            seen = self.instances(), self.condition("Ready")
            return (enough(seen[0]) and seen[1] == "True") or Unmet((seen, self.told()))

        wait_until(there, limits.ROLLOUT, what)

    def becomes(self, kind: str, status: str, timeout: float) -> None:
        def there() -> bool | Unmet:
            return self.condition(kind) == status or Unmet(self.status().get("conditions"))

        wait_until(there, timeout, f"{kind} to be {status}")

    def decides(self, reason: str, timeout: float) -> Manifest:
        """Waits until the newest decision of this reason is told, and returns it."""

        def there() -> Manifest | Unmet:
            entries: list[Manifest] = self.status().get("lastDecisions", [])
            return next((entry for entry in entries if entry["reason"] == reason), None) or Unmet(self.told())

        return wait_until(there, timeout, f"a decision of reason {reason}")

    # Deciding again

    def replayed(self, folder: Path) -> list[str]:
        """Reasons of all its records, the newest first; each was decided again by the real command, identically."""
        namespace, cluster = self.sandbox.namespace, self.sandbox.cluster
        account, ring = cluster.folder.kubeconfig, folder / "ring.json"

        def told() -> list[Manifest] | Unmet:
            asked = hetserve("explain", SERVICE, "-n", namespace, "-o", "json", account=account)
            entries: list[Manifest] = json.loads(asked)["decisions"]
            return entries if all(entry.get("replays") for entry in entries) else Unmet(entries)

        told_of = wait_until(told, limits.REACTION, "a record of each decision")
        ring.write_text(cluster.kubectl("get", "configmap", ring_name(SERVICE), "-n", namespace, "-o", "json"))
        reasons = []
        for index in range(1, len(json.loads(ring.read_text())["data"]) + 1):
            again = json.loads(hetserve("decision", "replay", str(ring), "--index", str(index), "-o", "json"))
            assert again["identical"], again
            reasons.append(str(again["reason"]))
        # What has been decided since is newer.
        assert reasons[-len(told_of) :] == [entry["reason"] for entry in told_of]
        return reasons


def _kind(deployment: Manifest) -> str:
    return str(deployment["spec"]["selector"]["matchLabels"][LABEL_INSTANCE_TYPE])


def _by_type(there: dict[str, tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for kind, count in there.values():
        found[kind] += count
    return {kind: count for kind, count in found.items() if count}
