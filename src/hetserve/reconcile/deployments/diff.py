"""Compares desired with existing Deployments and finds the next write, or why it has to wait.

Our changes use server-side apply; an annotation records what was applied last. If that is current and the spec
still differs from the rendered Deployment, somebody else changed it. Apply would keep foreign list entries, so the
whole spec is replaced at its resourceVersion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hetserve.api import names
from hetserve.base.nesting import too_deep
from hetserve.reconcile.deployments.build import Applied, manifest_digest, with_replicas
from hetserve.reconcile.deployments.ownership import (
    belongs,
    controller,
    is_deleting,
    is_orphan,
    is_ours,
    is_predecessors,
)
from hetserve.reconcile.deployments.template import without_nulls
from hetserve.reconcile.events import Announcement
from hetserve.reconcile.snapshot import (
    Apply,
    Change,
    Create,
    Delete,
    HandOver,
    Json,
    RawObject,
    Render,
    Replace,
    Request,
    ServiceSnapshot,
    WriteFence,
)

_REMOVED: Final = ("OrphanRemoved", "in no plan and is deleted")
_FENCED: Final = "no request from before may change it"
_KEPT: Final = "no plan holds the others any more"
_CUT: Final = "the budget holds no more"
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
"""Set by `kubectl rollout restart`; kept, since removing it would restart the pods again."""


@dataclass(frozen=True, slots=True)
class Target:
    """A Deployment of the plan. manifest: without replicas. staged: replicas for now. final: replicas of the plan."""

    instance_type: str
    manifest: Json
    staged: int
    final: int

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class NextWrite:
    """The next write, if any. refusals: the API server's messages for writes that are not retried yet."""

    request: Request | None = None
    template_refusal: str | None = None
    refusals: tuple[str, ...] = ()
    wake_after: float | None = None
    pending: bool = field(default=False)


def next_write(
    snapshot: ServiceSnapshot,
    targets: tuple[Target, ...],
    kept: Mapping[str, int],
    *,
    over_budget: bool = False,
) -> NextWrite:
    """The first write that brings the Deployments closer to the targets.

    kept: replicas for now of Deployments outside the plan that stay a while. over_budget: what runs exceeds the budget.
    Order: render manifests, delete other Deployments outside the plan, shrink, then the rest. The API server's denial
    of one Deployment stops none of the others.
    """
    renders = {target.name: _render(snapshot, target) for target in targets}
    for refusal in (r for r in renders.values() if isinstance(r, str)):
        return NextWrite(template_refusal=refusal)
    asked = {name: r for name, r in renders.items() if isinstance(r, Render)}
    denied = [r for r in asked.values() if r.key in snapshot.refused]
    writes: list[Request] = list(asked.values())
    live = {str(d["metadata"]["name"]): d for d in snapshot.deployments}
    if len(denied) == len(asked):
        writes += _deletions(snapshot, {*(t.name for t in targets), *kept})
        writes += [_cut(w, live, over_budget) for w in _shrinks_to(snapshot, kept, _KEPT)]
        changes = _changes(snapshot, tuple(t for t in targets if t.name not in asked), live)
        writes += [_cut(w, live, over_budget) for w in changes]
    return _first(snapshot, writes, tuple(_strangers(snapshot, targets)))


def next_cut(snapshot: ServiceSnapshot, staged: Mapping[str, int]) -> NextWrite:
    """The first write that only reduces: Deployments outside the plan, and replicas beyond `staged` (by Deployment).

    Keeps the existing template and so needs no rendering: the budget holds even while a new template is refused.
    """
    shrinks = _shrinks_to(snapshot, staged, _CUT)
    writes = [*_deletions(snapshot, set(staged)), *(replace(write, cut=True) for write in shrinks)]
    return _first(snapshot, writes)


