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
    """
    renders = [_render(world, target) for target in targets]
    for refusal in (r for r in renders if isinstance(r, str)):
        return Work(template_refusal=refusal)
    writes: list[Request] = [r for r in renders if isinstance(r, Render)]
    live = {str(d["metadata"]["name"]): d for d in world.deployments}
    if not writes:
        writes += _deletions(world, {t.name for t in targets}, service_uid)
        writes += _changes(world, targets, live, service_uid)
    strangers = tuple(_strangers(targets, live, service_uid))
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
