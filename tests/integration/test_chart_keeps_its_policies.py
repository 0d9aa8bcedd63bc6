"""Whatever is switched on or off: every pod is restricted, every right is narrow, every selector has its pods."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import pytest
import yaml

from harness.chart import chart_objects, render_chart
from harness.kube import Manifest
from hetserve.api.names import ADMISSION_POLICIES

pytestmark = pytest.mark.cluster  # helm is one of the tools that are built

DIGEST: Final = f"sha256:{'0' * 64}"
ALL: Final = ("operator", "extender", "scheduler", "router")
PODS: Final = ("operator", "scheduler", "router")
"""The extender is a container of the scheduler's pod."""
LEADS: Final = "hetserve.io/leads."
"""With the name of a router the label that its leader writes on its own pod."""
LABELS: Final = {"team": "serving", "cost-center": "42"}
GIVEN: Final = ("kind=ServiceAccount", "name=prometheus", "namespace=monitoring")
SWITCHES: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "workloads": ([], ["components.enabled=false"]),
    "admission": ([], ["admission.enabled=false"]),
    "crds": ([], ["crds.install=false"]),
    "mode": ([], ["extender.mode=score"]),
    "pull": ([], ["imagePullSecrets[0].name=pull"]),
    "nodes": ([], ["nodeSelector.pool=system"]),
    "tolerations": ([], ["tolerations[0].key=system", "tolerations[0].operator=Exists"]),
    "gates": ([], ["uninstall.liftGates=false"]),
    "services": ([], ["monitoring.services=false"]),
    "probes": (
        [],
        ["probes.authorization=none"],
        [f"probes.{who}[0].{f}" for who in ("metricsReaders", "readers") for f in GIVEN],
    ),
    "monitor": ([], ["monitoring.serviceMonitor.enabled=true"]),
    "rule": ([], ["monitoring.prometheusRule.enabled=true"]),
    "dashboards": ([], ["monitoring.dashboards.enabled=true"]),
    **{
        f"election of the {name}": ([], [f"{name}.leaderElection.enabled=false", f"{name}.replicas=1"])
        for name in ("operator", "scheduler")
    },
    "budgets": ([], [f"{name}.podDisruptionBudget.enabled=false" for name in PODS]),
    "names": ([], ["nameOverride=gpu"], ["fullnameOverride=a-name-of-exactly-forty-characters-x-ab"]),
    "digests": ([], [f"{name}.image.digest={DIGEST}" for name in ALL]),
    "labels": ([], [f"commonLabels.{key}={value}" for key, value in LABELS.items()]),
    "prometheus": (
        [],
        ["metrics.prometheus.url=https://p", "metrics.prometheus.tokenSecret.name=t", "metrics.prometheus.caFile=/ca"],
    ),
    "pods": (
        [],
        [
            *(f"{name}.podLabels.tier=control" for name in PODS),
            *(f"{name}.podAnnotations.example\\.com/scrape=no" for name in PODS),
            *(f"{name}.serviceAccount.annotations.example\\.com/role=r" for name in PODS),
            *(f"{name}.priorityClassName=system-cluster-critical" for name in PODS),
            *(f"{name}.extraArgs[0]=--extra" for name in ALL),
            *(f"{name}.extraEnv[0].name=TZ,{name}.extraEnv[0].value=UTC" for name in ALL),
            *(f"{name}.affinity.nodeAffinity.x=y" for name in PODS),
            *(
                f"{name}.topologySpreadConstraints[0].{field}"
                for name in PODS
                for field in ("maxSkew=1", "topologyKey=zone", "whenUnsatisfiable=ScheduleAnyway")
            ),
        ],
    ),
}
"""Settings of each switch, one list per position."""

Choice = tuple[int, ...]


def refused(choice: Choice) -> bool:
    """Combinations that the chart itself refuses, by a test of their own."""
    at = dict(zip(SWITCHES, choice, strict=True))
    return bool((at["monitor"] and (at["services"] or at["workloads"])) or (at["prometheus"] and at["workloads"]))


def pairs(choice: Choice) -> set[tuple[int, int, int, int]]:
    """Which two switches stand how beside one another."""
    return {(a, choice[a], b, choice[b]) for a, b in itertools.combinations(range(len(choice)), 2)}


