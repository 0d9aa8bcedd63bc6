"""Which services there are and which of their pods serve, kept up by watches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.kinds import INFERENCE_SERVICE, INSTANCE_TYPE, MODEL_PROFILE
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Millionths
from hetserve.planning.offers import namespace_of
from hetserve.planning.tenancy import SharingRule
from hetserve.reconcile.cluster.observed import Broken, error_of, read_input
from hetserve_services.facts import Key, PlannedGpus, ServiceFacts, facts_of, planned_gpus
from hetserve_shell.kube.client import ApiServer
from hetserve_shell.kube.informer import Reflector
from hetserve_shell.kube.store import Store

BY_MODEL: Final = "model"
"""Index of profiles: namespace and model."""

Kind = TypeVar("Kind", bound=BaseModel)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class DeclaredService:
    """A service without its status, but for what the plan in force says of GPUs."""

    service: InferenceService
    planned: PlannedGpus | None


class ServiceDiscovery:
    """Stores of services and of what they are planned from, and the reflectors that fill them; subclasses add pods.

    matters: the services that matter. slowdown: sigma, of types that a recorded plan does not have. redeclared: what is
    declared has changed since it was cleared; moved: pods have.
    """

    def __init__(self, api: ApiServer, matters: Container[Key], slowdown: Millionths) -> None:
        self._matters = matters
        self.services: Store[DeclaredService | Broken] = Store(_declared, _why_broken)
        self.profiles: Store[ModelProfile | Broken] = _kind(ModelProfile, {BY_MODEL: _model_of})
        self.types: Store[InstanceType | Broken] = _kind(InstanceType)
        self.redeclared, self.moved = asyncio.Event(), asyncio.Event()
        self._rule = SharingRule(slowdown)
        self.reflectors = [
            Reflector(api, INSTANCE_TYPE.path(), self.types),
            Reflector(api, MODEL_PROFILE.path(), self.profiles),
            Reflector(api, INFERENCE_SERVICE.path(), self.services),
        ]
        for store in (self.services, self.profiles, self.types):
            store.subscribe(lambda _before, _after: self.redeclared.set())

    async def synced(self) -> None:
        """Returns when every kind has been listed."""
        for reflector in self.reflectors:
            await reflector.synced.wait()

    def declared(self) -> Iterator[tuple[InferenceService, ServiceFacts]]:
        """The services that matter as they are declared, with the profiles of their models."""
        types = {str(one.metadata.name): one for one in _good(self.types)}
        for found in _good(self.services):
            service = found.service
            if (namespace_of(service), str(service.metadata.name)) in self._matters:
                of_model = _good(self.profiles.by(BY_MODEL, (namespace_of(service), service.spec.model.name)))
                yield service, facts_of(service, of_model, types, self._rule, found.planned)


def _kind(
    model: type[Kind], index: Mapping[str, Callable[[Kind | Broken], Hashable | None]] | None = None
) -> Store[Kind | Broken]:
    return Store(partial(read_input, model), error_of, index)


def _declared(raw: dict[str, Any]) -> DeclaredService | Broken:
    found = read_input(InferenceService, raw)
    return found if isinstance(found, Broken) else DeclaredService(found, planned_gpus(raw))


def _why_broken(found: DeclaredService | Broken) -> str | None:
    return found.error if isinstance(found, Broken) else None


def _model_of(profile: ModelProfile | Broken) -> Hashable | None:
    return None if isinstance(profile, Broken) else (namespace_of(profile), profile.spec.model)


def _good(found: Iterable[Found | Broken]) -> list[Found]:
    return [one for one in found if not isinstance(one, Broken)]
