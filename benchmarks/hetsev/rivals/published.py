"""HetSev's own controller (its section 4), as published: saturation for a time, cheapest type, cool-down, no swap.

Scaling out starts as many as the load lacks of the cheapest type, launches weighed; scaling in stops one at a time.
Capacities T_i are those of instances alone. Instances share GPUs by memory alone: worst fit, no model twice on a GPU
(Algorithm 1). The heuristic is the product's planner `greedy`, placement the product's `WorstFit`. What the paper
leaves open is in `Setting`, chosen by a sweep as for the other controllers. Its queues and k-means order pods that
wait; here few wait at a time, and come first come first served.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from benchmarks.hetsev.policy import STEP, Controller, Decided, Seen, ServiceSeen
from benchmarks.hetsev.rivals.pods import Deployment, Deployments, Room, replicas
from benchmarks.hetsev.scene import Scene

from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest, policy_name
from hetserve.planning import LatencySlo, Problem, TypeOption
from hetserve.planning.mincost.greedy import scale_in, scale_out
from hetserve.planning.mincost.model import build_model
from hetserve.profiles import LinearProfile

WORST_FIT: Final = policy_name("WorstFit")
_MIB_PER_GIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Setting:
    """threshold: published. patience: seconds of saturation before scaling out. cool_down: without one, before in."""

    patience: float = 30.0
    cool_down: float = 120.0
    threshold: float = 0.8


class SharedGpus:
    """HetSev's placement, by the product's ledger: memory alone, no model twice, the emptiest GPU."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._nodes = {
            node: NodeInventory(
                node, node, tuple(Gpu(g.name, g.type, g.memory_mib) for g in scene.gpus if g.node == node)
            )
            for node in dict.fromkeys(gpu.node for gpu in scene.gpus)
        }
        self._of_type = {
            name: tuple(dict.fromkeys(gpu.node for gpu in scene.gpus if not name or gpu.type == name))
            for name in ("", *scene.assumed.gpus)
        }
        self._node_of = {gpu.name: gpu.node for gpu in scene.gpus}

    def __call__(self, deployment: Deployment, room: Room) -> str | None:
        service, type_name = deployment
        ledger = self._ledger(room)
        request = self._request(service, "new")
        chosen = decide(ledger.index, request, self._of_type[type_name], policy=WORST_FIT).chosen
        return None if chosen is None else chosen.gpus[0].id

    def room_for(self, service: str, type_name: str, room: Room) -> int:
        """GPUs of a type that take an instance."""
        memory = {name: model.memory_mib for name, model in self._scene.assumed.models.items()}
        return sum(
            gpu.type == type_name
            and service not in room[gpu.name]
            and sum(memory[one] for one in room[gpu.name]) + memory[service] <= gpu.memory_mib
            for gpu in self._scene.gpus
        )

    def _ledger(self, room: Room) -> Ledger:
        ledger = Ledger()
        ledger.relist_nodes(self._nodes.values())
        for gpu, services in room.items():
            for k, service in enumerate(services):
                request = self._request(service, f"{gpu} {k}")
                ledger.reserve(request, ((self._node_of[gpu], gpu),), Seconds(math.inf))
        return ledger

    def _request(self, service: str, uid: str) -> GpuRequest:
        return GpuRequest(uid, "default", uid, self._scene.assumed.models[service].memory_mib, service)


class Published:
    """See above."""

    interval = STEP
    shares = True

    def __init__(self, scene: Scene, setting: Setting = Setting(), name: str = "hetsev") -> None:
        self.name, self.dispatch = name, make_policy("fcfs")
        self._scene, self._setting = scene, setting
        self._place = SharedGpus(scene)
        self._deployments = Deployments(scene, self._place)
        self._counts: dict[Deployment, int] = {(m, t): 0 for m in scene.models for t in scene.assumed.gpus}
        self._saturated = dict.fromkeys(scene.models, math.inf)
        """Since when [s]."""
        self._calm = dict.fromkeys(scene.models, math.inf)
        """Since when one instance fewer would do, and nothing was scaled [s]."""

    def decide(self, seen: Seen) -> Decided:
        for service in seen.services.values():
            self._scale(seen, service)
        return self._deployments.follow(seen, self._counts)

    def _scale(self, seen: Seen, service: ServiceSeen) -> None:
        model = build_model(self._problem(seen, service), "greedy")
        counts = tuple(option.running for option in model.types)
        carried, began = model.choice(counts).capacity, not sum(counts)
        fewer = scale_in(model, model.choice(counts), model.needed).counts
        saturated, calm = model.needed > carried, fewer != counts
        name = service.name
        self._saturated[name] = min(self._saturated[name], seen.now) if saturated else math.inf
        self._calm[name] = min(self._calm[name], seen.now) if calm else math.inf
        if began or seen.now >= self._saturated[name] + self._setting.patience:
            self._set(name, model.types, self._grown(name, counts, scale_out(model, model.needed).counts))
        elif seen.now >= self._calm[name] + self._setting.cool_down:
            i = next(i for i, count in enumerate(counts) if fewer[i] < count)
            self._set(name, model.types, tuple(count - (i == k) for k, count in enumerate(counts)))

    def _grown(self, service: str, counts: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
        """What is wanted beyond the counts, within the limit: no instance makes room for one of a faster type."""
        most, grown = self._most_of(service), list[int]()
        room = math.inf if most is None else most - sum(counts)
        for count, other in zip(counts, wanted, strict=True):
            more = min(max(other - count, 0), room)
            grown.append(count + int(more))
            room -= more
        return tuple(grown)

    def _set(self, service: str, types: tuple[TypeOption, ...], counts: tuple[int, ...]) -> None:
        for option, count in zip(types, counts, strict=True):
            self._counts[service, option.name] = count
        self._saturated[service] = self._calm[service] = math.inf

    def _problem(self, seen: Seen, service: ServiceSeen) -> Problem:
        """What the ILP of section 4.1 knows; C_i is the price of the memory that an instance holds."""
        assumed, spec = self._scene.assumed, self._scene.assumed.models[service.name]
        return Problem(
            service.name,
            "MinCost",
            LatencySlo(spec.slo, assumed.percentile),
            BatchMix.single(),
            tuple(self._option(seen, service.name, name) for name in assumed.gpus),
            load=QPS(max(service.sent[-1] if service.sent else service.expected, 1e-3)),
            saturation_threshold=self._setting.threshold,
            least_total=1,
            most_total=self._most_of(service.name),
        )

    def _most_of(self, service: str) -> int | None:
        """Instances that the limit on all services together leaves to one."""
        most = self._scene.most
        return None if most is None else most - sum(n for (name, _), n in self._counts.items() if name != service)

    def _option(self, seen: Seen, service: str, type_name: str) -> TypeOption:
        assumed, running = self._scene.assumed, self._counts[service, type_name]
        spec, gpu = assumed.models[service], assumed.gpus[type_name]
        room: Room = {one.name: [other.service for other in seen.on(one.name)] for one in seen.gpus}
        taken = running - len(replicas(seen, (service, type_name)))
        return TypeOption(
            type_name,
            MicroDollarsPerHour(round(gpu.price_per_gib * spec.memory_mib / _MIB_PER_GIB * 1e6)),
            LinearProfile(spec.latency[type_name], Seconds(0.0)),
            max_instances=running + max(self._place.room_for(service, type_name, room) - taken, 0),
            running=running,
            launch_time=assumed.launch,
        )


def hetsev(setting: Setting, scene: Scene) -> Controller:
    return Published(scene, setting)