def pairwise() -> list[Choice]:
    """Few choices in which every two positions that go together stand beside one another, the defaults first."""
    chance = random.Random(17)  # noqa: S311
    sizes = [len(positions) for positions in SWITCHES.values()]
    pool = [tuple(chance.randrange(size) for size in sizes) for _ in range(1000)]
    pool = [choice for choice in pool if not refused(choice)]
    of = {choice: pairs(choice) for choice in pool}
    missing = set[tuple[int, int, int, int]]().union(*of.values())
    found = [tuple(0 for _ in sizes)]
    missing -= pairs(found[0])
    while missing:
        best = max(pool[:600], key=lambda choice: len(of[choice] & missing))
        if not of[best] & missing:
            best = next(choice for choice in pool if of[choice] & missing)
        found.append(best)
        missing -= of[best]
    return found


CHOICES: Final = pairwise()


@cache
def rendered(choice: Choice) -> tuple[Manifest, ...]:
    """Objects of the chart with these positions of the switches."""
    settings = [s for at, positions in zip(choice, SWITCHES.values(), strict=True) for s in positions[at]]
    strings = [s for s in settings if s.startswith("commonLabels")]
    others = [s for s in settings if not s.startswith("commonLabels")]
    arguments = [word for s in strings for word in ("--set-string", s)] + [w for s in others for w in ("--set", s)]
    return tuple(chart_objects(*arguments))


@pytest.fixture(params=CHOICES, ids=lambda choice: "".join(map(str, choice)))
def choice(request: pytest.FixtureRequest) -> Choice:
    found: Choice = request.param
    return found


@pytest.fixture
def chart(choice: Choice) -> tuple[Manifest, ...]:
    return rendered(choice)


def of_kind(chart: Sequence[Manifest], *kinds: str) -> list[Manifest]:
    return [document for document in chart if document["kind"] in kinds]