def _shrinks_to(snapshot: ServiceSnapshot, counts: Mapping[str, int], why: str) -> list[Replace]:
    """Writes that reduce the service's Deployments to these replicas, by name."""
    return [
        _shrunk(snapshot, found, count, why)
        for found in snapshot.deployments
        if (count := counts.get(str(found["metadata"]["name"]))) is not None
        and int(found["spec"].get("replicas") or 0) > count
        and not is_deleting(found)
        and belongs(found, snapshot.name, snapshot.uid)
    ]


def _first(snapshot: ServiceSnapshot, writes: list[Request], foreign_pods: tuple[str, ...] = ()) -> NextWrite:
    refused = tuple(snapshot.refused[w.key] for w in writes if w.key in snapshot.refused)
    open_writes = [w for w in writes if w.key not in snapshot.refused]
    waits = {w.key: wait for w in open_writes if (wait := _wait(snapshot, w)) > 0}
    ready = [w for w in open_writes if w.key not in waits]
    return NextWrite(
        ready[0] if ready else None,
        refusals=(*foreign_pods, *refused),
        wake_after=min(waits.values(), default=None),
        pending=bool(writes),
    )


def _shrunk(snapshot: ServiceSnapshot, found: RawObject, count: int, why: str) -> Replace:
    """Replaces only the replicas; apply would also change the template."""
    name = str(found["metadata"]["name"])
    meta = {k: v for k, v in found["metadata"].items() if k != "managedFields"}
    annotations = meta.get("annotations") or {}
    applied = Applied.parse(annotations.get(names.ANNOTATION_APPLIED))
    meta["annotations"] = {**annotations, names.ANNOTATION_APPLIED: str(applied._replace(replicas=str(count)))}
    spec = {**found["spec"], "replicas": count}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    why = f"{name}: {found['spec'].get('replicas')} -> {count} replicas, {why}"
    # If we had already asked for this count, somebody else raised it.
    return Replace(manifest, why, repair=applied.replicas == str(count) or _is_foreign(snapshot, found))


def expected_spec(snapshot: ServiceSnapshot, target: Target, live: RawObject | None) -> Json | None:
    """Whole spec that the Deployment should have; None until the API server has rendered it."""
    rendered = snapshot.rendered.get(manifest_digest(target.manifest))
    if rendered is None or rendered.spec is None:
        return None
    spec = {**rendered.spec, "replicas": target.staged}
    restarted = _template_annotations(live).get(RESTARTED_AT) if live is not None else None
    if restarted is not None:
        metadata = spec["template"].get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), RESTARTED_AT: restarted}
        spec["template"] = {**spec["template"], "metadata": {**metadata, "annotations": annotations}}
    return spec


def same(one: Any, other: Any) -> bool:
    """Equality of two JSON values in which null and absent mean the same."""
    return bool(without_nulls(one) == without_nulls(other))


def _render(snapshot: ServiceSnapshot, target: Target) -> Render | str | None:
    digest = manifest_digest(target.manifest)
    rendered = snapshot.rendered.get(digest)
    if rendered is None:
        return Render(target.manifest, digest, f"see what the apiserver makes of {target.name}")
    return rendered.refusal


def _deletions(snapshot: ServiceSnapshot, wanted: set[str]) -> list[Request]:
    spare = [d for d in snapshot.deployments if not is_deleting(d) and d["metadata"]["name"] not in wanted]
    ours = [d["metadata"] for d in spare if is_ours(d, snapshot.uid)]
    orphans = [d["metadata"] for d in spare if is_orphan(d, snapshot.name)]
    return [
        *(_delete(m, f"no plan holds {m['name']} any more") for m in ours),
        *(_delete(m, news.note, news) for m in orphans for news in (_orphan(m["name"], *_REMOVED),)),
    ]


def _delete(meta: Mapping[str, Any], why: str, news: Announcement | None = None) -> Delete:
    return Delete(meta["namespace"], meta["name"], meta["uid"], meta["resourceVersion"], why, news)


