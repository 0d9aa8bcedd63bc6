"""Promise: a stock scheduler places pods over mutual TLS, nobody else is heard, and certificates and authorities change
under arriving pods."""

from __future__ import annotations

import base64
import itertools
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from authorities import CLIENT, PAST, SERVER, Authority, Leaf, secret
from harness import limits, mutual_tls
from harness.cluster import Cluster
from harness.commands import hetserve
from harness.kube import Kube
from harness.nodes import INSTANCE_TYPE_LABEL
from harness.sandbox import Sandbox
from harness.state import StateFolder
from harness.waiting import Unmet, wait_until
from hetserve.api.names import RESOURCE_GPU_MEMORY, SCHEDULER_NAME, SYSTEM_NAMESPACE
from hetserve.placement.check import violations

VERBS: Final = ("filter", "prioritize", "bind", "healthz", "ledger")
EVERY: Final = 0.15
"""Seconds between arriving pods."""


class Scene:
    """A cluster whose verbs are served over mutual TLS, with a namespace of pods."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.sandbox = Sandbox(cluster, namespace)
        self.namespace = namespace
        self.kube = cluster.kube

    @property
    def folder(self) -> StateFolder:
        return self.cluster.folder

    def install(self, mode: str, *, fresh: bool = True) -> None:
        self.cluster.install_chart(mutual_tls.values(self.cluster.ports, self.folder, mode), fresh=fresh)

    def start(self) -> None:
        """The extender and the scheduler: nothing else is asked for here."""
        self.cluster.give_leases_up()
        for name in ("extender", "scheduler"):
            self.cluster.start_component(name)

    def data(self, name: str) -> dict[str, str]:
        return {
            key: base64.b64decode(value).decode()
            for key, value in self.kube.get("secrets", name, SYSTEM_NAMESPACE)["data"].items()
        }

    def give(self, side: str, leaf: Leaf, *authorities: Authority) -> None:
        """Writes a side's Secret, and mounts it."""
        metadata = {"name": mutual_tls.secret_of(side), "namespace": SYSTEM_NAMESPACE}
        found = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": secret(leaf, *authorities)}
        self.kube.apply(found)
        mutual_tls.mount(self.kube, self.folder)

    def shown(self) -> bytes:
        """The certificate that the extender shows now."""
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", self.cluster.ports.extender)))

    def wait_until_shown(self, leaf: Leaf) -> None:
        wanted = ssl.PEM_cert_to_DER_cert(leaf.pem)
        wait_until(
            lambda: self.shown() == wanted or Unmet("the one before"), limits.ANSWER, "the new certificate to be shown"
        )

    def metric(self, name: str) -> float:
        text = self.cluster.extender("/metrics").text
        return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(name)))

    def told(self, account: Path | None = None) -> list[tuple[str, str]]:
        """Level and first words of what the doctor finds of certificates."""
        said = json.loads(hetserve("doctor", "-o", "json", account=account or self.folder.kubeconfig, code=3))
        found = [one for one in said["findings"] if one["check"] == "certificates"]
        return [(one["level"], one["what"].partition(",")[0]) for one in found]

    def call(self, context: ssl.SSLContext, verb: str) -> httpx.Response:
        url = f"https://127.0.0.1:{self.cluster.ports.extender}/{verb}"
        pod = {"metadata": {"name": "x", "namespace": self.namespace, "uid": "u"}, "spec": {"containers": []}}
        body = {"Pod": pod, "Nodes": None, "NodeNames": ["n"]}
        with httpx.Client(verify=context, trust_env=False) as client:
            return client.post(url, json=body, extensions={"sni_hostname": SERVER})

    def refused(self, context: ssl.SSLContext) -> bool:
        """Whether no verb answers to this context."""
        for verb in VERBS:
            with pytest.raises((httpx.TransportError, ssl.SSLError)):
                self.call(context, verb)
        return True

    @contextmanager
    def arriving(self) -> Iterator[Callable[[], int]]:
        """Pods that arrive one by one during the block; gives their number. All are bound soon after."""
        stop, numbers = threading.Event(), itertools.count()
        made = [0]

        def arrive() -> None:
            kube = Kube(self.folder.kubeconfig)
            while not stop.wait(EVERY):
                kube.create(self._pod(f"arriving-{next(numbers):04}"))
                made[0] += 1
            kube.close()

        thread = threading.Thread(target=arrive)
        thread.start()
        try:
            yield lambda: made[0]
        finally:
            stop.set()
            thread.join()
        self.sandbox.wait_for_bound(made[0], timeout=limits.REACTION)
        assert not violations(self.kube.list("pods"), self.kube.list("nodes"))

    def _pod(self, name: str) -> dict[str, Any]:
        limits = {"limits": {RESOURCE_GPU_MEMORY: "256"}}
        spec = {
            "schedulerName": SCHEDULER_NAME,
            "nodeSelector": {INSTANCE_TYPE_LABEL: self.sandbox.scoped("big")},
            "containers": [{"name": "model", "image": "none", "resources": limits}],
        }
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def goes_on(self, pods: int = 1) -> None:
        """Waits until more pods are bound than now."""
        now = len(self.sandbox.bound())
        wait_until(lambda: len(self.sandbox.bound()) >= now + pods or Unmet("none"), limits.REACTION, "more bound pods")


@pytest.fixture
def scene(own_cluster: Cluster, namespace: str) -> Scene:
    made = Scene(own_cluster, namespace)
    own_cluster.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}})
    return made


