"""The doctor's judgement: facts in, findings out; and what it reads of an API server."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hetserve import __version__
from hetserve.api import names
from hetserve.api.crd import render_crd
from hetserve.api.kinds import KINDS, MODEL_PROFILE
from hetserve.base.units import Seconds
from hetserve.cli.app import app
from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.health.gather import differences, gather, version_of
from hetserve.cli.health.judgement import (
    CheckFinding,
    ComponentFact,
    CrdFact,
    DeploymentFact,
    FailedPods,
    LeaseFact,
    Level,
    NodesFact,
    SchedulerFact,
    Unread,
    WaitFact,
    findings,
    sound,
)
from installation_objects import settings_object
from sound_installation import EXTENDER, LEASE, OPERATOR, SCHEDULER, SECOND, WELL
from testing.cluster import gpu_node
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
PULLS = WaitFact("x-1", "extender", "r/x:1", "ImagePullBackOff", "no r/x:1")
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


def amiss(**changed: Any) -> list[CheckFinding]:
    found = findings(replace(WELL, **changed))
    return [one for one in found if one.level in (Level.PROBLEM, Level.UNKNOWN)]


def extender(**changed: Any) -> tuple[ComponentFact, ...]:
    return (OPERATOR, replace(EXTENDER, **changed), SECOND)


def second(**changed: Any) -> tuple[ComponentFact, ...]:
    return (OPERATOR, EXTENDER, replace(SECOND, **changed))


def test_a_whole_installation_is_sound_and_every_check_says_so() -> None:
    found = findings(WELL)
    assert sound(found)
    components = {"hetserve-operator", "hetserve-extender", "hetserve-scheduler"}
    checks = {"version", "versions", "crds", "scheduler", "gpus", "rights", "policy"} | components
    assert {one.check for one in found if one.level is Level.OK} == checks


CASES: dict[str, tuple[Json, str, str]] = {
    "an old cluster": ({"version": (1, 34, "v1.34.2")}, "version", "the API server is v1.34.2, below 1.35"),
    "no CRD": ({"crds": {"modelprofiles": None}}, "crds", "CRD modelprofiles.hetserve.io is not installed"),
    "another schema": (
        {"crds": {"modelprofiles": CrdFact(True, (".spec.a", ".spec.b", ".spec.c", ".spec.d"))}},
        "crds",
        "CRD modelprofiles.hetserve.io is of another version: it differs at .spec.a, .spec.b, .spec.c and 1 more",
    ),
    "a CRD that is not served": ({"crds": {"modelprofiles": CrdFact(False)}}, "crds", "is not established"),
    "not installed": ({"components": extender(settings=False)}, "hetserve-extender", "holds no ConfigMap"),
    "scaled to none": (
        {"components": extender(deployment=DeploymentFact(0, 0))},
        "hetserve-extender",
        "Deployment hetserve-scheduler is scaled to 0",
    ),
    "no replica is ready": (
        {"components": extender(deployment=DeploymentFact(2, 0))},
        "hetserve-extender",
        "none of the 2 replicas is ready",
    ),
    "never led": ({"components": extender(lease=None)}, "hetserve-extender", "nobody has ever led"),
    "given up": ({"components": extender(lease=replace(LEASE, holder=""))}, "hetserve-extender", "given its Lease up"),
    "silent": (
        {"components": extender(lease=replace(LEASE, silent=Seconds(60.0)))},
        "hetserve-extender",
        "one has not renewed its Lease for 60 s",
    ),
    "a scheduler of which no replica is ready": (
        {"components": second(deployment=DeploymentFact(2, 0), lease=None)},
        "hetserve-scheduler",
        "none of the 2 replicas is ready",
    ),
    "a scheduler that never led": (
        {"components": second(lease=None)},
        "hetserve-scheduler",
        "nobody has ever led: there is no Lease",
    ),
    "a silent scheduler": (
        {"components": second(lease=LeaseFact("one", Seconds(7.5), Seconds(5.0)))},
        "hetserve-scheduler",
        "one has not renewed its Lease for 8 s",
    ),
    "no image": (
        {"components": extender(deployment=DeploymentFact(2, 0, waits=(PULLS,)))},
        "hetserve-extender",
        "none of the 2 replicas is ready: container extender of pod x-1: ImagePullBackOff (image r/x:1): no r/x:1",
    ),
    "pods that may not be read": (
        {"components": extender(deployment=DeploymentFact(2, 0, waits=Unread("pods is forbidden")))},
        "hetserve-extender",
        "none of the 2 replicas is ready; what they wait for is not known: pods is forbidden",
    ),
    "no configuration": ({"scheduler": None}, "scheduler", "is not there or not readable"),
    "another profile": ({"scheduler": replace(SCHEDULER, names=("x",))}, "scheduler", "no profile hetserve-scheduler"),
    "no extender": ({"scheduler": replace(SCHEDULER, url=None)}, "scheduler", "no extender of it manages"),
    "an ignorable extender": ({"scheduler": replace(SCHEDULER, ignorable=True)}, "scheduler", "is ignorable"),
    "errors": ({"failed": FailedPods(2, "a/b", "dial tcp")}, "scheduling", "2 pods could not be judged; a/b: dial tcp"),
    "no GPU": ({"nodes": NodesFact(3, 0)}, "gpus", "no GPU is known on any of 3 nodes"),
    "no label": ({"nodes": NodesFact(3, 4, (), ("n1",))}, "gpus", "GPUs of a device plugin, but no inventory: n1"),
    "a bad label": ({"nodes": NodesFact(3, 4, ("node n1: label x",))}, "gpus", "node n1: label x"),
    "a right": ({"missing_rights": ("account s/a may not x",)}, "rights", "account s/a may not x"),
    "not readable": ({"nodes": Unread("nodes is forbidden")}, "gpus", "not checked: nodes is forbidden"),
}


@pytest.mark.parametrize(("changed", "check", "words"), CASES.values(), ids=CASES)
def test_each_fault_is_named_once_with_why_and_what_to_do(changed: Json, check: str, words: str) -> None:
    (found,) = amiss(**changed)
    assert found.check == check
    assert words in found.what
    assert found.why
    assert found.do
    assert not sound((found,))


def test_what_is_worth_knowing_alone_is_no_problem() -> None:
    behind = replace(WELL, components=extender(deployment=DeploymentFact(2, 1)), policies=(), own=("list nodes",))
    notes = [one.what for one in findings(behind) if one.level is Level.NOTE]
    assert sound(findings(behind))
    assert "1 of 2 replicas are ready" in notes
    assert "no ValidatingAdmissionPolicy of hetserve is installed" in notes
    assert "you may not list nodes" in notes


REMEDIES = {
    "no image": (PULLS, "put the image where its node may pull it, or name another by the chart (extender.image"),
    "no Secret": (replace(PULLS, reason="CreateContainerConfigError"), "bring what the message names; kubectl -n s"),
    "it ends": (replace(PULLS, reason="CrashLoopBackOff", ended=True), "kubectl -n s logs x-1 -c extender --previous"),
    "no node": (WaitFact("x-1", "", "", "Unschedulable", "0/3 nodes"), "kubectl -n s describe pod x-1"),
}


@pytest.mark.parametrize(("wait", "do"), REMEDIES.values(), ids=REMEDIES)
def test_what_to_do_follows_from_what_a_pod_waits_for(wait: WaitFact, do: str) -> None:
    (found,) = amiss(components=extender(deployment=DeploymentFact(2, 0, waits=(wait,))))
    assert found.do.startswith(do)


def test_an_update_that_does_not_come_through_is_told_with_what_its_pods_wait_for() -> None:
    facts = replace(WELL, components=extender(deployment=DeploymentFact(2, 2, behind=1, waits=(PULLS,))))
    (note,) = (one for one in findings(facts) if one.check == "hetserve-extender")
    assert (note.level, note.why) == (Level.NOTE, "what runs is of before")
    assert note.what.startswith("1 of 2 replicas are not of its last update: container extender of pod x-1: Image")


def test_another_version_is_a_note_that_names_both_and_what_to_do() -> None:
    old = tuple(replace(one, version="0.0.9") for one in (OPERATOR, SECOND))
    found = findings(replace(WELL, components=(old[0], EXTENDER, old[1])))
    (note,) = (one for one in found if one.check == "versions")
    installed = "hetserve 0.0.9 is installed (hetserve-operator, hetserve-scheduler)"
    assert (note.level, note.what) == (Level.NOTE, f"{installed}, and this command line is hetserve {__version__}")
    assert f"helm upgrade to hetserve {__version__}" in note.do
    assert "the command line of hetserve 0.0.9" in note.do
    assert sound(found)


def test_a_version_that_nothing_says_is_not_taken_for_ours() -> None:
    told = [one for one in findings(replace(WELL, components=extender(version=""))) if one.check == "versions"]
    assert [(one.level, one.what.partition(",")[0]) for one in told] == [
        (Level.NOTE, "nothing says which version of hetserve hetserve-extender is")
    ]


def test_a_configuration_that_is_wrong_is_named_as_the_installation_names_it() -> None:
    (found,) = amiss(scheduler=None, components=second(name="our-gpus-scheduler"))
    assert found.do.startswith("helm upgrade writes ConfigMap our-gpus-scheduler of namespace s;")


def test_a_scheduler_without_a_configuration_is_told_once() -> None:
    (found,) = amiss(scheduler=None, components=second(settings=False, lease=None, deployment=None))
    assert found.check == "scheduler"


def test_why_a_component_is_missed_does_not_depend_on_what_an_installation_is_called() -> None:
    (found,) = amiss(components=extender(name="my-operator-extender", lease=None))
    assert found.why == "without a leader no pod is placed"


def test_nodes_that_somebody_else_gives_are_noted_once_per_reason_with_the_remedy() -> None:
    words = "label a: 'b': it cuts them; switch it off"
    nodes = NodesFact(9, 4, refused={words: ("n1", "n2", "n3", "n4"), "ResourceSlice s: x; y": ("n5",)})
    told = [one for one in findings(replace(WELL, nodes=nodes)) if one.check == "gpus"]
    assert [(one.level, one.what, one.do) for one in told[:2]] == [
        (Level.NOTE, "GPUs of n1, n2, n3 and 1 more are not hetserve's: label a: 'b': it cuts them", "switch it off"),
        (Level.NOTE, "GPUs of n5 are not hetserve's: ResourceSlice s: x", "y"),
    ]
    assert told[2].what == "4 GPUs on 9 nodes"


def test_nodes_with_broken_gpus_are_a_problem_with_the_remedy() -> None:
    nodes = NodesFact(2, 16, missing={"7 of 8: the others are broken; list them": ("n1",)})
    told, _ = [one for one in findings(replace(WELL, nodes=nodes)) if one.check == "gpus"]
    assert (told.level, told.what, told.do) == (Level.PROBLEM, "n1: 7 of 8: the others are broken", "list them")


def test_processes_that_run_elsewhere_are_known_by_their_lease() -> None:
    assert amiss(components=extender(deployment=None)) == []
    assert amiss(components=extender(deployment=None, elects=False, lease=None)) == []


def test_a_minor_version_with_a_plus_is_read() -> None:
    assert version_of({"major": "1", "minor": "35+", "gitVersion": "v1.35.1-eks"}) == (1, 35, "v1.35.1-eks")
    assert version_of({}) == (0, 0, "of an unknown version")


def test_a_crd_as_the_api_server_returns_it_does_not_differ_and_each_edit_does() -> None:
    wanted = render_crd(MODEL_PROFILE)
    stored = copy.deepcopy(wanted)
    stored["spec"]["conversion"] = {"strategy": "None"}
    assert differences(stored, wanted) == ()
    version = stored["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["maxBatch"]["maximum"] = 7
    del version["additionalPrinterColumns"]
    assert differences(stored, wanted) == (".spec.maxBatch.maximum", "additionalPrinterColumns")
    version["served"] = False
    assert differences(stored, wanted) == ("version v1alpha1",)


def installed_as(prefix: str) -> tuple[dict[str, Any], ...]:
    """Objects of an installation of a name, without an extender; NVIDIA's plugin and driver hold GPUs of two nodes."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "other", "namespace": "hetserve-system"},
        "spec": {"holderIdentity": "one", "renewTime": "2026-01-01T00:00:00.500000Z", "leaseDurationSeconds": 5},
    }
    extender = {
        "urlPrefix": "http://127.0.0.1:1",
        "ignorable": True,
        "managedResources": [{"name": "hetserve.io/gpu-memory"}],
    }
    scheduler = {"profiles": [{"schedulerName": "x"}], "extenders": [{"urlPrefix": "http://other"}, extender]}
    operating = {"leaderElection": {"leaseName": "other"}, "probeAuthorization": "kubernetes"}
    plugin = gpu_node("n1", gpus=0)
    plugin["metadata"].pop("annotations", None)
    plugin["metadata"]["labels"] = {}
    plugin["status"] = {"capacity": {"nvidia.com/gpu": "2"}}
    return (
        lease,
        settings_object("operator", json.dumps(operating), prefix=prefix),
        settings_object("scheduler", json.dumps(scheduler), prefix=prefix, key="scheduler.yaml"),
        gpu_node("n0", gpus=2),
        plugin,
        gpu_node("n2", gpus=8),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {"driver": names.DRA_DRIVER, "nodeName": "n2"},
        },
    )