def templates(chart: Sequence[Manifest]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name of the workload, and its pods' template."""
    for workload in of_kind(chart, "Deployment", "Job"):
        yield workload["metadata"]["name"], workload["spec"]["template"]


def pods(chart: Sequence[Manifest]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same of every pod: that of `helm test` has no workload."""
    yield from templates(chart)
    for pod in of_kind(chart, "Pod"):
        yield pod["metadata"]["name"], pod


def selected(chart: Sequence[Manifest], selector: Mapping[str, str]) -> list[str]:
    """Workloads whose pods have these labels, or write them."""
    wanted = {key: value for key, value in selector.items() if not key.startswith(LEADS)}
    return [name for name, pod in templates(chart) if wanted.items() <= pod["metadata"]["labels"].items()]


def test_every_two_positions_that_go_together_are_tried() -> None:
    tried = set[tuple[int, int, int, int]]().union(*map(pairs, CHOICES))
    sizes = [len(positions) for positions in SWITCHES.values()]
    every = {
        (a, x, b, y)
        for a, b in itertools.combinations(range(len(sizes)), 2)
        for x, y in itertools.product(range(sizes[a]), range(sizes[b]))
    }
    names = list(SWITCHES)
    left = {frozenset((names[a], names[b])) for a, _, b, _ in every - tried}
    assert left == {
        frozenset(("workloads", "monitor")),
        frozenset(("services", "monitor")),
        frozenset(("workloads", "prometheus")),
    }
    assert len(CHOICES) < 40


def test_names_are_unique(chart: tuple[Manifest, ...]) -> None:
    names = Counter((d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]) for d in chart)
    assert [name for name, count in names.items() if count > 1] == []
    assert all(len(name) <= 63 for kind, _, name in names if kind in ("Service", "Job", "Deployment"))


def test_pods_keep_the_restricted_level(chart: tuple[Manifest, ...]) -> None:
    for name, template in pods(chart):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] > 0, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        for volume in spec.get("volumes", []):
            assert {"configMap", "secret", "emptyDir"} & volume.keys(), f"{name}: {volume}"
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert not any("hostPort" in port for port in container.get("ports", [])), name


def test_containers_are_limited_and_what_runs_on_is_probed(chart: tuple[Manifest, ...]) -> None:
    running = {d["metadata"]["name"] for d in of_kind(chart, "Deployment")}
    for name, template in pods(chart):
        for container in template["spec"]["containers"]:
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name
            assert "memory" in container["resources"]["limits"], name
            assert container["image"].count(":") == 1, f"{name}: {container['image']} has one tag or one digest"
            if name in running:
                assert {"livenessProbe", "readinessProbe"} <= container.keys(), name


def test_every_pod_keeps_to_the_nodes_and_the_images_that_were_given(
    choice: Choice, chart: tuple[Manifest, ...]
) -> None:
    at = dict(zip(SWITCHES, choice, strict=True))
    given: list[tuple[str, Any, bool]] = [
        ("imagePullSecrets", [{"name": "pull"}], False),
        ("nodeSelector", {"pool": "system"}, True),
        ("tolerations", [{"key": "system", "operator": "Exists"}], True),
    ]
    for (key, value, of_ours), switch in zip(given, ("pull", "nodes", "tolerations"), strict=True):
        for name, pod in templates(chart) if of_ours else pods(chart):
            assert pod["spec"].get(key) == (value if at[switch] else None), f"{name}: {key}"


def test_what_is_switched_off_is_left_out_and_nothing_else(choice: Choice, chart: tuple[Manifest, ...]) -> None:
    at = dict(zip(SWITCHES, choice, strict=True))
    kinds = Counter(document["kind"] for document in chart)
    policies = 0 if at["admission"] else len(ADMISSION_POLICIES)
    assert kinds["ValidatingAdmissionPolicy"] == kinds["ValidatingAdmissionPolicyBinding"] == policies
    assert kinds["CustomResourceDefinition"] == (0 if at["crds"] else 3)
    jobs = {document["metadata"]["name"].rpartition("-")[2] for document in of_kind(chart, "Job")}
    runs = not at["workloads"]
    assert jobs == ({"gates"} if runs and not at["gates"] else set())
    (scheduler,) = [d for d in of_kind(chart, "ConfigMap") if "scheduler.yaml" in d.get("data", {})]
    (extender,) = yaml.safe_load(scheduler["data"]["scheduler.yaml"])["extenders"]
    assert ("prioritizeVerb" in extender) == bool(at["mode"]), "the scheduler asks as the extender answers"
    (settings,) = [
        d for d in of_kind(chart, "ConfigMap") if "placementLog" in d.get("data", {}).get("settings.yaml", "")
    ]
    assert yaml.safe_load(settings["data"]["settings.yaml"])["mode"] == ("score" if at["mode"] else "decide")


def test_rights_are_narrow(chart: tuple[Manifest, ...]) -> None:
    for role in of_kind(chart, "Role", "ClusterRole"):
        for rule in role["rules"]:
            words = {*rule.get("apiGroups", []), *rule.get("resources", []), *rule["verbs"]}
            assert not words & {"*", "escalate", "bind", "impersonate", "deletecollection", "secrets"}, rule
            assert "nonResourceURLs" not in rule or "*" not in rule["nonResourceURLs"], rule
    for binding in of_kind(chart, "RoleBinding", "ClusterRoleBinding"):
        assert "admin" not in binding["roleRef"]["name"]
        assert {subject["kind"] for subject in binding["subjects"]} == {"ServiceAccount"}


def test_what_is_referred_to_is_there(chart: tuple[Manifest, ...]) -> None:
    there = {(d["kind"], d["metadata"]["name"]) for d in chart}
    stock = {"system:kube-scheduler", "system:volume-scheduler", "extension-apiserver-authentication-reader"}
    for binding in of_kind(chart, "RoleBinding", "ClusterRoleBinding"):
        role = binding["roleRef"]
        assert role["name"] in stock or (role["kind"], role["name"]) in there
        own = [subject for subject in binding["subjects"] if subject["namespace"] != "monitoring"]
        assert all(("ServiceAccount", subject["name"]) in there for subject in own)
    for name, template in templates(chart):
        account = template["spec"].get("serviceAccountName")
        if account is None:
            assert template["spec"]["automountServiceAccountToken"] is False, f"{name} has the default account's token"
        assert account is None or ("ServiceAccount", account) in there, name
        for volume in template["spec"].get("volumes", []):
            assert "configMap" not in volume or ("ConfigMap", volume["configMap"]["name"]) in there, name


def test_every_selector_has_the_pods_of_one_component(chart: tuple[Manifest, ...]) -> None:
    for document in of_kind(chart, "Service", "Deployment", "PodDisruptionBudget"):
        spec = document["spec"]
        selector = spec["selector"]
        found = selected(chart, selector.get("matchLabels", selector))
        assert len(found) == 1, f"{document['kind']} {document['metadata']['name']} selects {found}"


def test_services_lead_to_ports_that_there_are_and_each_is_scraped_once(chart: tuple[Manifest, ...]) -> None:
    pods = dict(templates(chart))
    services = of_kind(chart, "Service")
    for service in services:
        (name,) = selected(chart, service["spec"]["selector"])
        ports = {p["name"]: p["containerPort"] for c in pods[name]["spec"]["containers"] for p in c["ports"]}
        for port in service["spec"]["ports"]:
            if "queries" in ports and port["port"] != ports["probes"]:
                assert port["targetPort"] == "queries", service["metadata"]["name"]
            else:
                assert ports[port["targetPort"]] == port["port"], service["metadata"]["name"]
    scraped = Counter[str]()
    for monitor in of_kind(chart, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        found = [s for s in services if wanted.items() <= s["metadata"]["labels"].items()]
        scraped.update(service["metadata"]["name"] for service in found)
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["honorLabels"] is True
        assert all(endpoint["port"] in {p["name"] for p in service["spec"]["ports"]} for service in found)
    assert set(scraped.values()) <= {1}
    assert len(scraped) in (0, len(ALL))


@pytest.mark.parametrize("name", PODS)
def test_a_budget_stands_where_there_is_more_than_one_replica(name: str) -> None:
    def budgets(*arguments: str) -> set[str]:
        return {d["metadata"]["name"] for d in of_kind(chart_objects(*arguments), "PodDisruptionBudget")}

    full = {each: f"hetserve-{each}{'-default' * (each == 'router')}" for each in PODS}
    assert budgets() == set(full.values())
    alone = f"{name}.replicas=1" if name == "router" else f"{name}.leaderElection.enabled=false,{name}.replicas=1"
    assert budgets() - budgets("--set", alone) == {full[name]}
    assert budgets() - budgets("--set", f"{name}.podDisruptionBudget.enabled=false") == {full[name]}


def test_labels_for_all_are_on_all_and_in_no_selector() -> None:
    arguments = [word for key, value in LABELS.items() for word in ("--set-string", f"commonLabels.{key}={value}")]
    more = "monitoring.serviceMonitor.enabled=true,monitoring.prometheusRule.enabled=true"
    chart = chart_objects("--set", f"crds.install=false,monitoring.dashboards.enabled=true,{more}", *arguments)
    for document in chart:
        assert LABELS.items() <= document["metadata"]["labels"].items(), document["metadata"]["name"]
        if document["kind"] in ("Deployment", "PodDisruptionBudget"):
            assert not LABELS.keys() & document["spec"]["selector"]["matchLabels"].keys()
    assert all(LABELS.items() <= pod["metadata"]["labels"].items() for _, pod in templates(chart))


@pytest.mark.parametrize(
    ("narrower", "kind"),
    [
        ("monitoring.serviceMonitor.labels", "ServiceMonitor"),
        ("monitoring.prometheusRule.labels", "PrometheusRule"),
        ("operator.serviceAccount.labels", "ServiceAccount"),
        ("operator.podLabels", "Deployment"),
    ],
)
def test_a_label_of_one_object_wins_over_the_same_for_all(narrower: str, kind: str) -> None:
    more = "monitoring.serviceMonitor.enabled=true,monitoring.prometheusRule.enabled=true"
    rendered = render_chart("--set", f"crds.install=false,{more},commonLabels.team=all,{narrower}.team=one")
    (found, *_) = [
        d
        for d in yaml.safe_load_all(rendered)
        if d
        and d["kind"] == kind
        and d["metadata"]["name"] in ("hetserve", "hetserve-operator", "hetserve-operator-metrics")
    ]
    labelled = found["spec"]["template"] if kind == "Deployment" else found
    assert labelled["metadata"]["labels"]["team"] == "one"
    assert rendered.count("team: one") == rendered.count("team: one\n") == (len(ALL) if kind == "ServiceMonitor" else 1)


def test_what_is_said_of_pods_and_accounts_is_theirs() -> None:
    given = SWITCHES["pods"][1]
    chart = chart_objects(*(word for setting in given for word in ("--set", setting)))
    for deployment in of_kind(chart, "Deployment"):
        pod = deployment["spec"]["template"]
        assert pod["metadata"]["labels"]["tier"] == "control"
        assert pod["metadata"]["annotations"]["example.com/scrape"] == "no"
        assert "checksum/settings" in pod["metadata"]["annotations"]
        assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
        assert pod["spec"]["affinity"] == {"nodeAffinity": {"x": "y"}}
        assert [c["topologyKey"] for c in pod["spec"]["topologySpreadConstraints"]] == ["zone"]
        for container in pod["spec"]["containers"]:
            assert "--extra" in (container.get("args") or container["command"])
            assert {"name": "TZ", "value": "UTC"} in container["env"]
    of_pods = {
        deployment["spec"]["template"]["spec"]["serviceAccountName"] for deployment in of_kind(chart, "Deployment")
    }
    accounts = [a for a in of_kind(chart, "ServiceAccount") if a["metadata"]["name"] in of_pods]
    assert [a["metadata"]["annotations"] for a in accounts] == [{"example.com/role": "r"}] * len(PODS)


def readers(chart: Sequence[Manifest]) -> dict[str, list[tuple[str, ...]]]:
    """By path: who of a chart's subjects may get it on the probe ports."""
    paths = {
        d["metadata"]["name"]: [u for r in d["rules"] for u in r.get("nonResourceURLs", [])]
        for d in of_kind(chart, "ClusterRole")
    }
    found: dict[str, list[tuple[str, ...]]] = {}
    for binding in of_kind(chart, "ClusterRoleBinding"):
        for path in paths.get(binding["roleRef"]["name"], []):
            found.setdefault(path, []).extend((s.get("namespace", ""), s["name"]) for s in binding["subjects"])
    return found


def test_only_subjects_that_are_given_read_the_probe_ports_and_an_account_that_nothing_runs_under() -> None:
    own = ("hetserve-system", "hetserve-reader")
    paths = ("/ledger", "/log", "/times", "/refusing")
    assert readers(chart_objects()) == {path: [own] for path in paths}
    more = chart_objects(*(word for setting in SWITCHES["probes"][2] for word in ("--set", setting)))
    given = ("monitoring", "prometheus")
    assert readers(more) == {path: [own, given] for path in paths} | {"/metrics": [given]}
    assert "hetserve-reader" not in {t["spec"]["serviceAccountName"] for _, t in templates(more)}


def test_components_that_ask_nobody_may_ask_nothing_and_no_token_is_scraped_with() -> None:
    chart = chart_objects("--set", "probes.authorization=none,monitoring.serviceMonitor.enabled=true")
    assert readers(chart) == {}
    assert "tokenreviews" not in str(of_kind(chart, "ClusterRole"))
    tokens = {
        m["metadata"]["name"]: "bearerTokenFile" in m["spec"]["endpoints"][0] for m in of_kind(chart, "ServiceMonitor")
    }
    assert [name for name, shown in tokens.items() if shown] == ["hetserve-scheduler-metrics"]
    asking = chart_objects("--set", "monitoring.serviceMonitor.enabled=true")
    assert all("bearerTokenFile" in m["spec"]["endpoints"][0] for m in of_kind(asking, "ServiceMonitor"))


def test_the_token_of_a_secret_is_shown_instead_of_prometheus_own() -> None:
    monitor = "monitoring.serviceMonitor"
    chart = chart_objects("--set", f"{monitor}.enabled=true,{monitor}.tokenSecret.name=scraper")
    for one in of_kind(chart, "ServiceMonitor"):
        (endpoint,) = one["spec"]["endpoints"]
        assert endpoint["authorization"] == {"credentials": {"name": "scraper", "key": "token"}}
        assert "bearerTokenFile" not in endpoint


def test_another_name_is_the_name_of_everything_but_the_scheduler_that_pods_ask_for() -> None:
    rendered = render_chart("--set", "crds.install=false,nameOverride=a,fullnameOverride=gpu")
    # Policies of admission are one per cluster, as the release is.
    chart = [d for d in yaml.safe_load_all(rendered) if d and not d["kind"].startswith("ValidatingAdmissionPolicy")]
    names = {document["metadata"]["name"] for document in chart}
    assert {name for name in names if not name.startswith("gpu-")} == {"hetserve-one-release-per-cluster"}
    assert "schedulerName: hetserve-scheduler" in rendered
    assert "system:serviceaccount:hetserve-system:hetserve-" not in rendered, "an account of the usual name"


def test_a_digest_wins_over_a_tag() -> None:
    chart = chart_objects("--set", f"operator.image.digest={DIGEST},operator.image.tag=v9")
    images = {one["name"]: one["image"] for _, pod in templates(chart) for one in pod["spec"]["containers"]}
    assert images["operator"] == f"hetserve/operator@{DIGEST}"
    assert images["extender"] == "hetserve/extender:0.1.0"


def test_a_cluster_below_1_35_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match=r"kubeVersion: >=1\.35\.0-0 which is incompatible with Kubernetes v1\.34\.9"
    ):
        render_chart("--kube-version", "1.34.9")