def _changes(snapshot: ServiceSnapshot, targets: tuple[Target, ...], live: Mapping[str, RawObject]) -> list[Request]:
    shrinks: list[Request] = []
    others: list[Request] = []
    for target in targets:
        found = live.get(target.name)
        if found is None:
            others.append(Create(with_replicas(target.manifest, 0), f"{target.name} is missing"))
        elif (write := _change(snapshot, target, found)) is not None:
            (shrinks if _shrinks(target, found) else others).append(write)
    return shrinks + others


def _orphan(name: str, reason: str, end: str) -> Announcement:
    note = f"Deployment {name} of a service of this name, which nobody controlled, is {end}"
    return Announcement(False, reason, note)


def _change(snapshot: ServiceSnapshot, target: Target, found: RawObject) -> Request | None:
    if is_deleting(found) or not belongs(found, snapshot.name, snapshot.uid):
        return None
    wanted, meta = with_replicas(target.manifest, target.staged), found["metadata"]
    if controller(found) is None:
        why = f"nobody controls {target.name}"
        return _apply(found, wanted, why, repair=True, news=_orphan(target.name, "OrphanAdopted", "adopted"))
    held = handed_over(found)
    if held is not None and not _shrinks(target, found):
        why = f"what an update wrote of {target.name} is to be held by apply"
        return HandOver(str(meta["namespace"]), target.name, str(meta["uid"]), str(meta["resourceVersion"]), held, why)
    return _brought_to(snapshot, target, found, wanted)


def _brought_to(snapshot: ServiceSnapshot, target: Target, found: RawObject, wanted: Json) -> Request | None:
    """Write that brings our Deployment to the target, or None if it is there."""
    meta = found["metadata"]
    applied = (meta.get("annotations") or {}).get(names.ANNOTATION_APPLIED)
    ours = wanted["metadata"]["annotations"][names.ANNOTATION_APPLIED]
    if applied != ours:
        why = _why(Applied.parse(applied), Applied.parse(ours), target)
        return _apply(found, wanted, why, repair=_is_foreign(snapshot, found))
    labels = meta.get("labels") or {}
    if any(labels.get(k) != v for k, v in wanted["metadata"]["labels"].items()):
        return _apply(found, wanted, f"labels of {target.name} were changed", repair=True)
    spec = expected_spec(snapshot, target, found)
    if spec is None or same(spec, found["spec"]):
        return None
    return Replace(_replacement(found, wanted, spec), f"{target.name} was changed by somebody else")


def _apply(found: RawObject, wanted: Json, why: str, *, repair: bool, news: Announcement | None = None) -> Apply:
    uid, version = (str(found["metadata"][key]) for key in ("uid", "resourceVersion"))
    return Apply(wanted, why, repair, uid=uid, resource_version=version, news=news)


def _shrinks(target: Target, found: RawObject) -> bool:
    return int(found["spec"].get("replicas") or 0) > target.staged


def _cut(write: Request, live: Mapping[str, RawObject], over_budget: bool) -> Request:
    """The write, marked as a cut if it removes replicas while the service exceeds its budget."""
    if not over_budget or not isinstance(write, Apply | Replace):
        return write
    now = int(live[write.name]["spec"].get("replicas") or 0)
    return replace(write, cut=now > int(write.manifest["spec"]["replicas"]))


def _is_foreign(snapshot: ServiceSnapshot, found: RawObject) -> bool:
    """Whether somebody removed or restored the annotation that records what was applied."""
    meta = found["metadata"]
    applied = (meta.get("annotations") or {}).get(names.ANNOTATION_APPLIED)
    return applied is None or snapshot.written.get(str(meta["name"]), applied) != applied


def _why(applied: Applied, ours: Applied, target: Target) -> str:
    if applied.digest == ours.digest:
        return f"{target.name}: {applied.replicas} -> {target.staged} replicas"
    return f"{target.name} has a new template"


