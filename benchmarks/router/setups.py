"""What is measured: a model at a time scale, instances at addresses, and who stands before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any, Final

import yaml
from benchmarks.kairos.paper.setting import SLO_MS, TYPES, Case, data_folder
from benchmarks.router.player import Address, Target
from benchmarks.router.processes import ours, started

from hetserve.api.manifests import Document, parse_documents
from hetserve.base.units import parse_duration
from hetserve.cli.profiles.reference_kairos import kairos_manifests
from hetserve.demand import BatchMix
from hetserve.planning import Counts
from hetserve.profiles import LatencyProfile, profile_from_spec
from hetserve.serving.system import System

Json = dict[str, Any]
PORT: Final = 18550
ROUTER: Final[Address] = ("127.77.250.1", PORT)
"""Where a router is asked, for all its services; its probes are a port further."""
SEED: Final = 11
MOST_WAITING: Final = 20_000


@dataclass(frozen=True, slots=True)
class ScaledModel:
    """A model of the paper whose times are `scale` times as long."""

    name: str
    scale: float

    @classmethod
    def with_slo(cls, name: str, slo: float) -> ScaledModel:
        """slo: [s]"""
        return cls(name, round(1e3 * slo / SLO_MS[name], 3))

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def namespace(self) -> str:
        return f"{self.label}-x{self.scale:g}".replace(".", "-")

    @property
    def case(self) -> Case:
        return Case(self.name)

    @property
    def mix(self) -> BatchMix:
        return self.case.mix

    @property
    def slo(self) -> float:
        return self.system.slo

    @property
    def system(self) -> System:
        return _system(self)

    @property
    def profiles(self) -> Mapping[str, LatencyProfile]:
        """By type."""
        return _parsed(self)[0]

    @property
    def documents(self) -> list[Json]:
        """Types, profiles and the service, in a namespace of their own."""
        return _documents(self)


@cache
def _documents(model: ScaledModel) -> list[Json]:
    documents = kairos_manifests(data_folder(), model.name, model.scale)
    for document in documents:
        if "namespace" in document["metadata"]:
            document["metadata"]["namespace"] = model.namespace
    return documents


@cache
def _parsed(model: ScaledModel) -> tuple[dict[str, LatencyProfile], float]:
    """Profiles by type, and the SLO [s]."""
    found = parse_documents(Document("benchmark", one) for one in model.documents)
    profiles = {one.spec.instance_type: profile_from_spec(one.spec) for one in found.profiles}
    return profiles, parse_duration(found.services[0].spec.slo.latency)


@cache
def _system(model: ScaledModel) -> System:
    """As a router takes it from the manifests."""
    profiles, slo = _parsed(model)
    return System.of(profiles, model.mix.batches, slo)


class Addresses:
    """Addresses of one run, each once; all of 127/8 is this machine's loopback."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def next(self) -> Address:
        number = next(self._numbers)
        return f"127.77.{number // 250}.{number % 250 + 1}", PORT


@dataclass(frozen=True, slots=True)
class InstanceAt:
    """weight: how fast it is beside the others."""

    name: str
    type: str
    address: Address
    weight: int


@dataclass(frozen=True)
class Setup:
    """A service behind one balancer. counts: in the order of the paper's types. front: where the balancer is asked.

    small: items up to which a query is for the auxiliary types, where the balancer tells two pools apart. tag: tells
    equal setups apart. most_waiting: queries in our queue; None: the router's default.
    """

    balancer: str
    model: ScaledModel
    counts: Counts
    addresses: Addresses = field(repr=False)
    policy: str = "hetserve"
    small: int = 0
    tag: str = ""
    most_waiting: int | None = MOST_WAITING

    @cached_property
    def front(self) -> Address:
        return ROUTER if self.balancer == "router" else self.addresses.next()

    @property
    def name(self) -> str:
        counts = "-".join(str(number) for _, number in self.counts)
        return f"{self.balancer}-{self.policy}-{counts}" + (f"-{self.tag}" if self.tag else "")

    @property
    def target(self) -> Target:
        return Target(self.front, self.model.label, f"{self.model.namespace}/{self.name}")

    @cached_property
    def instances(self) -> tuple[InstanceAt, ...]:
        """In the order of the simulator, which is the router's if names are in order."""
        system = self.model.system
        mean = system.predicted.arrays.mean
        weights = (mean.max(axis=0, keepdims=True) / mean).mean(axis=1)
        kinds = [system.types[kind] for kind in system.workers(dict(self.counts)).tolist()]
        speed = {kind: max(round(float(weights[system.types.index(kind)])), 1) for kind in kinds}
        return tuple(
            InstanceAt(f"{self.model.namespace}.{self.name}.{number:03d}", kind, self.addresses.next(), speed[kind])
            for number, kind in enumerate(kinds)
        )

    @property
    def services(self) -> Json:
        """The InferenceService of a router."""
        (service,) = (one for one in self.model.documents if one["kind"] == "InferenceService")
        dispatch: Json = {"ports": {"http": PORT, "grpc": PORT}, "policy": self.policy}
        dispatch |= {} if self.most_waiting is None else {"maxQueue": self.most_waiting}
        metadata = {"name": self.name, "namespace": self.model.namespace}
        return {**service, "metadata": metadata, "spec": {**service["spec"], "dispatch": dispatch}}


@contextmanager
def workers(folder: Path, setups: list[Setup]) -> Iterator[None]:
    """Reference workers at all instances, a process for each model, scale and type."""
    places: dict[tuple[ScaledModel, str], list[Address]] = {}
    for setup in setups:
        for one in setup.instances:
            places.setdefault((setup.model, one.type), []).append(one.address)
    with ExitStack() as stack:
        running = {}
        for (model, kind), addresses in places.items():
            profile = folder / f"{model.namespace}.yaml"
            profile.write_text(yaml.safe_dump_all(model.documents), encoding="utf-8")
            command = [ours("hetserve-worker"), "--model", "echo", "--name", model.label, "--profile", str(profile)]
            command += ["--instance-type", kind, "--seed", str(SEED)]
            command += [word for host, port in addresses for word in ("--listen", f"{host}:{port}")]
            running[model, kind] = stack.enter_context(started(folder, f"worker-{model.namespace}-{kind}", command))
        for place, addresses in places.items():
            running[place].await_answers(addresses)
        yield


def manifests_of(setups: list[Setup]) -> list[Json]:
    """What a router is given, each object once."""
    documents: dict[tuple[str, str, str], Json] = {}
    for setup in setups:
        others = [one for one in setup.model.documents if one["kind"] != "InferenceService"]
        for one in [*others, setup.services]:
            metadata = one["metadata"]
            documents[one["kind"], metadata.get("namespace", ""), metadata["name"]] = one
    return list(documents.values())


def shares(kinds: Mapping[str, int]) -> dict[str, float]:
    """Of a count by type."""
    whole = sum(kinds.values())
    return {kind: kinds.get(kind, 0) / whole for kind in TYPES if kinds.get(kind)}


def served_by(names: list[str], setup: Setup) -> dict[str, float]:
    """By type, the share of the queries that its instances answered."""
    kind_of = {one.name: one.type for one in setup.instances}
    return shares(Counter(kind_of[name] for name in names if name in kind_of))
