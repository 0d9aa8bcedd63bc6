"""Promise: what cannot work is refused with words that name it, and nothing of it stays."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from images import build

from harness import limits, previous
from harness.components import CHART, RELEASE
from harness.kind import KindCluster, cache, image_values
from harness.pins import HELM
from harness.tools import provide
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

CRDS: Final = ("inferenceservices", "instancetypes", "modelprofiles")
WRONG_IMAGE: Final = {
    "operator": {"replicas": 1},
    "extender": {"image": {"tag": "no-such-tag"}},
    "scheduler": {"replicas": 1},
}
OF_HELM: Final = {"configmaps": {"kube-root-ca.crt"}}
KINDS: Final = ("deployments", "services", "configmaps", "pods", "jobs")


def left(kind: KindCluster) -> list[str]:
    """What is in the system's namespace, and what a release has in no namespace."""
    found = [
        f"{plural}/{each['metadata']['name']}"
        for plural in KINDS
        for each in kind.kube.list(plural, SYSTEM_NAMESPACE)
        if each["metadata"]["name"] not in OF_HELM.get(plural, set())
    ]
    cluster_wide = ("clusterroles", "clusterrolebindings", "validatingadmissionpolicies")
    return found + [
        f"{plural}/{each['metadata']['name']}"
        for plural in cluster_wide
        for each in kind.kube.list(plural)
        if each["metadata"]["name"].startswith("hetserve")
    ]


def nothing_is_left(kind: KindCluster) -> None:
    """But for what pods that ran for a while said: their Leases."""
    wait_until(lambda: not left(kind) or Unmet(left(kind)), limits.ROLLOUT, "nothing to be left")


@pytest.fixture
def no_crds(bare_kind: KindCluster) -> Iterator[KindCluster]:
    """A cluster that has never seen hetserve."""
    without_crds(bare_kind)
    yield bare_kind
    without_crds(bare_kind)


def without_crds(kind: KindCluster) -> None:
    """Deletes the CRDs and waits until they are gone: the API server takes a moment to end what is stored.

    It is told again while one is there: one that was deleted right after its creation has stayed for half a minute.
    """
    names = [f"{plural}.hetserve.io" for plural in CRDS]

    def gone() -> bool | Unmet:
        there = [name for name in names if kind.kube.find("customresourcedefinitions", name)]
        for name in there:
            kind.kube.delete("customresourcedefinitions", name)
        return not there or Unmet(there)

    wait_until(gone, limits.REACTION, "no CRD of hetserve to be left")


def test_a_wrong_image_is_named_by_the_doctor_while_helm_waits_and_rolled_back(no_crds: KindCluster) -> None:
    def waiting() -> tuple[str, str] | Unmet:
        try:
            found = no_crds.diagnosed().get("hetserve-extender", ("", ""))
        except json.JSONDecodeError as error:  # it met an installation that was half there
            return Unmet(str(error))
        return found if "ErrImageNeverPull" in found[1] else Unmet(found)

    # Without hooks: the job that lifts gates would run the wrong image too, and there is no pod at a gate yet.
    flags = ("--rollback-on-failure", "--no-hooks", "--timeout", "8s")
    with ThreadPoolExecutor(1) as beside:
        installing = beside.submit(no_crds.install, WRONG_IMAGE, flags=flags)
        level, what = wait_until(waiting, limits.REACTION, "what the extender's container waits for")
        refused = installing.exception()
    image = f"{build.tag_of('extender').rpartition(':')[0]}:no-such-tag"
    assert level == "Problem"
    assert what.startswith("none of the 2 replicas is ready: container extender of pod hetserve-scheduler-")
    assert f"ErrImageNeverPull (image {image}): " in what
    assert isinstance(refused, RuntimeError)
    assert "hetserve-scheduler" in str(refused)
    assert not no_crds.installed()
    nothing_is_left(no_crds)


