"""Which certificates the chart makes, mounts and has checked before anything is installed."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import Any

import pytest
import yaml

from harness.chart import chart_objects, render_chart
from hetserve.base.certificates import Certificate, read_certificates
from hetserve_extender.main import main
from hetserve_extender.settings import Settings

pytestmark = pytest.mark.cluster  # helm is one of the tools that are built

GIVEN = "tls.mode=Secret,tls.secret.extender=verbs,tls.secret.scheduler=caller"
CHECK = "hetserve-check-certificates"


def certificates(*arguments: str) -> dict[str, dict[str, str]]:
    """Data of the Secrets that the chart makes, by name."""
    documents = chart_objects(*arguments)
    return {
        d["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in d["data"].items()}
        for d in documents
        if d["kind"] == "Secret"
    }


def test_the_chart_signs_a_certificate_for_each_side_and_the_scheduler_restarts_with_its_authority() -> None:
    rendered = chart_objects("--set", "tls.selfSigned.days=90")
    made = {d["metadata"]["name"]: d for d in rendered if d["kind"] == "Secret"}
    assert set(made) == {"hetserve-ca", "hetserve-extender-tls", "hetserve-scheduler-tls"}

    def read(name: str, key: str = "tls.crt") -> Certificate:
        (found,) = read_certificates(base64.b64decode(made[name]["data"][key]).decode())
        return found

    authority, server, client = (read(name) for name in made)
    assert "hetserve-extender.hetserve-system.svc" in server.names
    assert "hetserve-scheduler" in client.names
    for name, leaf in (("hetserve-extender-tls", server), ("hetserve-scheduler-tls", client)):
        assert leaf.issued_by(authority)
        assert read(name, "ca.crt") == authority
        assert leaf.not_after - leaf.not_before == pytest.approx(90 * 86400, abs=60)
        renewed = float(made[name]["metadata"]["annotations"]["hetserve.io/renew-after"])
        assert renewed - leaf.not_before == pytest.approx(60 * 86400, abs=60)
    assert authority.not_after > server.not_after + 19 * 365 * 86400
    trust = base64.b64decode(made["hetserve-scheduler-tls"]["data"]["ca.crt"]).decode()
    (scheduler,) = [d for d in rendered if d["kind"] == "Deployment" and d["metadata"]["name"] == "hetserve-scheduler"]
    annotations = scheduler["spec"]["template"]["metadata"]["annotations"]
    assert annotations["checksum/trust"] == sha256(trust.encode()).hexdigest()


@pytest.mark.parametrize("mode", ["Disabled", "CertManager", "Secret"])
def test_no_other_mode_makes_a_key(mode: str) -> None:
    named = ",tls.secret.extender=a,tls.secret.scheduler=b" if mode == "Secret" else ""
    assert certificates("--set", f"tls.mode={mode}{named}") == {}
    assert "PRIVATE KEY" not in render_chart("--set", f"tls.mode={mode}{named}")


def test_cert_manager_may_be_given_an_issuer() -> None:
    issuer = "tls.certManager.issuer.name=company,tls.certManager.issuer.kind=ClusterIssuer"
    documents = chart_objects("--set", f"tls.mode=CertManager,{issuer}")
    assert not [d for d in documents if d["kind"] == "Issuer"]
    asked = {d["metadata"]["name"]: d["spec"] for d in documents if d["kind"] == "Certificate"}
    assert {spec["secretName"] for spec in asked.values()} == {"hetserve-extender-tls", "hetserve-scheduler-tls"}
    assert all(spec["issuerRef"]["name"] == "company" for spec in asked.values())
    assert [spec["usages"][-1] for _, spec in sorted(asked.items())] == ["server auth", "client auth"]


def test_both_sides_read_what_is_mounted_for_them() -> None:
    bundle = "tls.trustBundle.configMap=authorities,tls.trustBundle.key=all.pem"
    for given, trust in (("", "/etc/hetserve-tls/ca.crt"), (bundle, "/etc/hetserve-tls-trust/all.pem")):
        documents = chart_objects("--set", given)
        maps = {d["metadata"]["name"]: d["data"] for d in documents if d["kind"] == "ConfigMap"}
        tls = Settings.model_validate(yaml.safe_load(maps["hetserve-extender"]["settings.yaml"])).tls
        assert (tls.cert_file, tls.client_ca_file) == ("/etc/hetserve-tls/tls.crt", trust)
        assert tls.client_names == ("hetserve-scheduler",)
        (extender,) = yaml.safe_load(maps["hetserve-scheduler"]["scheduler.yaml"])["extenders"]
        assert extender["urlPrefix"] == "https://hetserve-extender.hetserve-system.svc:8888"
        assert (extender["enableHTTPS"], extender["tlsConfig"]["caFile"]) == (True, trust)
        assert "insecure" not in extender["tlsConfig"]
        for component in ("extender", "scheduler"):
            name = f"hetserve-{component}"
            (pod,) = [
                d["spec"]["template"]["spec"]
                for d in documents
                if d["kind"] == "Deployment" and d["metadata"]["name"] == name
            ]
            secrets = [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v]
            assert secrets == [f"{name}-tls"]
            mounts = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
            assert mounts.get("trust") == ("/etc/hetserve-tls-trust" if given else None)


def check_of_certificates(*arguments: str) -> dict[str, Any]:
    """The Job that checks certificates before anything is installed; empty if there is none."""
    rendered = chart_objects("--set", "crds.install=false", *arguments)
    return next((d for d in rendered if d and (d["kind"], d["metadata"]["name"]) == ("Job", CHECK)), {})


@pytest.mark.parametrize("more", ["", ",tls.trustBundle.configMap=all,tls.trustBundle.key=all.pem"])
def test_certificates_of_secrets_are_checked_as_both_sides_will_use_them(more: str) -> None:
    given = f"{GIVEN}{more},tls.serverName=gpus.example,tls.clientNames={{a,b c}}"
    pod = check_of_certificates("--set", given)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command, *arguments = container["args"]
    with main.make_context("hetserve-extender", [command]) as called:
        found, checking, rest = main.resolve_command(called, [command, *arguments])
        assert checking is not None
        told = checking.make_context(str(found), rest, parent=called).params
    assert (told["server_name"], told["client_names"]) == ("gpus.example", ("a", "b c"))
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for side, secret in (("extender", "verbs"), ("scheduler", "caller")):
        assert volumes[mounts[str(told[side])]]["secret"] == {"secretName": secret}
    assert len(mounts) == (3 if more else 2)
    if more:
        assert told["trust"].name == "all.pem"
        assert volumes[mounts[str(told["trust"].parent)]]["configMap"] == {"name": "all"}
    else:
        assert told["trust"] is None


def test_names_of_both_sides_are_those_of_the_settings_where_none_are_given() -> None:
    arguments = check_of_certificates("--set", f"{GIVEN},fullnameOverride=gpu")
    assert arguments == {}, "it has the name of the release's objects"
    rendered = chart_objects("--set", f"{GIVEN},fullnameOverride=gpu")
    (job,) = [d for d in rendered if d["kind"] == "Job" and d["metadata"]["name"] == "gpu-check-certificates"]
    words = job["spec"]["template"]["spec"]["containers"][0]["args"]
    maps = {d["metadata"]["name"]: d["data"] for d in rendered if d["kind"] == "ConfigMap"}
    serves = yaml.safe_load(maps["gpu-extender"]["settings.yaml"])["tls"]
    (calls,) = yaml.safe_load(maps["gpu-scheduler"]["scheduler.yaml"])["extenders"]
    assert f"--server-name={calls['tlsConfig']['serverName']}" in words
    assert [f"--client-name={name}" for name in serves["clientNames"]] == words[-1:]


def test_what_is_wrong_with_certificates_is_said_by_helm_and_leaves_nothing() -> None:
    job = check_of_certificates("--set", GIVEN)
    annotations = job["metadata"]["annotations"]
    assert annotations["helm.sh/hook"].split(",") == ["pre-install", "pre-upgrade"]
    assert annotations["helm.sh/hook-output-log-policy"] == "hook-failed"
    policy = {"before-hook-creation", "hook-succeeded", "hook-failed"}
    assert set(annotations["helm.sh/hook-delete-policy"].split(",")) == policy
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (0, 60)
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod, "the release's own accounts are not there yet"


@pytest.mark.parametrize(
    "elsewhere",
    [
        "tls.mode=SelfSigned",
        "tls.mode=CertManager",
        "tls.mode=Disabled",
        f"{GIVEN},components.enabled=false",
        f"{GIVEN},tls.secret.check=false",
    ],
)
def test_certificates_that_are_made_later_or_elsewhere_are_not_checked(elsewhere: str) -> None:
    assert check_of_certificates("--set", elsewhere) == {}


def test_why_a_container_ended_stands_in_its_pods_status() -> None:
    rendered = chart_objects("--set", f"crds.install=false,{GIVEN}")
    workloads = [d for d in rendered if d["kind"] in ("Deployment", "Job")]
    assert len(workloads) == 5
    for workload in workloads:
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError", workload["metadata"]["name"]