@pytest.mark.parametrize("prefix", ["hetserve", "our-gpus"])
def test_the_facts_are_read_from_the_objects_of_the_chart_by_any_name(tmp_path: Path, prefix: str) -> None:
    bindings = [{"metadata": {"name": name}} for name in ("another's", names.ADMISSION_POLICIES[1])]
    with HttpFace.serving(*installed_as(prefix)) as api:
        api.texts[BINDINGS] = json.dumps({"metadata": {"resourceVersion": "1"}, "items": bindings})
        api.texts["/version"] = json.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
        for kind in ("selfsubjectaccessreviews", "subjectaccessreviews"):
            api.texts[f"/apis/authorization.k8s.io/v1/{kind}"] = json.dumps({"status": {"allowed": False}})
        facts = gather(ClusterClient.connect(str(api.kubeconfig(tmp_path)), None), "hetserve-system")
    operator, absent, second = facts.components
    assert isinstance(operator.lease, LeaseFact)
    assert (operator.settings, operator.lease.holder, operator.lease.duration) == (True, "one", 5.0)
    assert operator.lease.silent > 1e6, "by the API server's clock"
    assert (absent.settings, absent.lease, absent.deployment) == (False, None, None)
    assert (second.settings, second.elects, second.open) == (True, True, False)
    assert facts.scheduler == SchedulerFact("http://127.0.0.1:1", True, ("x",))
    assert isinstance(facts.nodes, NodesFact)
    assert (facts.nodes.nodes, facts.nodes.gpus, facts.nodes.unlabelled) == (3, 2, ("n1",))
    assert [(words[:16], found) for words, found in facts.nodes.refused.items()] == [("ResourceSlice s:", ("n2",))]
    assert facts.policies == (names.ADMISSION_POLICIES[1],)
    assert facts.crds == {resource.plural: None for resource in KINDS}
    assert facts.own == ("list nodes", "list pods", "watch inferenceservices.hetserve.io")
    assert not isinstance(facts.missing_rights, Unread)
    assert [one.name for one in facts.components] == [
        f"{prefix}-{one}" for one in ("operator", "extender", "scheduler")
    ]
    assert (operator.open, absent.open) == (False, False)
    assert f"account hetserve-system/{prefix}-scheduler may not create pods/binding" in facts.missing_rights
    asked = f"account hetserve-system/{prefix}-operator may not create tokenreviews.authentication.k8s.io"
    assert asked in facts.missing_rights


