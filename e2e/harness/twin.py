"""The load twin of a cluster: what it plays and what it says; its role is that of its page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from harness import limits
from harness.beside import TWIN
from harness.cluster import Cluster
from harness.components import HOST, ROOT, write_account
from harness.files import write_whole
from harness.kube import Manifest
from hetserve.api.names import SYSTEM_NAMESPACE

Trace = Iterable[tuple[float, float]]
"""Times [s] and rates [queries/s]."""


def documented_role() -> Manifest:
    """The ClusterRole of docs/how-to-play-loads.md."""
    page = (ROOT / "docs" / "how-to-play-loads.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (role,) = (block for block in blocks if "ClusterRole" in block)
    found: Manifest = yaml.safe_load(role)
    return found


class Twin:
    """The load twin of a cluster: its process, its loads, its figures."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.url = f"http://{HOST}:{cluster.ports.twin}"

    def play(self, loads: Mapping[tuple[str, str], Trace], *, batches: str | None = None, **settings: Any) -> None:
        """Starts it with these traces by (namespace, service), and waits until it plays; settings: as in its file.

        batches: sizes of all queries, as in its file; None: as the services declare. One that runs is ended first.
        """
        self._cluster.stop_component(TWIN)
        write_account(self._cluster.kube, self._cluster.folder, self._account())
        given = {"host": HOST, "port": self._cluster.ports.twin, "probeAuthorization": "none", **settings}
        sizes = {} if batches is None else {"batches": batches}
        given["loads"] = [
            {**self._load(namespace, service, trace), **sizes} for (namespace, service), trace in loads.items()
        ]
        path = self._cluster.component(TWIN).settings_file(self._cluster.folder)
        write_whole(path, yaml.safe_dump(given))
        self._cluster.start_component(TWIN)

    def stop(self) -> None:
        """Ends it in order: what has arrived is served."""
        self._cluster.stop_component(TWIN)

    def requests(self, namespace: str, service: str) -> dict[str, float]:
        """Queries of a service: those that pods have served by pod, and `received` and `dropped`."""
        found: dict[str, float] = {}
        for sample in self._samples(namespace, service):
            if sample.name == "hetserve_requests_total":
                found[sample.labels["pod"] or sample.labels["outcome"]] = sample.value
        found.pop("served")  # by nobody: always 0
        return found

    def _samples(self, namespace: str, service: str) -> Iterator[Sample]:
        """Everything that it exports of a service."""
        text = httpx.get(f"{self.url}/metrics", timeout=limits.ANSWER, trust_env=False).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if (sample.labels.get("namespace"), sample.labels.get("service")) == (namespace, service):
                    yield sample

    def _load(self, namespace: str, service: str, trace: Trace) -> dict[str, str]:
        path = self._cluster.folder.path / "twin" / f"{namespace}-{service}.csv"
        write_whole(path, "\n".join(["time_s,qps", *(f"{time!r},{rate!r}" for time, rate in trace), ""]))
        return {"namespace": namespace, "service": service, "trace": str(path)}

    def _account(self) -> str:
        """An account with the documented role alone."""
        role = documented_role()
        subject = {"kind": "ServiceAccount", "name": TWIN, "namespace": SYSTEM_NAMESPACE}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]}
        binding = {
            "apiVersion": role["apiVersion"],
            "kind": "ClusterRoleBinding",
            "metadata": {"name": TWIN},
            "roleRef": reference,
            "subjects": [subject],
        }
        metadata = {"name": TWIN, "namespace": SYSTEM_NAMESPACE}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        self._cluster.apply([account, role, binding])
        return TWIN