def _replacement(found: RawObject, wanted: Json, spec: Json) -> Json:
    meta = {k: v for k, v in found["metadata"].items() if k != "managedFields"}
    for field_name in ("labels", "annotations"):
        meta[field_name] = {**(meta.get(field_name) or {}), **wanted["metadata"][field_name]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def _strangers(snapshot: ServiceSnapshot, targets: tuple[Target, ...]) -> list[str]:
    """Messages about foreign Deployments with our names; the garbage collector removes an earlier service's."""
    service, wanted = snapshot.name, {target.name for target in targets}
    return [
        _in_the_way(found)
        for found in snapshot.deployments
        if found["metadata"]["name"] in wanted
        and not is_deleting(found)
        and not belongs(found, service, snapshot.uid)
        and not is_predecessors(found, service, snapshot.uid)
    ]


def _in_the_way(found: RawObject) -> str:
    name, owner = found["metadata"]["name"], controller(found)
    if owner is None:
        return f"Deployment {name} exists and does not belong to this service; rename or remove it"
    return (
        f"Deployment {name} is controlled by {owner.kind} {owner.name} (UID {owner.uid}); "
        "it is left alone until that is gone"
    )


def _wait(snapshot: ServiceSnapshot, write: Request) -> float:
    """Seconds for which a repair is held back; a cut has a shorter hold."""
    if not isinstance(write, Create | Apply | Replace) or not write.repair:
        return 0.0
    return (snapshot.cut_held if write.cut else snapshot.held).get(write.name, 0.0)


def _template_annotations(raw: RawObject) -> Mapping[str, Any]:
    template = raw["spec"].get("template") or {}
    return (template.get("metadata") or {}).get("annotations") or {}


def handed_over(raw: Mapping[str, Any]) -> list[Json] | None:
    """managedFields with all our fields held by apply, which removes no others; None if they are held already."""
    written: list[Json] = list(raw["metadata"].get("managedFields") or ())
    entries = [entry for entry in written if too_deep(entry.get("fieldsV1")) is None]  # others name no field
    ours = [entry for entry in entries if _is_ours(entry)]
    if not any(entry["operation"] == "Update" for entry in ours):
        return None
    fields: Json = {}
    for entry in ours:
        fields = _union(fields, entry.get("fieldsV1") or {})
    apply = {**ours[-1], "operation": "Apply", "fieldsV1": fields}
    return [apply, *(entry for entry in entries if not _is_ours(entry))]


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == names.FIELD_MANAGER and not entry.get("subresource")


def _union(one: Json, other: Json) -> Json:
    """Union of two trees of fields."""
    return {key: _union(one.get(key, {}), other.get(key, {})) for key in {**one, **other}}


def fence_first(snapshot: ServiceSnapshot, work: NextWrite) -> NextWrite:
    """The work, or the fences that must be up before its request.

    Every change names a resourceVersion, and a fence moves it: what an earlier leader has under way is refused. One
    that cannot be fenced holds back every change of the service: a late request would change it unseen.
    """
    if not isinstance(work.request, Change):
        return work
    missing = missing_fences(snapshot)
    if not missing:
        return work
    refused = tuple(snapshot.refused[fence.key] for fence in missing if fence.key in snapshot.refused)
    request = next((fence for fence in missing if fence.key not in snapshot.refused), None)
    return replace(work, request=request, refusals=(*work.refusals, *refused))


def missing_fences(snapshot: ServiceSnapshot) -> list[WriteFence]:
    """Fences of all Deployments that an earlier leader may have changed for this service, or one of its name."""
    fence, owner = snapshot.fence, (snapshot.name, snapshot.uid)
    if fence is None or snapshot.service is None:
        return []
    open_to_change = [
        found["metadata"]
        for found in snapshot.deployments
        if found["metadata"]["uid"] not in fence.cleared
        and not is_deleting(found)
        and (belongs(found, *owner) or is_predecessors(found, *owner))
    ]
    return [WriteFence(m["namespace"], m["name"], m["uid"], fence.stamp, _FENCED) for m in open_to_change]
