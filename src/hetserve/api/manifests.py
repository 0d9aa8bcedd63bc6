"""Reads manifests as `kubectl apply`: files, folders, `-`, several documents, lists.

Errors name file, line, object and field, and say what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import yaml
from pydantic import ValidationError

from hetserve.api.base import ApiObject
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.kinds import INFERENCE_SERVICE, KINDS
from hetserve.api.manifest_errors import FieldPath, located_errors
from hetserve.api.model_profile import ModelProfile
from hetserve.api.names import API_VERSION, GROUP
from hetserve.api.scalars import DNS_LABEL_PATTERN, DNS_SUBDOMAIN_PATTERN
from hetserve.base.files import InputError, UnreadableError, read_text, shown_name
from hetserve.base.yaml_loader import Fields, compose, content_of

MOST_BYTES: Final = 4 << 20
"""etcd limits objects to 1.5 MiB; parsed YAML takes a hundred times its size."""
_MOST_ERRORS: Final = 20
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_DEFAULT_NAMESPACE: Final = "default"

_Model = TypeVar("_Model", bound=ApiObject)


class ManifestError(InputError):
    """`errors`: of many, the first and a number."""

    def __init__(self, errors: Sequence[str]) -> None:
        more = len(errors) - _MOST_ERRORS
        super().__init__((*errors[:_MOST_ERRORS], *([f"and {more} more"] if more > 0 else ())))


@dataclass(frozen=True, slots=True)
class Manifests:
    """hetserve's objects, in order. notes: ignored objects, odd tables."""

    services: tuple[InferenceService, ...]
    types: tuple[InstanceType, ...]
    profiles: tuple[ModelProfile, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """source: its file. fields: their lines; None if it was no text."""

    source: str
    content: Any
    fields: Fields | None = None

    def at(self, path: FieldPath = ()) -> str:
        """Place of a field, such as `rm2.yaml:23`, or of its parent."""
        return self.source if self.fields is None else f"{self.source}:{self.fields.line_of(path)}"


def read_manifests(paths: Iterable[str], stdin: IO[str] | None = None) -> Manifests:
    """Objects of files; of a folder its .yaml, .yml and .json by name; `-`: stdin.

    Raises ManifestError with all errors.
    """
    errors: list[str] = []
    texts = _texts(paths, stdin, errors)
    return parse_documents((found for name, text in texts for found in _documents(name, text, errors)), errors)


def parse_documents(documents: Iterable[Document], errors: list[str] | None = None) -> Manifests:
    """errors: of loading, also collected during iteration."""
    found = [] if errors is None else errors
    notes: list[str] = []
    objects: list[ApiObject] = []
    seen: dict[tuple[str, str, str], str] = {}
    for document in documents:
        parsed = _parse(document, found, notes)
        if parsed is None:
            continue
        key = (parsed.kind, _namespace(parsed), parsed.metadata.name)
        if key in seen:
            found.append(f"{document.at()}: {key[0]}/{key[2]} is there twice, first at {seen[key]}; keep one")
        seen.setdefault(key, document.at())
        objects.append(parsed)
        if isinstance(parsed, ModelProfile) and parsed.spec.warning:
            notes.append(f"{document.at()}: {key[0]}/{key[2]}: {parsed.spec.warning}")
    if found:
        raise ManifestError(found)
    return Manifests(
        _of(objects, InferenceService),
        _of(objects, InstanceType),
        _of(objects, ModelProfile),
        tuple(notes),
    )


def _of(objects: Iterable[ApiObject], model: type[_Model]) -> tuple[_Model, ...]:
    return tuple(one for one in objects if isinstance(one, model))


def _namespace(parsed: ApiObject) -> str:
    return (parsed.metadata.namespace or _DEFAULT_NAMESPACE) if KINDS[parsed.kind].namespaced else ""


def _texts(paths: Iterable[str], stdin: IO[str] | None, errors: list[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        for name in _files(path, errors):
            try:
                yield shown_name(name), read_text(name, MOST_BYTES, stdin)
            except UnreadableError as error:
                errors.append(str(error))


def _files(path: str, errors: list[str]) -> list[str]:
    if path == "-" or not Path(path).is_dir():
        return [path]
    names = sorted(str(entry) for entry in Path(path).iterdir() if entry.suffix in _SUFFIXES and entry.is_file())
    if not names:
        errors.append(f"{path}: the folder holds no {', '.join(_SUFFIXES)} file")
    return names


def _documents(name: str, text: str, errors: list[str]) -> Iterator[Document]:
    try:
        for node in compose(text):
            content = content_of(node)
            if content is not None:
                yield from _items(Document(name, content, Fields(node)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = name if mark is None else f"{name}:{mark.line + 1}:{mark.column + 1}"
        errors.append(f"{where}: not valid YAML or JSON: {error.problem or error.context}")


def _items(document: Document) -> Iterator[Document]:
    content = document.content
    if isinstance(content, dict) and str(content.get("kind", "")).endswith("List") and "items" in content:
        fields = None if document.fields is None else document.fields.child("items")
        if not isinstance(content["items"], list):
            yield Document(document.source, content["items"], fields)
            return
        for number, item in enumerate(content["items"]):
            yield Document(document.source, item, None if fields is None else fields.child(number))
    else:
        yield document


def _parse(document: Document, errors: list[str], notes: list[str]) -> ApiObject | None:
    content = document.content
    wrong = _not_an_object(content)
    if wrong is not None:
        errors.append(f"{document.at()}: {wrong}")
        return None
    kind, version = content["kind"], content["apiVersion"]
    subject = f"{kind}/{_name_of(content)}"
    if version.split("/")[0] != GROUP and kind not in KINDS:
        notes.append(f"{document.at()}: {subject} is not of {GROUP}: ignored")
        return None
    refused = _unknown_kind(kind, version) or _name_error(kind, content)
    if refused is not None:
        path, message = refused
        errors.append(f"{document.at(path)}: {subject}: {message}")
        return None
    try:
        # strict: no text for a number.
        return KINDS[kind].model.model_validate(content, strict=True, by_name=False, by_alias=True)
    except ValidationError as error:
        errors.extend(f"{document.at(path)}: {subject}: {line}" for path, line in located_errors(error))
        return None


def _not_an_object(content: Any) -> str | None:
    if not isinstance(content, dict):
        return f"a manifest is a mapping with apiVersion, kind, metadata and spec; this is {str(content)[:60]!r}"
    for field in ("apiVersion", "kind"):
        if not isinstance(content.get(field), str):
            example = API_VERSION if field == "apiVersion" else INFERENCE_SERVICE.name
            return f"{field} is missing; write for example `{field}: {example}`"
    return None


def _unknown_kind(kind: str, version: str) -> tuple[FieldPath, str] | None:
    if version == API_VERSION and kind in KINDS:
        return None
    if kind in KINDS:
        return ("apiVersion",), f"apiVersion {version!r} must be {API_VERSION}"
    return ("kind",), f"{version} has no kind {kind}; {API_VERSION} has {', '.join(KINDS.names)}"


def _name_of(content: dict[str, Any]) -> str:
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name else "(no name)"


def _name_error(kind: str, content: dict[str, Any]) -> tuple[FieldPath, str] | None:
    """(path, message) for an invalid name or namespace; a service's name is a label value."""
    metadata = content.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") is None:
        return ("metadata",), "metadata.name: is required; every object needs one"
    path, wrong = ("metadata", "name"), _bad_name(kind, metadata["name"])
    if wrong is None and metadata.get("namespace") is not None:
        path, wrong = ("metadata", "namespace"), _bad_namespace(metadata["namespace"])
    return None if wrong is None else (path, f"{'.'.join(path)}: {wrong}")


def _bad_name(kind: str, name: object) -> str | None:
    if not isinstance(name, str):
        return f"{name!r} is not text; put it in quotes"
    if len(name) > 253 or not re.fullmatch(DNS_SUBDOMAIN_PATTERN, name):
        return (
            f"{name!r} is not a DNS subdomain: at most 253 lower-case letters, digits, dashes and dots, "
            "beginning and ending with a letter or digit, for example g4dn.xlarge"
        )
    if KINDS[kind].labels_pods and len(name) > 63:
        return f"{name!r} has {len(name)} characters; at most 63, since it becomes a label of pods"
    return None


def _bad_namespace(namespace: object) -> str | None:
    if isinstance(namespace, str) and len(namespace) <= 63 and re.fullmatch(DNS_LABEL_PATTERN, namespace):
        return None
    return f"{namespace!r} is not a DNS label: at most 63 lower-case letters, digits and dashes"