@pytest.mark.parametrize("plural", CRDS)
def test_crds_of_another_version_are_named(no_crds: KindCluster, plural: str) -> None:
    shown = subprocess.run(
        [provide((HELM,))["helm"], "template", RELEASE, str(previous.CHART)], check=True, capture_output=True, text=True
    )
    crds = [each for each in yaml.safe_load_all(shown.stdout) if each and each["kind"] == "CustomResourceDefinition"]
    ours = [yaml.safe_load((CHART.parents[1] / "crds" / f"{each}.yaml").read_text()) for each in CRDS]
    earlier = [each for each in crds if each["metadata"]["name"].startswith(plural)]
    no_crds.kube.apply_all([each for each in ours if not each["metadata"]["name"].startswith(plural)] + earlier)
    with pytest.raises(RuntimeError, match=rf"CRD {plural}\.hetserve\.io is of another version than hetserve"):
        no_crds.install({"crds": {"install": False}})
    nothing_is_left(no_crds)
    assert not no_crds.installed()


def test_crds_that_are_not_there_are_named(no_crds: KindCluster) -> None:
    with pytest.raises(RuntimeError, match=r"CRD inferenceservices\.hetserve\.io is not in the cluster"):
        no_crds.install({"crds": {"install": False}})
    nothing_is_left(no_crds)


def test_objects_stored_by_a_later_version_are_named(no_crds: KindCluster) -> None:
    crd = yaml.safe_load((CHART.parents[1] / "crds" / "instancetypes.yaml").read_text())
    later = {**crd["spec"]["versions"][0], "name": "v1"}
    crd["spec"]["versions"] = [{**crd["spec"]["versions"][0], "storage": False}, later]
    no_crds.kube.apply(crd)
    with pytest.raises(RuntimeError, match=r"CRD instancetypes\.hetserve\.io .* stores objects as v1, "):
        no_crds.install()
    nothing_is_left(no_crds)


@pytest.mark.beside
def test_a_second_release_is_named(kind: KindCluster, tenant: str) -> None:
    with pytest.raises(RuntimeError, match=r"release hetserve in namespace hetserve-system already runs hetserve"):
        kind.helm("install", "second", str(CHART), "--namespace", tenant, "--set", "fullnameOverride=second")
    assert kind.kube.list("deployments", tenant) == []


class AsAnEarlierVersion(http.server.BaseHTTPRequestHandler):
    """Passes requests on to `kubectl proxy`, and says another version of the API server."""

    behind: int

    def do_GET(self) -> None:
        import httpx

        answer = httpx.get(
            f"http://127.0.0.1:{self.behind}{self.path}", headers={"Accept": self.headers["Accept"] or "*/*"}
        )
        body = answer.content
        if self.path.partition("?")[0] == "/version":
            body = json.dumps({**answer.json(), "minor": "34", "gitVersion": "v1.34.9"}).encode()
        self.send_response(answer.status_code)
        self.send_header("Content-Type", answer.headers["content-type"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@contextmanager
def earlier_version(kind: KindCluster, folder: Path) -> Iterator[Path]:
    """Kubeconfig of the cluster, which says there that it is 1.34."""
    command = [str(cache() / "bin" / "kubectl"), "--kubeconfig", str(kind.kubeconfig), "proxy", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        AsAnEarlierVersion.behind = int(proxy.stdout.readline().rpartition(":")[2])
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), AsAnEarlierVersion) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "it",
                "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "users": [{"name": "it", "user": {}}],
            }
            (folder / "kubeconfig").write_text(yaml.safe_dump(config))
            try:
                yield folder / "kubeconfig"
            finally:
                server.shutdown()
                proxy.terminate()


def test_a_cluster_below_the_least_version_is_named(no_crds: KindCluster, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(image_values()))
    with earlier_version(no_crds, tmp_path) as kubeconfig, pytest.raises(RuntimeError) as refused:
        no_crds.helm("install", RELEASE, str(CHART), "--values", str(values), "--kubeconfig", str(kubeconfig))
    assert "chart requires kubeVersion: >=1.35.0-0 which is incompatible with Kubernetes v1.34.9" in str(refused.value)
    nothing_is_left(no_crds)