@pytest.mark.timeout(limits.LONG_TEST)
def test_the_chart_makes_certificates_and_keeps_them(scene: Scene, tmp_path: Path) -> None:
    scene.install("SelfSigned")
    scene.start()
    scene.sandbox.nodes("big", count=2, gpus=4)
    scene.sandbox.deployment("before", "big", replicas=5, mib=1024, model=None)
    scene.sandbox.wait_for_bound(5)

    names = [mutual_tls.secret_of(side) for side in mutual_tls.SIDES]
    before = {name: scene.data(name) for name in (*names, "hetserve-ca")}
    authority = mutual_tls.folder_of(scene.folder, "scheduler") / "ca.crt"
    other = Authority(tmp_path, "hetserve-ca")
    assert scene.refused(ssl.create_default_context(cafile=authority))
    assert scene.refused(other.leaf(CLIENT).client(authority))
    assert scene.metric("hetserve_verbs_refused_clients_total") == 2 * len(VERBS)

    assert scene.told() == [("Ok", "extender and scheduler trust each other")]

    scene.install("SelfSigned", fresh=False)
    assert {name: scene.data(name) for name in before} == before, "an upgrade keeps them"

    scene.kube.delete("secrets", names[0], SYSTEM_NAMESPACE)
    scene.install("SelfSigned", fresh=False)
    renewed = scene.data(names[0])
    assert renewed["tls.crt"] != before[names[0]]["tls.crt"]
    assert (renewed["ca.crt"], scene.data(names[1])) == (before[names[0]]["ca.crt"], before[names[1]])
    wanted = ssl.PEM_cert_to_DER_cert(renewed["tls.crt"])
    wait_until(lambda: scene.shown() == wanted or Unmet("the one before"), limits.ANSWER, "the renewed one to be shown")
    scene.sandbox.deployment("after", "big", replicas=5, mib=1024, model=None)
    scene.sandbox.wait_for_bound(10)

    scene.kube.delete("secrets", "hetserve-ca", SYSTEM_NAMESPACE)
    scene.install("SelfSigned", fresh=False)
    trusted = scene.data(names[0])["ca.crt"]
    assert trusted == scene.data(names[1])["ca.crt"]
    assert trusted.count("BEGIN CERTIFICATE") == 2, "the authority of before is trusted beside the new one"
    assert before[names[0]]["ca.crt"].strip() in trusted
    scene.cluster.restart_component("scheduler")
    scene.sandbox.deployment("anew", "big", replicas=5, mib=1024, model=None)
    scene.sandbox.wait_for_bound(15)


@pytest.mark.timeout(limits.LONG_TEST)
def test_certificates_and_authorities_change_under_arriving_pods(scene: Scene, tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    with pytest.raises(RuntimeError, match=r"tls\.secret\.extender: Secret hetserve-extender-tls .* is not there"):
        scene.install("Secret")
    scene.give("extender", old.server(), old)
    scene.give("scheduler", old.leaf(CLIENT), old)
    scene.install("Secret")
    scene.start()
    scene.sandbox.nodes("big", count=4, gpus=8)

    with scene.arriving():
        scene.goes_on(5)
        ours = old.leaf(CLIENT).client(old.certificate)
        assert scene.call(ours, "healthz").status_code == 200
        assert scene.refused(ssl.create_default_context(cafile=old.certificate))
        assert scene.refused(new.leaf(CLIENT).client(old.certificate))
        assert scene.refused(old.leaf(CLIENT, when=PAST).client(old.certificate))
        assert scene.refused(old.leaf("somebody").client(old.certificate))

        # A leaf of each side: nobody is restarted.
        leaf = old.server()
        scene.give("extender", leaf, old)
        scene.wait_until_shown(leaf)
        scene.give("scheduler", old.leaf(CLIENT, days=3), old)
        scene.goes_on()

        # One that cannot serve changes nothing.
        scene.give("extender", old.server(when=PAST), old)
        wait_until(
            lambda: scene.metric("hetserve_certificate_reload_failed") == 1.0 or Unmet("0"),
            limits.ANSWER,
            "the metric to tell",
        )
        assert scene.shown() == ssl.PEM_cert_to_DER_cert(leaf.pem)
        scene.goes_on()
        scene.give("extender", leaf, old)

        # 1. Both sides trust both. The scheduler reads its authorities once: it is restarted.
        scene.give("extender", leaf, old, new)
        scene.give("scheduler", old.leaf(CLIENT), old, new)
        scene.cluster.restart_component("scheduler")
        scene.goes_on()
        # 2. Leaves of the new authority. The scheduler shows its new one when a connection is new.
        leaf = new.server()
        scene.give("extender", leaf, old, new)
        scene.give("scheduler", new.leaf(CLIENT, days=2), old, new)
        scene.wait_until_shown(leaf)
        # 3. Nobody trusts the old one: the extender closes what it let in, and the scheduler comes with the new leaf.
        scene.give("extender", leaf, new)
        scene.give("scheduler", new.leaf(CLIENT, days=2), new)
        wait_until(
            lambda: _closed_to(scene, ours) or Unmet("still let in"),
            limits.ANSWER,
            "the old authority to count no more",
        )
        scene.goes_on()
        scene.cluster.restart_component("scheduler")
        scene.goes_on()
        assert scene.call(new.leaf(CLIENT).client(new.certificate), "healthz").status_code == 200


def _closed_to(scene: Scene, context: ssl.SSLContext) -> bool:
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        scene.call(context, "healthz")
    except (httpx.TransportError, ssl.SSLError):
        return True
    return False
