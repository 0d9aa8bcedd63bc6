"""What Deployments do with a number of replicas: pods wait for a GPU in the order in which they were made."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from benchmarks.hetsev.policy import Decided, GpuSeen, InstanceSeen, Seen, Start
from benchmarks.hetsev.scene import Scene

ANY_TYPE: Final = ""
Deployment = tuple[str, str]
"""Service, and the type of its instances or `ANY_TYPE`."""
Room = dict[str, list[str]]
"""Services that hold memory, by GPU."""
Choose = Callable[[Deployment, Room], str | None]
"""The GPU of a new pod; None: there is none for it."""


class Deployments:
    """Pods of a cluster. choose: places one."""

    def __init__(self, scene: Scene, choose: Choose) -> None:
        self._scene, self._choose = scene, choose
        self._waiting: list[Deployment] = []

    def waiting(self, service: str) -> int:
        """Pods of a service that no GPU takes yet."""
        return sum(name == service for name, _ in self._waiting)

    def follow(self, seen: Seen, wanted: Mapping[Deployment, int]) -> Decided:
        """Makes and deletes pods until each Deployment has the replicas that are wanted, and places those that wait."""
        stop = [one.id for deployment, count in wanted.items() for one in self._adjusted(seen, deployment, count)]
        staying = sum(not one.leaving for one in seen.instances) - len(stop)
        most = len(seen.gpus) * len(wanted) if self._scene.most is None else self._scene.most
        return Decided(tuple(self._placed(seen, most - staying)), tuple(stop))

    def _adjusted(self, seen: Seen, deployment: Deployment, count: int) -> list[InstanceSeen]:
        """Instances that stop: those that do not serve yet first, then the newest, as a ReplicaSet does."""
        have = replicas(seen, deployment)
        more = count - len(have) - self._waiting.count(deployment)
        self._waiting += [deployment] * max(more, 0)
        for _ in range(min(-more, self._waiting.count(deployment))):
            self._waiting.reverse()
            self._waiting.remove(deployment)
            self._waiting.reverse()
        newest = sorted(have, key=lambda one: (one.ready > seen.now, one.launched, one.id))
        return newest[count:] if len(have) > count else []

    def _placed(self, seen: Seen, most: int) -> Iterator[Start]:
        room: Room = {gpu.name: [one.service for one in seen.on(gpu.name)] for gpu in seen.gpus}
        waiting, self._waiting = self._waiting, []
        for deployment in waiting:
            gpu = self._choose(deployment, room) if most > 0 else None
            if gpu is None:
                self._waiting.append(deployment)
                continue
            room[gpu].append(deployment[0])
            most -= 1
            yield Start(deployment[0], gpu)


def replicas(seen: Seen, deployment: Deployment) -> list[InstanceSeen]:
    """Instances of a Deployment that are not leaving, launching ones included."""
    service, type_name = deployment
    return [one for one in seen.of(service) if type_name in (ANY_TYPE, one.type)]


class WholeGpus:
    """One instance a GPU; where the type is not said, a random one, as HetSev's baseline has it (section 6.3)."""

    def __init__(self, scene: Scene, purpose: str) -> None:
        self._gpus: Mapping[str, GpuSeen] = {gpu.name: gpu for gpu in scene.gpus}
        self._random = random.Random(f"{purpose} {scene.seed}")  # noqa: S311

    def __call__(self, deployment: Deployment, room: Room) -> str | None:
        idle = [self._gpus[name] for name, services in room.items() if not services]
        types = sorted({gpu.type for gpu in idle})
        wanted = deployment[1] or (self._random.choice(types) if types else ANY_TYPE)
        names = [gpu.name for gpu in idle if gpu.type == wanted]
        return self._random.choice(names) if names else None
