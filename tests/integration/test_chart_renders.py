"""What the chart renders, against golden files (HETSERVE_UPDATE_GOLDEN=1 rewrites them), and what it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from documented import FENCED
from harness.chart import chart_objects, render_chart
from harness.components import ROOT
from harness.kube import documents_of
from hetserve_extender.settings import Settings
from hetserve_operator.settings import OperatorSettings
from hetserve_router.router import DRAIN_WITHIN, PROBES_DRAIN_WITHIN
from hetserve_router.settings import RouterSettings

GATEWAYS = ROOT / "docs" / "how-to-put-a-gateway-before-the-router.md"
GOLDEN = Path(__file__).parents[1] / "golden" / "chart"

pytestmark = pytest.mark.cluster  # helm is one of the tools that are built

ROUTERS: list[dict[str, Any]] = [
    {
        "name": "a",
        "namespaces": ["team"],
        "from": [{"namespaceSelector": {"matchLabels": {"team": "a"}}}],
        "referenceGrants": ["gateways"],
        "tls": {"secret": "router-tls"},
    },
    {"name": "b", "namespaces": ["*"], "tls": {"secret": "router-tls", "clientCASecret": "router-clients"}},
]
RENDERS = {
    "components left out": (
        "components-left-out.yaml",
        ["--set", "components.enabled=false,crds.install=false"],
    ),
    "everything set": (
        "everything-set.yaml",
        [
            *("--kube-version", "v1.36.3-eks-3025e55"),
            *("--set", "crds.install=false", "--set", "operator.image.tag=9.9", "--set", "extender.port=18888"),
            *("--set", "nodeSelector.pool=system", "--set", "imagePullSecrets[0].name=pull"),
            *("--set", "tolerations[0].key=system", "--set", "tolerations[0].operator=Exists"),
            *("--set", "scheduler.probePort=20259", "--set", "scheduler.kubeconfig=/tmp/kubeconfig"),
            *("--set", "extender.mode=score", "--set", "extender.policy=Spread"),
            *("--set", "extender.queue.queues=auto", "--set", "extender.queue.failOpenAfter=10m"),
            *("--set", "metrics.prometheus.url=https://prometheus.monitoring.svc:9090/team"),
            *("--set", "metrics.prometheus.caSecret.name=prometheus-ca", "--set", "metrics.prometheus.timeout=2s"),
            *("--set", "admission.serviceAccounts={default,models/reader}"),
            *("--set-json", f"routers={json.dumps(ROUTERS)}"),
            *("--set", "clusterDomain=corp.example"),
            *("--set", "metrics.prometheus.tokenSecret.name=reader", "--set", "metrics.allowQueries=true"),
            *(
                "--set-json",
                'probes.metricsReaders=[{"kind": "ServiceAccount", "name": "p", "namespace": "monitoring"}]',
            ),
            *("--set-json", 'probes.readers=[{"kind": "Group", "name": "sre"}]'),
            *("--set", "monitoring.serviceMonitor.tokenSecret.name=scraper"),
            *("--set", "commonLabels.team=serving", "--set", f"extender.image.digest=sha256:{'0' * 64}"),
            *("--set", "monitoring.serviceMonitor.enabled=true", "--set", "monitoring.serviceMonitor.labels.release=p"),
            *("--set", "scheduler.podLabels.tier=control", "--set", "scheduler.podAnnotations.note=n"),
            *("--set", "scheduler.serviceAccount.labels.tier=control", "--set", "scheduler.priorityClassName=high"),
            *("--set", "scheduler.serviceAccount.annotations.note=n", "--set", "scheduler.affinity.nodeAffinity.x=y"),
            *(
                "--set-json",
                'scheduler.extraEnv=[{"name": "TZ", "value": "UTC"}]',
                "--set",
                "scheduler.extraArgs={--v=2}",
            ),
            *("--set", "operator.podDisruptionBudget.maxUnavailable=2", "--set", "scheduler.replicas=3"),
        ],
    ),
}

REFUSED = {
    "a port out of range": ("extender.port=70000", "extender/port"),
    "a duration without a unit": ("extender.reservationTimeout=30x", "reservationTimeout"),
    "a saturation of nothing": ("operator.saturationThreshold=0.0", "saturationThreshold"),
    "a mode that the extender does not have": ("extender.mode=guess", "extender/mode"),
    "a policy that nobody wrote": ("extender.policy=FirstFit", "extender/policy"),
    "two operators that nobody elects one of": ("operator.leaderElection.enabled=false", "operator.replicas must be 1"),
    "two schedulers that nobody elects one of": (
        "scheduler.leaderElection.enabled=false",
        "scheduler.replicas must be 1",
    ),
    "a scheduler's Lease of half seconds": ("scheduler.leaderElection.leaseDuration=2500ms", "leaseDuration"),
    "a name that no object can have": ("fullnameOverride=GPU_1", "fullnameOverride"),
    "a name that leaves no room for the components'": (f"nameOverride={'n' * 41}", "nameOverride"),
    "a label that selects": ("commonLabels.app\\.kubernetes\\.io/name=x", "commonLabels"),
    "a label of the chart's": ("scheduler.podLabels.hetserve\\.io/leader=yes", "scheduler/podLabels"),
    "a label's value with a blank": ("operator.podLabels.team=a b", "operator/podLabels/team"),
    "an annotation that the chart writes": ("operator.podAnnotations.checksum/settings=x", "operator/podAnnotations"),
    "a digest that is cut off": ("scheduler.image.digest=sha256:12", "scheduler/image/digest"),
    "a priority class that no cluster can have": ("operator.priorityClassName=Very High", "priorityClassName"),
    "an affinity in a wrong place": ("operator.affinity.requiredDuringScheduling=x", "operator/affinity"),
    "a spread without a topology": ("operator.topologySpreadConstraints[0].maxSkew=1", "topologySpreadConstraints/0"),
    "a budget that lets nothing go": ("operator.podDisruptionBudget.maxUnavailable=0", "maxUnavailable"),
    "an argument that is no text": ("extender.extraArgs[0]=1", "extraArgs/0"),
    "a variable without a name": ("extender.extraEnv[0].value=1", "extraEnv/0"),
    "a variable that the chart sets": ("operator.extraEnv[0].name=POD_NAME", "extraEnv/0/name"),
    "an account's label with two slashes": ("operator.serviceAccount.labels.a/b/c=x", "serviceAccount/labels"),
    "a scrape without an interval": ("monitoring.serviceMonitor.interval=often", "serviceMonitor/interval"),
    "monitors of Services that are not there": (
        "monitoring.serviceMonitor.enabled=true,monitoring.services=false",
        "serviceMonitor.enabled needs monitoring.services",
    ),
    "monitors of pods that are not there": (
        "monitoring.serviceMonitor.enabled=true,components.enabled=false",
        "serviceMonitor.enabled needs components.enabled",
    ),
    "readers whom nobody asks about": ("probes.authorization=maybe", "probes/authorization"),
    "a reader in no namespace": (
        "probes.readers[0].kind=ServiceAccount,probes.readers[0].name=p",
        "probes/readers/0",
    ),
    "a router with the name of all routers' metrics": (
        "routers[0].name=metrics,routers[0].namespaces={a}",
        "routers/0/name",
    ),
    "a router for nobody": ("routers[0].name=a", "routers/0"),
    "a router with a long name": (f"routers[0].name={'n' * 16},routers[0].namespaces={{a}}", "routers/0/name"),
    "a namespace of two routers": (
        "routers[0].name=a,routers[0].namespaces={team},routers[1].name=b,routers[1].namespaces={x,team}",
        "routers: namespace team is served by a and b: leave one",
    ),
    "a router's name twice": (
        "routers[0].name=a,routers[0].namespaces={x},routers[1].name=a,routers[1].namespaces={y}",
        "routers: the name a is there twice: leave one",
    ),
    "a router that nobody may ask": ("routers[0].from={}", "routers/0/from"),
    "a router's certificate of no Secret": ("routers[0].tls.clientCASecret=a", "routers/0/tls"),
    "ports of a router that are one": (
        "router.tlsPort=8000",
        "router.port, router.tlsPort and router.probePort are ports of one pod and must differ, got 8000, 8000, 8891",
    ),
    "a domain with a blank": ("clusterDomain=a b", "clusterDomain"),
    "an unknown value": ("extender.prot=1", "prot"),
    "a log level that no component knows": ("operator.logLevel=loud", "operator/logLevel"),
    "a saturation above one": ("operator.saturationThreshold=1.5", "saturationThreshold"),
    "a slow-down below one": ("sharing.maxSlowdown=0.9", "sharing/maxSlowdown"),
    "a slow-down that is no text": ("sharing.maxSlowdown=2", "sharing/maxSlowdown"),
    "a Prometheus with a password in its address": ("metrics.prometheus.url=http://me:secret@x", "prometheus/url"),
    "a Prometheus without a scheme": ("metrics.prometheus.url=prometheus:9090", "prometheus/url"),
    "a token over HTTP": ("metrics.prometheus.tokenFile=/t", "need an https metrics.prometheus.url"),
    "a CA for HTTP": ("metrics.prometheus.caSecret.name=a", "caSecret and metrics.prometheus.caFile need an https"),
    "a token from a relative path": ("metrics.prometheus.tokenFile=t", "tokenFile"),
    "a token twice": (
        "metrics.prometheus.url=https://x,metrics.prometheus.tokenFile=/t,metrics.prometheus.tokenSecret.name=t",
        "say the same thing twice",
    ),
    "a Secret that nothing mounts": (
        "metrics.prometheus.url=https://x,metrics.prometheus.tokenSecret.name=t,components.enabled=false",
        "set metrics.prometheus.tokenFile",
    ),
    "an account that could not be one": ("admission.serviceAccounts[0]=It's", "serviceAccounts/0"),
    "an account in too many namespaces": ("admission.serviceAccounts[0]=a/b/c", "serviceAccounts/0"),
    "certificates of the verbs, which nobody hears from outside": ("tls.mode=Disabled", "additional properties 'tls'"),
    "a policy for a port that nobody reaches": ("networkPolicy.enabled=true", "additional properties 'networkPolicy'"),
    "replicas of a container": ("extender.replicas=2", "additional properties 'replicas'"),
    "an election of the extender's own": ("extender.leaderElection.leaseName=x", "additional properties 'leaderEl"),
    "another way to the extender": ("scheduler.extenderUrl=http://x", "additional properties 'extenderUrl'"),
}


@pytest.mark.parametrize(("name", "arguments"), RENDERS.values(), ids=RENDERS)
def test_render_is_as_recorded(name: str, arguments: list[str]) -> None:
    rendered = render_chart(*arguments)
    if os.environ.get("HETSERVE_UPDATE_GOLDEN"):
        (GOLDEN / name).write_text(rendered)
    assert rendered == (GOLDEN / name).read_text()


def test_leaving_the_components_out_leaves_out_their_workloads_and_nothing_else() -> None:
    def objects(*arguments: str) -> set[tuple[str, str]]:
        documents: list[Any] = chart_objects(*arguments)
        return {(d["kind"], d["metadata"]["name"]) for d in documents}

    left_out = objects() - objects("--set", "components.enabled=false")

    kinds = {"Deployment", "Service", "PodDisruptionBudget", "Pod"}
    hook = {(kind, "hetserve-lift-gates") for kind in ("Job", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")}
    assert hook <= left_out
    assert {kind for kind, _ in left_out - hook} == kinds
    assert ("Pod", "hetserve-test-gpu") in left_out
    assert {name for kind, name in left_out if kind == "Deployment"} == {
        "hetserve-operator",
        "hetserve-scheduler",
        "hetserve-router-default",
    }


def test_the_lock_names_the_accounts_of_the_release_and_can_be_left_out() -> None:
    def policies(*arguments: str) -> dict[str, Any]:
        documents = chart_objects(*arguments)
        locks = [d for d in documents if d["kind"].startswith("ValidatingAdmissionPolicy")]
        assert all(d["spec"]["validationActions"] == ["Deny"] for d in locks if d["kind"].endswith("Binding"))
        found = {d["metadata"]["name"]: d["spec"] for d in locks if not d["kind"].endswith("Binding")}
        assert sorted(d["spec"]["policyName"] for d in locks if d["kind"].endswith("Binding")) == sorted(found)
        return found

    found = policies("--namespace", "elsewhere")
    for name, component in (("pods", "scheduler"), ("bindings", "scheduler"), ("fences", "operator")):
        assert f'"system:serviceaccount:elsewhere:hetserve-{component}"' in yaml.safe_dump(
            found[f"hetserve-{name}"], width=1000
        )
    assert policies("--set", "admission.enabled=false") == {}


def test_without_an_election_there_is_one_pair_and_the_old_one_goes_first() -> None:
    documents = chart_objects("--set", "scheduler.leaderElection.enabled=false", "--set", "scheduler.replicas=1")
    scheduler = {d["kind"]: d for d in documents if d["metadata"]["name"] == "hetserve-scheduler"}
    assert scheduler["Deployment"]["spec"]["replicas"] == 1
    assert scheduler["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert not {"Role", "PodDisruptionBudget"} & scheduler.keys(), "a Lease and a budget that nobody needs"
    (settings,) = [d["data"] for d in documents if d["kind"] == "ConfigMap" and "extender" in d["metadata"]["name"]]
    assert yaml.safe_load(settings["settings.yaml"])["scheduler"]["leaseName"] == ""


def test_scheduler_and_extender_are_one_pod_and_no_port_of_the_verbs_is_named() -> None:
    documents = chart_objects()
    (deployment,) = [d for d in documents if d["kind"] == "Deployment" and "scheduler" in d["metadata"]["name"]]
    extender, scheduler = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for one in (scheduler, extender) for port in one["ports"]}
    assert ports == {"scheduler": 10259, "extender": 8889}
    targets = [port["targetPort"] for d in documents if d["kind"] == "Service" for port in d["spec"]["ports"]]
    assert sorted(targets) == ["extender", "probes", "probes", "queries", "queries", "scheduler"]
    (settings,) = [d["data"] for d in documents if d["kind"] == "ConfigMap" and "extender" in d["metadata"]["name"]]
    read = Settings.model_validate(yaml.safe_load(settings["settings.yaml"]))
    (config,) = [d["data"] for d in documents if d["kind"] == "ConfigMap" and "scheduler" in d["metadata"]["name"]]
    (asked,) = yaml.safe_load(config["scheduler.yaml"])["extenders"]
    assert asked["urlPrefix"] == f"http://127.0.0.1:{read.port}"
    assert read.scheduler.health_url == "https://127.0.0.1:10259/livez"
    assert scheduler["livenessProbe"]["httpGet"] == {"path": "/livez", "port": 8889}, (
        "a scheduler whose extender hangs would keep its Lease"
    )


def test_a_probe_names_ports_of_its_own_container_alone() -> None:
    """The kubelet looks nowhere else for a name, and without its startup probe a container gets no other."""
    for deployment in (d for d in chart_objects() if d["kind"] == "Deployment"):
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            own = {port["name"] for port in container.get("ports", ())}
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                port = container.get(kind, {}).get("httpGet", {}).get("port", 0)
                assert isinstance(port, int) or port in own, (deployment["metadata"]["name"], container["name"], kind)


def test_the_ports_of_one_pod_differ() -> None:
    with pytest.raises(RuntimeError, match="are ports of one pod and must differ, got 8888, 8889, 8889"):
        render_chart("--set", "scheduler.probePort=8889")


def test_without_an_election_there_is_one_operator_and_no_lease() -> None:
    rendered = render_chart("--set", "operator.leaderElection.enabled=false", "--set", "operator.replicas=1")
    documents = [d for d in yaml.safe_load_all(rendered) if d]
    operator = {d["kind"]: d for d in documents if d["metadata"]["name"] == "hetserve-operator"}
    assert operator["Deployment"]["spec"]["replicas"] == 1
    assert not {"Role", "PodDisruptionBudget"} & operator.keys(), "a Lease and a budget that nobody needs"


@pytest.mark.parametrize(("given", "lease"), [("leaseName=x", "x"), ("enabled=false,scheduler.replicas=1", "")])
def test_the_operator_asks_for_bookings_where_the_extender_has_a_lease(given: str, lease: str) -> None:
    documents = chart_objects("--set", f"scheduler.leaderElection.{given}")
    (settings,) = [d["data"] for d in documents if d["kind"] == "ConfigMap" and "operator" in d["metadata"]["name"]]
    sharing = yaml.safe_load(settings["settings.yaml"])["sharing"]
    where = {"extenderNamespace": "hetserve-system", "extenderLease": lease}
    assert sharing == {"maxSlowdown": "1.75", "mpsMemoryLimit": True, **where}
    roles = [d for d in documents if d["kind"] == "Role" and d["metadata"]["name"].endswith("-extender-lease")]
    granted = [(rule["resourceNames"], rule["verbs"]) for role in roles for rule in role["rules"]]
    assert granted == ([([lease], ["get"])] if lease else [])


def test_an_old_operator_ends_before_a_new_one_comes_with_and_without_an_election() -> None:
    alone = "operator.leaderElection.enabled=false,operator.replicas=1"
    for rendered in (render_chart(), render_chart("--set", alone)):
        (operator,) = [
            d
            for d in yaml.safe_load_all(rendered)
            if d and d["kind"] == "Deployment" and d["metadata"]["name"] == "hetserve-operator"
        ]
        assert operator["spec"]["strategy"] == {"type": "Recreate"}


def test_a_component_reads_the_lease_that_the_chart_grants_it() -> None:
    documents = chart_objects(
        "--set", "operator.leaderElection.leaseName=x", "--set", "scheduler.leaderElection.leaseName=y"
    )
    named = {(d["kind"], d["metadata"]["name"]): d for d in documents}
    for component, lease in (("operator", "x"), ("extender", "y"), ("scheduler", "y")):
        role = named["Role", f"hetserve-{component}"]
        assert [rule["resourceNames"] for rule in role["rules"]] == [[lease]]
    operator, extender = (
        yaml.safe_load(named["ConfigMap", f"hetserve-{component}"]["data"]["settings.yaml"])
        for component in ("operator", "extender")
    )
    assert operator["leaderElection"]["leaseName"] == "x"
    assert extender["scheduler"]["leaseName"] == "y"


@pytest.mark.parametrize(("setting", "named"), REFUSED.values(), ids=REFUSED)
def test_a_value_that_would_not_work_is_refused_by_name(setting: str, named: str) -> None:
    flag = "--set-string" if "saturation" in setting or "=0.9" in setting else "--set"
    with pytest.raises(RuntimeError, match=named):
        render_chart(flag, setting)


def test_every_workload_is_complete() -> None:
    for document in chart_objects():
        if not document or document["kind"] != "Deployment":
            continue
        for container in document["spec"]["template"]["spec"]["containers"]:
            name = container["name"]
            assert not container["image"].endswith(":latest"), name
            assert {"livenessProbe", "readinessProbe", "resources", "securityContext"} <= container.keys(), name
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name


def test_the_operator_reads_prometheus_token_and_ca_from_the_secrets_that_are_mounted() -> None:
    at = "metrics.prometheus"
    given = f"{at}.url=https://x,{at}.tokenSecret.name=reader,{at}.tokenSecret.key=t,{at}.caSecret.name=trust"
    documents = chart_objects("--set", given)
    settings, deployment = (
        {d["kind"]: d for d in documents if d["metadata"]["name"] == "hetserve-operator"}[kind]
        for kind in ("ConfigMap", "Deployment")
    )
    pod = deployment["spec"]["template"]["spec"]
    secrets = {v["name"]: v["secret"] for v in pod["volumes"] if "secret" in v}
    mounts = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    files = {
        f"{mounts[name]}/{item['path']}": (secret["secretName"], item["key"])
        for name, secret in secrets.items()
        for item in secret["items"]
    }

    read = OperatorSettings.model_validate(yaml.safe_load(settings["data"]["settings.yaml"])).metrics.prometheus

    assert files == {read.token_file: ("reader", "t"), read.ca_file: ("trust", "ca.crt")}
    assert "reader" not in settings["data"]["settings.yaml"]


def test_without_prometheus_nothing_is_mounted_and_nothing_is_asked() -> None:
    documents = [d for d in chart_objects() if d and d["metadata"]["name"] == "hetserve-operator"]
    by_kind = {d["kind"]: d for d in documents}
    volumes = by_kind["Deployment"]["spec"]["template"]["spec"]["volumes"]

    settings = OperatorSettings.model_validate(yaml.safe_load(by_kind["ConfigMap"]["data"]["settings.yaml"]))

    assert settings.metrics == OperatorSettings().metrics
    assert not settings.metrics.prometheus.configured
    assert [v["name"] for v in volumes] == ["settings", "tmp"]


def test_uninstalling_first_lifts_our_gates_where_the_components_run_and_nobody_said_no() -> None:
    def jobs(*arguments: str) -> list[Any]:
        rendered = chart_objects("--set", "crds.install=false", *arguments)
        return [item for item in rendered if item and item["kind"] == "Job"]

    (job,) = jobs()
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["hetserve", "queue", "release", "--all", "--yes"]
    assert jobs("--set", "components.enabled=false") == []
    assert jobs("--set", "uninstall.liftGates=false") == []


def test_the_job_that_lifts_gates_has_what_it_needs_though_nothing_of_the_release_was_made() -> None:
    """An installation that failed may have left no account, and helm uninstall must end."""
    rendered = chart_objects("--set", "crds.install=false")
    hooks = {d["kind"]: d for d in rendered if d["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-delete"}
    assert set(hooks) == {"Job", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    pod = hooks["Job"]["spec"]["template"]["spec"]
    account = hooks["ServiceAccount"]["metadata"]
    assert pod["serviceAccountName"] == account["name"]
    assert hooks["ClusterRoleBinding"]["roleRef"]["name"] == hooks["ClusterRole"]["metadata"]["name"]
    (subject,) = hooks["ClusterRoleBinding"]["subjects"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding"):
        annotations = hooks[kind]["metadata"]["annotations"]
        assert int(annotations["helm.sh/hook-weight"]) < 0, "before the Job, whose weight is 0"
        assert {"hook-succeeded", "hook-failed"} <= set(annotations["helm.sh/hook-delete-policy"].split(","))


@pytest.mark.parametrize("arguments", [(), ("--set", "extender.queue.failOpenAfter=10m")])
def test_the_extender_may_write_events_and_do_nothing_else_with_them(arguments: tuple[str, ...]) -> None:
    rendered = chart_objects("--set", "crds.install=false", *arguments)
    (role,) = [r for r in rendered if r and r["kind"] == "ClusterRole" and r["metadata"]["name"] == "hetserve-extender"]
    (rule,) = [rule for rule in role["rules"] if "events" in rule["resources"]]
    assert rule == {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}, (
        "a gated pod that cannot be read is told so by an event, whether the watchdog is on or not"
    )


def test_a_router_is_reached_by_the_ports_of_its_setting_and_by_no_other_way() -> None:
    """With an authority of clients no query comes without a certificate, wherever it comes from."""
    named = {
        (d["kind"], d["metadata"]["name"]): d for d in chart_objects("--set-json", f"routers={json.dumps(ROUTERS)}")
    }
    files = named["ConfigMap", "hetserve-router"]["data"]
    for name, asks in (("hetserve-router-a", False), ("hetserve-router-b", True)):
        settings = RouterSettings.model_validate(yaml.safe_load(files[f"{name}.yaml"]))
        assert settings.tls is not None
        pod = named["Deployment", name]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports == {"tls": settings.tls.port, "probes": settings.probe_port} | (
            {} if asks else {"queries": settings.port}
        )
        served = {port["port"]: port["targetPort"] for port in named["Service", name]["spec"]["ports"]}
        assert served == {443: "tls"} | ({} if asks else {80: "queries", 8001: "queries"})
        mounted = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}["tls"]
        (volume,) = [v["projected"] for v in pod["volumes"] if v["name"] == "tls"]
        there = {Path(mounted, item["path"]) for source in volume["sources"] for item in source["secret"]["items"]}
        assert there == {settings.tls.certificate, settings.tls.key} | ({settings.tls.client_ca} if asks else set())
    opened, probes = named["NetworkPolicy", "hetserve-router-a"]["spec"]["ingress"]
    assert opened == {"from": ROUTERS[0]["from"], "ports": [{"port": "queries"}, {"port": "tls"}]}
    assert probes == {"ports": [{"port": "probes"}]}
    assert ("NetworkPolicy", "hetserve-router-b") not in named


def test_a_router_has_time_to_end() -> None:
    (router,) = [d for d in chart_objects() if d["kind"] == "Deployment" and "router" in d["metadata"]["name"]]
    grace = router["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > DRAIN_WITHIN + DRAIN_WITHIN + PROBES_DRAIN_WITHIN, "what still comes, what waits, the port of probes"


def test_the_page_about_gateways_shows_routes_that_fit_the_values_which_it_shows(tmp_path: Path) -> None:
    blocks = [yaml.safe_load(text) for language, text in FENCED.findall(GATEWAYS.read_text()) if language == "yaml"]
    rendered = list[dict[str, Any]]()
    for values in (block for block in blocks if "routers" in block):
        (file := tmp_path / f"{len(rendered)}.yaml").write_text(yaml.safe_dump(values))
        rendered += documents_of(render_chart("--values", str(file)))
    shown = {block["kind"]: block for block in blocks if "kind" in block}
    (rule,) = shown["HTTPRoute"]["spec"]["rules"]
    (backend,) = rule["backendRefs"]
    services = [d for d in rendered if d["kind"] == "Service" and d["metadata"]["name"] == backend["name"]]
    ports = {port["port"] for service in services for port in service["spec"]["ports"]}
    assert {backend["port"], 443} <= ports, "443 is that of the paragraph on TLS"
    assert {service["metadata"]["namespace"] for service in services} == {backend["namespace"]}
    (grant,) = [d["spec"] for d in rendered if d["kind"] == "ReferenceGrant"]
    assert shown["HTTPRoute"]["metadata"]["namespace"] in {one["namespace"] for one in grant["from"]}
    assert grant["to"] == [{"group": "", "kind": "Service", "name": backend["name"]}]
    (target,) = shown["BackendTLSPolicy"]["spec"]["targetRefs"]
    assert (target["name"], shown["BackendTLSPolicy"]["metadata"]["namespace"]) == (
        backend["name"],
        backend["namespace"],
    )
    (letting,) = shown["NetworkPolicy"]["spec"]["ingress"]
    pods = [
        d["spec"]["template"]["metadata"]["labels"]
        for d in rendered
        if d["kind"] == "Deployment" and d["metadata"]["name"] == backend["name"]
    ]
    assert pods
    assert all(letting["from"][0]["podSelector"]["matchLabels"].items() <= labels.items() for labels in pods)
