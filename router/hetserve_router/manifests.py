"""Services and instances of files, for a router without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests, read_manifests
from hetserve.base.files import InputError, read_text
from hetserve.base.units import Millionths
from hetserve.base.yaml_loader import contents
from hetserve.planning.offers import namespace_of
from hetserve.planning.tenancy import SharingRule
from hetserve_services.facts import Key, ServiceFacts, facts_of, planned_gpus

_MOST = 4 << 20  # bytes


class InstanceEntry(BaseModel):
    """One instance. url: where it speaks the protocol. service: `namespace/name`; absent: the only one there is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=253)
    type: str = Field(min_length=1, max_length=63)
    url: str
    service: str | None = None

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        with suppress(ValueError):  # of a port
            parts = urlsplit(value)
            if parts.scheme == "http" and parts.hostname and parts.path in ("", "/") and parts.port != 0:
                return value
        raise ValueError("must be http://HOST:PORT")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return str(parts.hostname), parts.port or 80


def services_of(paths: Sequence[str], slowdown: Millionths) -> list[tuple[InferenceService, ServiceFacts]]:
    """The services of manifests, each with a profile at least. Raises InputError."""
    found = read_manifests(paths)
    made = [(service, _facts(service, found, slowdown)) for service in found.services]
    if not made:
        raise InputError((f"{', '.join(paths)}: no InferenceService",))
    lacking = [facts.title for _, facts in made if not facts.profiles]
    if lacking:
        raise InputError(
            tuple(f"InferenceService {title}: no ModelProfile of its model and all its variants" for title in lacking)
        )
    return made


def _facts(service: InferenceService, found: Manifests, slowdown: Millionths) -> ServiceFacts:
    here = [one for one in found.profiles if namespace_of(one) == namespace_of(service)]
    types = {str(one.metadata.name): one for one in found.types}
    planned = planned_gpus(service.model_dump(mode="json", by_alias=True, exclude_none=True))
    return facts_of(service, here, types, SharingRule(slowdown), planned)


def read_instances(path: Path, services: Sequence[Key]) -> list[tuple[Key, InstanceEntry]]:
    """The instances of a YAML or JSON file, each with its service. Raises InputError with all errors."""
    try:
        documents = contents(read_text(str(path), _MOST))
    except yaml.YAMLError as error:
        raise InputError((f"{path}: {error}",)) from None
    entries = documents[0] if len(documents) == 1 else None
    if not isinstance(entries, list):
        raise InputError(
            (f"{path}: must be one list of instances such as {{name: a, type: g4dn.xlarge, url: http://...}}",)
        )
    errors, read = list[str](), list[tuple[Key, InstanceEntry]]()
    for number, entry in enumerate(entries):
        try:
            one = InstanceEntry.model_validate(entry)
            read.append((_service_of(one, services), one))
        except ValidationError as error:
            errors += [f"{path}: [{number}].{_place(each['loc'])}: {each['msg']}" for each in error.errors()]
        except ValueError as error:
            errors.append(f"{path}: [{number}]: {error}")
    names = [one.name for _, one in read]
    errors += [f"{path}: the name {name} is there twice" for name in sorted({n for n in names if names.count(n) > 1})]
    if errors:
        raise InputError(tuple(errors))
    return read


def _service_of(one: InstanceEntry, services: Sequence[Key]) -> Key:
    titles = {"/".join(key): key for key in services}
    if one.service is None and len(services) == 1:
        return services[0]
    if one.service in titles:
        return titles[one.service]
    raise ValueError(f"service {one.service}: must be one of {', '.join(titles)}")


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(map(str, loc)) or "instance"
