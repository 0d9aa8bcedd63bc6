"""From the Deployments that should be and those that are to the next write, or what keeps it back.

Our own changes go by server-side apply; an annotation says what was applied last. Where that is current and
the spec still differs from what the apiserver makes of our manifest, a foreign hand has added or changed
something (apply leaves foreign list entries alone), and the whole spec is put back at its resourceVersion.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hetserve.api import names
from hetserve.reconcile.build import manifest_digest, with_replicas
from hetserve.reconcile.world import Apply, Delete, Json, RawObject, Render, Replace, Request, World

RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
"""Written into the template by `kubectl rollout restart`: a user's wish, and removing it would restart again."""

_QUOTA: Final = "exceeded quota"
"""How the apiserver's admission of ResourceQuota begins its refusal."""


@dataclass(frozen=True, slots=True)
class Target:
    """A Deployment of the plan: its manifest without replicas, how many it may have now and at last."""

    instance_type: str
    manifest: Json
    staged: int
    final: int

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Work:
    """The next write, if any; refusals: the apiserver's words on writes that are not tried again yet."""

    request: Request | None = None
    template_refusal: str | None = None
    refusals: tuple[str, ...] = ()
    wake_after: float | None = None
    pending: bool = field(default=False)


def controller_of(raw: RawObject) -> Mapping[str, Any] | None:
    """Owner reference of an object's controller."""
    for owner in raw["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def is_ours(raw: RawObject, service_uid: str) -> bool:
    """Whether this very service, by UID, controls the object."""
    owner = controller_of(raw)
    return owner is not None and owner.get("uid") == service_uid


def is_deleting(raw: RawObject) -> bool:
    return raw["metadata"].get("deletionTimestamp") is not None


def next_work(world: World, targets: tuple[Target, ...], service_uid: str) -> Work:
    """The first write that brings the Deployments nearer to the targets.

    Order: learn what the apiserver makes of a manifest, delete what no plan holds, shrink, then the rest.
    A Deployment that may not be made keeps the others from nothing but deletions, see `_deletes_beside`.
    """
    renders = {target.name: _render(world, target) for target in targets}
    for refusal in (r for r in renders.values() if isinstance(r, str)):
        return Work(template_refusal=refusal)
    asked = {name: r for name, r in renders.items() if isinstance(r, Render)}
    denied = [world.refused[r.key] for r in asked.values() if r.key in world.refused]
    writes: list[Request] = list(asked.values())
    live = {str(d["metadata"]["name"]): d for d in world.deployments}
    if len(denied) == len(asked):
        writes += _deletions(world, {t.name for t in targets}, service_uid) if _deletes_beside(denied) else []
        writes += _changes(world, tuple(t for t in targets if t.name not in asked), live, service_uid)
    return _first(world, writes, tuple(_strangers(targets, live, service_uid)))


def next_cut(world: World, staged: Mapping[str, int], service_uid: str) -> Work:
    """The first write that only takes away: what no plan holds, and replicas beyond `staged` (by Deployment).

    Needs no rendering: what is left keeps the template that it has. So a budget is followed, too, while the
    new template is refused or cannot be tried.
    """
    writes = _deletions(world, set(staged), service_uid)
    for found in world.deployments:
        count = staged.get(str(found["metadata"]["name"]))
        if count is None or is_deleting(found) or not is_ours(found, service_uid):
            continue
        if int(found["spec"].get("replicas") or 0) > count:
            writes.append(_shrunk(found, count))
    return _first(world, writes)


def _first(world: World, writes: list[Request], strangers: tuple[str, ...] = ()) -> Work:
    refused = tuple(world.refused[w.key] for w in writes if w.key in world.refused)
    open_writes = [w for w in writes if w.key not in world.refused]
    ready = [w for w in open_writes if not _held(world, w)]
    waits = [world.held[w.name] for w in open_writes if isinstance(w, Apply | Replace) and _held(world, w)]
    return Work(
        ready[0] if ready else None,
        refusals=(*strangers, *refused),
        wake_after=min(waits) if waits else None,
        pending=bool(writes),
    )


def _deletes_beside(denied: list[str]) -> bool:
    """Whether to delete while Deployments may not be made: where a quota is used up that makes room for them.

    Any other denial may last, and what is deleted would then have no successor.
    """
    return all(_QUOTA in words for words in denied)


def _shrunk(found: RawObject, count: int) -> Replace:
    """The Deployment as it is but for its replicas: apply of our manifest would bring its template, too."""
    name = str(found["metadata"]["name"])
    meta = {k: copy.deepcopy(v) for k, v in found["metadata"].items() if k != "managedFields"}
    digest, _, replicas = str((meta.get("annotations") or {}).get(names.ANNOTATION_APPLIED)).partition("/")
    meta["annotations"] = {**(meta.get("annotations") or {}), names.ANNOTATION_APPLIED: f"{digest}/{count}"}
    spec = {**copy.deepcopy(dict(found["spec"])), "replicas": count}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    why = f"{name}: {found['spec'].get('replicas')} -> {count} replicas, the budget holds no more"
    # Where we had asked for so few already, a foreign hand has added some; it is answered ever later.
    return Replace(manifest, why, repair=replicas == str(count))


def expected_spec(world: World, target: Target, live: RawObject | None) -> Json | None:
    """Whole spec that the Deployment should have now; None until the apiserver has rendered it."""
    rendered = world.rendered.get(manifest_digest(target.manifest))
    if rendered is None or rendered.spec is None:
        return None
    spec = copy.deepcopy(rendered.spec)
    spec["replicas"] = target.staged
    restarted = _template_annotations(live).get(RESTARTED_AT) if live is not None else None
    if restarted is not None:
        metadata = spec["template"].setdefault("metadata", {})
        metadata["annotations"] = {**(metadata.get("annotations") or {}), RESTARTED_AT: restarted}
    return spec


def same(one: Any, other: Any) -> bool:
    """Equality of two JSON values in which null and absent mean the same."""
    return bool(_without_nulls(one) == _without_nulls(other))


def _render(world: World, target: Target) -> Render | str | None:
    digest = manifest_digest(target.manifest)
    rendered = world.rendered.get(digest)
    if rendered is None:
        return Render(target.manifest, digest, f"see what the apiserver makes of {target.name}")
    return rendered.refusal


def _deletions(world: World, wanted: set[str], service_uid: str) -> list[Request]:
    return [
        Delete(meta["namespace"], meta["name"], meta["uid"], f"no plan holds {meta['name']} any more")
        for meta in (d["metadata"] for d in world.deployments if is_ours(d, service_uid) and not is_deleting(d))
        if meta["name"] not in wanted
    ]


def _changes(
    world: World, targets: tuple[Target, ...], live: Mapping[str, RawObject], service_uid: str
) -> list[Request]:
    shrinks: list[Request] = []
    others: list[Request] = []
    for target in targets:
        found = live.get(target.name)
        write = _create(target) if found is None else _change(world, target, found, service_uid)
        if write is not None:
            shrinks_it = found is not None and int(found["spec"].get("replicas") or 0) > target.staged
            (shrinks if shrinks_it else others).append(write)
    return shrinks + others


def _create(target: Target) -> Apply:
    return Apply(with_replicas(target.manifest, target.staged), None, f"{target.name} is missing", repair=True)


def _change(world: World, target: Target, found: RawObject, service_uid: str) -> Request | None:
    if is_deleting(found) or (controller_of(found) is not None and not is_ours(found, service_uid)):
        return None
    wanted, meta = with_replicas(target.manifest, target.staged), found["metadata"]
    applied = (meta.get("annotations") or {}).get(names.ANNOTATION_APPLIED)
    uid = str(meta["uid"])
    ours = wanted["metadata"]["annotations"][names.ANNOTATION_APPLIED]
    if applied != ours:
        return Apply(wanted, uid, _why(str(applied), ours, target), repair=applied is None)
    labels = meta.get("labels") or {}
    if not is_ours(found, service_uid) or any(labels.get(k) != v for k, v in wanted["metadata"]["labels"].items()):
        return Apply(wanted, uid, f"labels or owner of {target.name} were changed", repair=True)
    spec = expected_spec(world, target, found)
    if spec is None or same(spec, found["spec"]):
        return None
    return Replace(_replacement(found, wanted, spec), f"{target.name} was changed by somebody else")


def _why(applied: str, ours: str, target: Target) -> str:
    if applied.partition("/")[0] == ours.partition("/")[0]:
        return f"{target.name}: {applied.partition('/')[2]} -> {target.staged} replicas"
    return f"{target.name} has a new template"


def _replacement(found: RawObject, wanted: Json, spec: Json) -> Json:
    meta = {k: copy.deepcopy(v) for k, v in found["metadata"].items() if k != "managedFields"}
    for field_name in ("labels", "annotations"):
        meta[field_name] = {**(meta.get(field_name) or {}), **wanted["metadata"][field_name]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def _strangers(targets: tuple[Target, ...], live: Mapping[str, RawObject], service_uid: str) -> list[str]:
    found = [
        (target.name, controller_of(live[target.name]))
        for target in targets
        if target.name in live and not is_deleting(live[target.name]) and not is_ours(live[target.name], service_uid)
    ]
    return [
        f"Deployment {name} is controlled by {owner.get('kind')} {owner.get('name')} (UID {owner.get('uid')}); "
        "it is left alone until that is gone"
        for name, owner in found
        if owner is not None
    ]


def _held(world: World, write: Request) -> bool:
    return isinstance(write, Apply | Replace) and write.repair and world.held.get(write.name, 0.0) > 0


def _template_annotations(raw: RawObject) -> Mapping[str, Any]:
    template = raw["spec"].get("template") or {}
    return (template.get("metadata") or {}).get("annotations") or {}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(v) for v in value]
    return value
