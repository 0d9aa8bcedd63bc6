"""A kind that is registered is served, read from manifests, listed, watched and kept by the operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
import yaml

from harness.components import CHART
from harness.generate import custom_resources
from harness.registry_tables import with_plan_inputs, with_tables
from hetserve.api.base import ApiModel, ApiObject
from hetserve.api.kinds import AGE, INFERENCE_SERVICE, KINDS, CustomResource
from hetserve.api.manifests import Document, ManifestError, parse_documents
from hetserve_operator.memory import Interests
from hetserve_operator.watch.cache import Cache
from hetserve_operator.watch.handlers import EventHandlers, watched
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.pages import Pages
from testing.builders import service
from testing.data import REPOSITORY
from testing.kit.apiserver import FakeApiServer
from testing.operator import path_of
from testing.registered import extended


class ZoneSpec(ApiModel):
    """Where it is."""

    region: str


class Zone(ApiObject):
    """A zone of the cloud."""

    kind: Literal["Zone"] = "Zone"
    spec: ZoneSpec
    status: dict[str, Any] | None = None


ZONE = CustomResource(
    model=Zone, plural="zones", short="hz", namespaced=True, columns=(AGE,), labels_pods=True, planned_from=True
)
RAW = {
    "apiVersion": "hetserve.io/v1alpha1",
    "kind": "Zone",
    "metadata": {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "1"},
    "spec": {"region": "north"},
}


@pytest.fixture
def zone() -> Iterator[None]:
    with extended(KINDS, ZONE):
        yield


@pytest.mark.usefixtures("zone")
def test_a_registered_kind_has_a_crd_a_right_and_a_line_in_the_docs() -> None:
    crds = {path.name: text for path, text in custom_resources()}
    assert yaml.safe_load(crds["zones.yaml"].replace("{{- if .Values.crds.install }}", "").replace("{{- end }}", ""))[
        "spec"
    ]["names"] == {
        "kind": "Zone",
        "listKind": "ZoneList",
        "plural": "zones",
        "singular": "zone",
        "shortNames": ["hz"],
        "categories": ["hetserve"],
    }
    role = with_plan_inputs((CHART / "templates" / "rbac-operator.yaml").read_text())
    assert "resources: [instancetypes, modelprofiles, zones]" in role
    assert "| `Zone` | `hz` | namespace | A zone of the cloud. |" in with_tables(
        "<!-- begin kinds: -->\n<!-- end kinds -->\n"
    )


@pytest.mark.usefixtures("zone")
def test_a_registered_kind_is_read_from_manifests() -> None:
    assert parse_documents([Document("zone.yaml", RAW)]).notes == ()
    long = {**RAW, "metadata": {"name": "a" * 64}}
    with pytest.raises(ManifestError, match=r"Zone/a+: metadata.name: .* has 64 characters"):
        parse_documents([Document("zone.yaml", long)])
    twice = [Document("one.yaml", RAW), Document("two.yaml", RAW)]
    with pytest.raises(ManifestError, match=r"Zone/a is there twice, first at one.yaml"):
        parse_documents(twice)


def test_a_kind_that_is_not_registered_is_refused_by_name() -> None:
    with pytest.raises(ManifestError, match=r"has no kind Zone; .* has InferenceService, InstanceType, ModelProfile"):
        parse_documents([Document("zone.yaml", RAW)])


@pytest.mark.usefixtures("zone")
async def test_a_registered_kind_is_listed_by_the_operator() -> None:
    cache, api = Cache(), FakeApiServer()
    api.put(path_of(RAW), RAW)
    stores = dict(cache.listed())
    path = "/apis/hetserve.io/v1alpha1/zones"
    await stores[path].fill(Pages(api, path))
    assert [kept.spec.region for kept in cache.inputs["Zone"]] == ["north"]


@pytest.mark.usefixtures("zone")
def test_a_registered_kind_is_watched_and_wakes_the_services_of_its_namespace() -> None:
    woken: list[Key] = []
    cache = Cache()
    feed = EventHandlers(cache, Interests(), lambda _: None, woken.append, lambda _: None)
    for number, namespace in enumerate(("team", "others")):
        raw = service("a", {"metadata.namespace": namespace})
        raw["metadata"] |= {"uid": f"s{number}", "resourceVersion": "1"}
        cache.services.put(raw)
    takers = {one.path: one.take for one in watched(feed)}
    take = takers["/apis/hetserve.io/v1alpha1/zones"]
    take(RAW, deleted=False)
    take(RAW, deleted=False)
    assert woken == [Key("team", "a")], "an event that changes nothing wakes nobody"
    take(RAW, deleted=True)
    assert woken == [Key("team", "a")] * 2


def test_the_operator_may_list_and_watch_every_kind_and_nothing_that_is_none() -> None:
    documents = yaml.safe_load_all((REPOSITORY / "manifests" / "install" / "hetserve.yaml").read_text())
    (role,) = (d for d in documents if d and (d["kind"], d["metadata"]["name"]) == ("ClusterRole", "hetserve-operator"))
    verbs: dict[str, set[str]] = {}
    for rule in role["rules"]:
        if rule["apiGroups"] == ["hetserve.io"]:
            for resource in rule["resources"]:
                verbs.setdefault(resource, set()).update(rule["verbs"])
    service = INFERENCE_SERVICE.plural
    expected = {kind.plural: {"list", "watch"} for kind in KINDS}
    assert verbs == {
        **expected,
        service: {"get", "list", "watch"},
        **{f"{kind.plural}/status": {"patch"} for kind in KINDS},
        f"{service}/finalizers": {"update"},
    }