@pytest.mark.parametrize(
    ("settings", "noted"), [("probeAuthorization: none", True), ("{}", True), ("probeAuthorization: kubernetes", False)]
)
def test_probe_ports_that_show_everything_to_everybody_are_told(tmp_path: Path, settings: str, noted: bool) -> None:
    with HttpFace.serving(settings_object("operator", settings), settings_object("extender", settings)) as api:
        api.texts["/version"] = json.dumps({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
        api.texts[BINDINGS] = json.dumps({"metadata": {"resourceVersion": "1"}, "items": []})
        for kind in ("selfsubjectaccessreviews", "subjectaccessreviews"):
            api.texts[f"/apis/authorization.k8s.io/v1/{kind}"] = json.dumps({"status": {"allowed": False}})
        facts = gather(ClusterClient.connect(str(api.kubeconfig(tmp_path)), None), "hetserve-system")
    told = [one.what for one in findings(facts) if one.check == "probes"]
    words = "metrics, ledger and log are for everybody: hetserve-operator, hetserve-extender"
    assert told == ([words] if noted else [])
    assert not isinstance(facts.missing_rights, Unread)
    assert any("tokenreviews" in text for text in facts.missing_rights) == (not noted)


def test_a_cluster_that_cannot_be_reached_is_bad_input(tmp_path: Path) -> None:
    with HttpFace.serving() as api:
        config = str(api.kubeconfig(tmp_path))
    done = CliRunner().invoke(app, ["doctor", "--kubeconfig", config])
    assert (done.exit_code, "cannot be reached" in done.stderr) == (2, True)


def test_the_table_has_a_line_for_what_why_and_do_and_exits_with_3(tmp_path: Path) -> None:
    with HttpFace.serving() as api:
        api.texts["/version"] = json.dumps({"major": "1", "minor": "34", "gitVersion": "v1.34.0"})
        for kind in ("selfsubjectaccessreviews", "subjectaccessreviews"):
            api.texts[f"/apis/authorization.k8s.io/v1/{kind}"] = json.dumps({"status": {"allowed": True}})
        done = CliRunner().invoke(app, ["doctor", "--kubeconfig", str(api.kubeconfig(tmp_path))])
    assert done.exit_code == 3, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "installation in hetserve-system: 8 to look at"
    start = lines.index("version Problem the API server is v1.34.0, below 1.35")
    assert lines[start + 1].startswith("why: gates")
    assert lines[start + 2] == "do: upgrade the cluster to 1.35 or later"


@pytest.mark.parametrize(
    ("bound", "level", "what"),
    [
        ((), Level.NOTE, "no ValidatingAdmissionPolicy of hetserve is installed"),
        (names.ADMISSION_POLICIES[1:], Level.PROBLEM, f"not bound: {names.ADMISSION_POLICIES[0]}"),
        (names.ADMISSION_POLICIES, Level.OK, f"{len(names.ADMISSION_POLICIES)} admission policies are bound"),
    ],
)
def test_policies_that_are_not_all_bound_are_named(bound: tuple[str, ...], level: Level, what: str) -> None:
    (found,) = (one for one in findings(replace(WELL, policies=bound)) if one.check == "policy")
    assert (found.level, found.what) == (level, what)
