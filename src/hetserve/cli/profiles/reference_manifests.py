"""Manifests of published measurements: what the papers have in common, and how they are written."""

from __future__ import annotations

from typing import Any

from hetserve.api.kinds import INFERENCE_SERVICE, INSTANCE_TYPE
from hetserve.api.manifests import Document, parse_documents
from hetserve.api.names import API_VERSION
from hetserve.base.units import parse_duration
from hetserve.cli.output.streams import dump, write_or_print
from hetserve.profiles.spec import milliseconds

Json = dict[str, Any]


def checked(documents: list[Json], source: str, scale: float = 1.0) -> list[Json]:
    """The documents, with all times multiplied. Raises InputError for what no API server accepts."""
    if scale != 1:
        _stretch(documents, scale)
    parse_documents(Document(source, one) for one in documents)
    return documents


def write(documents: list[Json], head: str, output: str | None) -> None:
    """Writes them to a file or to standard output; exits where that is not possible."""
    text = f"# {head}\n" + "".join(f"---\n{dump([one], 'yaml', rows=True)}" for one in documents)
    write_or_print(text, output)


def instance_type(name: str, **spec: Any) -> Json:
    spec["nodeSelector"] = {"node.kubernetes.io/instance-type": name}
    return {"apiVersion": API_VERSION, "kind": INSTANCE_TYPE.name, "metadata": {"name": name}, "spec": spec}


def service(name: str, image: str, arguments: list[str], **spec: Any) -> Json:
    """image: of the container; arguments: of its command. spec: all but the template."""
    container = {
        "name": "model",
        "image": image,
        "args": arguments,
        "ports": [{"name": "grpc", "containerPort": 8500}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod_security = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    spec["template"] = {"spec": {"securityContext": pod_security, "containers": [container]}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": API_VERSION, "kind": INFERENCE_SERVICE.name, "metadata": metadata, "spec": spec}


def _stretch(documents: list[Json], scale: float) -> None:
    """Multiplies the latencies of profiles, and the SLOs and deadlines of services."""
    for spec in (document["spec"] for document in documents):
        curves = [spec.get("latency"), *(one["latency"] for one in spec.get("variants", ()))]
        timed = [row for curve in curves if curve for row in curve.get("table", ())]
        timed += [spec[name] for name in ("slo", "dispatch") if name in spec]
        if "source" in spec:
            spec["source"] += f"; all times x {scale:g}"
        for entry in timed:
            names = entry.keys() & {"mean", "min", "p50", "p90", "p99", "max", "latency", "deadline"}
            entry |= {name: milliseconds(parse_duration(entry[name]) * scale) for name in names}
