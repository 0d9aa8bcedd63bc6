"""Reads the manifests that `kubectl apply` takes: files, folders, `-`, several documents, lists.

Every error names the file, the document, the object and the field, and says what would be right.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import yaml
from pydantic import ValidationError

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.manifest_errors import field_errors
from hetserve.api.model_profile import ModelProfile
from hetserve.api.names import API_VERSION, GROUP
from hetserve.api.scalars import DNS_LABEL_PATTERN, DNS_SUBDOMAIN_PATTERN
from hetserve.api.yaml_loader import StrictLoader

KINDS: Final = ("InferenceService", "InstanceType", "ModelProfile")
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_DEFAULT_NAMESPACE: Final = "default"

ApiObject = InferenceService | InstanceType | ModelProfile
_Model = TypeVar("_Model", InferenceService, InstanceType, ModelProfile)


class ManifestError(Exception):
    """The input cannot be used; one line per error."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects of hetserve in the input, in its order. notes: what was passed over, for stderr."""

    services: tuple[InferenceService, ...]
    types: tuple[InstanceType, ...]
    profiles: tuple[ModelProfile, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """One object of the input and where it stands: `rm2.yaml, document 3, item 2`."""

    where: str
    content: Any


def read_manifests(paths: Iterable[str], stdin: IO[str] | None = None) -> Manifests:
    """Objects of all files; a folder stands for its .yaml, .yml and .json files by name, `-` for stdin.

    Raises ManifestError with every error found, not only the first.
    """
    documents: list[Document] = []
    errors: list[str] = []
    for name, text in _texts(paths, stdin or sys.stdin, errors):
        documents.extend(_documents(name, text, errors))
    return parse_documents(documents, errors)


def parse_documents(documents: Iterable[Document], errors: Sequence[str] = ()) -> Manifests:
    """Objects of documents that are already loaded; errors: what was found before."""
    found = list(errors)
    notes: list[str] = []
    objects: list[ApiObject] = []
    seen: dict[tuple[str, str, str], str] = {}
    for document in documents:
        parsed = _parse(document, found, notes)
        if parsed is None:
            continue
        key = (parsed.kind, _namespace(parsed), parsed.metadata.name)
        if key in seen:
            found.append(f"{document.where}: {key[0]}/{key[2]} is there twice, first in {seen[key]}; keep one")
        seen.setdefault(key, document.where)
        objects.append(parsed)
    if found:
        raise ManifestError(found)
    return Manifests(
        tuple(o for o in objects if isinstance(o, InferenceService)),
        tuple(o for o in objects if isinstance(o, InstanceType)),
        tuple(o for o in objects if isinstance(o, ModelProfile)),
        tuple(notes),
    )


def _namespace(parsed: ApiObject) -> str:
    # InstanceTypes are cluster-scoped: a namespace on one means nothing.
    return "" if isinstance(parsed, InstanceType) else parsed.metadata.namespace or _DEFAULT_NAMESPACE


def _texts(paths: Iterable[str], stdin: IO[str], errors: list[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        for name in _files(path, errors):
            try:
                yield ("stdin", stdin.read()) if name == "-" else (name, Path(name).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
                errors.append(f"{name}: cannot be read: {reason}")


def _files(path: str, errors: list[str]) -> list[str]:
    if path == "-" or not Path(path).is_dir():
        return [path]
    names = sorted(str(entry) for entry in Path(path).iterdir() if entry.suffix in _SUFFIXES and entry.is_file())
    if not names:
        errors.append(f"{path}: the folder holds no {', '.join(_SUFFIXES)} file")
    return names


def _documents(name: str, text: str, errors: list[str]) -> Iterator[Document]:
    try:
        loaded = list(yaml.load_all(text, Loader=StrictLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        errors.append(f"{name}: not valid YAML: {_yaml_reason(error)}")
        return
    for number, content in enumerate(loaded, start=1):
        if content is not None:
            yield from _items(Document(f"{name}, document {number}", content))


def _yaml_reason(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem or error.context}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return " ".join(str(error).split())


def _items(document: Document) -> Iterator[Document]:
    """The document itself, or the items of a List."""
    content = document.content
    if isinstance(content, dict) and str(content.get("kind", "")).endswith("List") and "items" in content:
        items = content["items"] if isinstance(content["items"], list) else [content["items"]]
        for number, item in enumerate(items, start=1):
            yield Document(f"{document.where}, item {number}", item)
    else:
        yield document


def _parse(document: Document, errors: list[str], notes: list[str]) -> ApiObject | None:
    content, where = document.content, document.where
    wrong = _not_an_object(content)
    if wrong is not None:
        errors.append(f"{where}: {wrong}")
        return None
    kind, version = content["kind"], content["apiVersion"]
    subject = f"{kind}/{_name_of(content)}"
    if version.split("/")[0] != GROUP and kind not in KINDS:
        notes.append(f"{where}: {subject} is not of {GROUP}: ignored")
        return None
    wrong = _unknown_kind(kind, version) or _name_error(kind, content)
    if wrong is not None:
        errors.append(f"{where}: {subject}: {wrong}")
        return None
    try:
        # strict: as the apiserver does, take no text where the schema says number.
        return _MODELS[kind](content)
    except ValidationError as error:
        errors.extend(f"{where}: {subject}: {line}" for line in field_errors(error))
        return None


def _validator(model: type[_Model]) -> Callable[[Any], _Model]:
    return lambda content: model.model_validate(content, strict=True, by_name=False, by_alias=True)


_MODELS: Final[dict[str, Callable[[Any], ApiObject]]] = {
    "InferenceService": _validator(InferenceService),
    "InstanceType": _validator(InstanceType),
    "ModelProfile": _validator(ModelProfile),
}


def _not_an_object(content: Any) -> str | None:
    if not isinstance(content, dict):
        return f"a manifest is a mapping with apiVersion, kind, metadata and spec; this is {str(content)[:60]!r}"
    for field in ("apiVersion", "kind"):
        if not isinstance(content.get(field), str):
            return f"{field} is missing; write for example `{_example(field)}`"
    return None


def _unknown_kind(kind: str, version: str) -> str | None:
    if version == API_VERSION and kind in KINDS:
        return None
    if kind in KINDS:
        return f"apiVersion {version!r} must be {API_VERSION}"
    return f"{version} has no kind {kind}; {API_VERSION} has {', '.join(KINDS)}"


def _example(field: str) -> str:
    return f"apiVersion: {API_VERSION}" if field == "apiVersion" else "kind: InferenceService"


def _name_of(content: dict[str, Any]) -> str:
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name else "(no name)"


def _name_error(kind: str, content: dict[str, Any]) -> str | None:
    """What the apiserver would say of metadata.name; a service's name must also make a label value."""
    metadata = content.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") is None:
        return "metadata.name: is required; every object needs one"
    name = metadata["name"]
    if not isinstance(name, str):
        return f"metadata.name: {name!r} is not text; put it in quotes"
    if len(name) > 253 or not re.fullmatch(DNS_SUBDOMAIN_PATTERN, name):
        return (
            f"metadata.name: {name!r} is not a DNS subdomain: at most 253 lower-case letters, digits, dashes and dots, "
            "beginning and ending with a letter or digit, for example g4dn.xlarge"
        )
    namespace = metadata.get("namespace")
    if namespace is not None and not (
        isinstance(namespace, str) and len(namespace) <= 63 and re.fullmatch(DNS_LABEL_PATTERN, namespace)
    ):
        return f"metadata.namespace: {namespace!r} is not a DNS label: at most 63 lower-case letters, digits and dashes"
    if kind != "ModelProfile" and len(name) > 63:
        return f"metadata.name: {name!r} has {len(name)} characters; at most 63, since it becomes a label of pods"
    return None
