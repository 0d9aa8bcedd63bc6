"""Simplified server-side apply and defaulting of Deployments, with ownership of fields."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import orjson

Json = dict[str, Any]
J = TypeVar("J")
_KEYS: Final = ("name", "uid", "containerPort")
"""Key fields of list entries; other lists are atomic."""


def copied(value: J) -> J:
    """Copies a JSON value, faster than copy.deepcopy; also what is no JSON, such as a string that is no Unicode."""
    try:
        return orjson.loads(orjson.dumps(value))  # type: ignore[no-any-return]
    except TypeError:
        return _copied(value)


def _copied(value: J) -> J:
    if isinstance(value, dict):
        return {key: _copied(child) for key, child in value.items()}  # type: ignore[return-value]
    return [_copied(child) for child in value] if isinstance(value, list) else value  # type: ignore[return-value]


_CONTAINER_FIELDS: Final = frozenset(
    (
        *("name", "image", "command", "args", "workingDir", "ports", "envFrom", "env", "resources", "resizePolicy"),
        *("restartPolicy", "volumeMounts", "volumeDevices", "livenessProbe", "readinessProbe", "startupProbe"),
        *("lifecycle", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext"),
        *("stdin", "stdinOnce", "tty"),
    )
)


def applied(found: Json | None, fields: Json | None, body: Json) -> Json:
    """Applies `body`: drops `fields` that the manager no longer applies, keeps foreign ones."""
    kept = copied(found or {})
    if fields is not None:
        kept = _without(kept, fields, body)
    return _over(kept, copied(body))  # type: ignore[no-any-return]


def as_fields(value: Any) -> Json:
    if isinstance(value, dict):
        return {f"f:{key}": as_fields(child) for key, child in value.items()}
    if isinstance(value, list) and _keyed(value):
        return {_entry(child): as_fields(child) for child in value}
    return {}


def schema_refusal(deployment: Json) -> str | None:
    """The API server's message if apply cannot read the Deployment, else None."""
    for container in deployment["spec"]["template"]["spec"].get("containers") or ():
        path = f'.spec.template.spec.containers[name="{container.get("name")}"]'
        for field in container.keys() - _CONTAINER_FIELDS:
            return f"{path}.{field}: field not declared in schema"
        names = [entry.get("name") for entry in container.get("env") or ()]
        for name in (n for n in names if names.count(n) > 1):
            return f'{path}.env: duplicate entries for key [name="{name}"]'
    return None


def defaulted(deployment: Json) -> Json:
    """Adds the API server's defaults that hetserve does not set."""
    result = copied(deployment)
    spec = result["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    pod = spec["template"]["spec"]
    defaults = {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    for key, value in defaults.items():
        pod.setdefault(key, value)
    for container in pod.get("containers") or ():
        container.setdefault("imagePullPolicy", "IfNotPresent")
    return result


def _key(entry: Any) -> Any:
    return next((entry[k] for k in _KEYS if k in entry), None) if isinstance(entry, dict) else None


def _keyed(entries: list[Any]) -> bool:
    return all(_key(entry) is not None for entry in entries)


def _over(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: _over(old.get(key), value) for key, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list) and _keyed([*old, *new]):
        wanted = {_key(entry): entry for entry in new}
        mine = [_over(entry, wanted.pop(_key(entry))) if _key(entry) in wanted else entry for entry in old]
        return [*mine, *wanted.values()]
    return new


def _without(now: Any, fields: Json, body: Any) -> Any:
    """`now` without what `fields` name and `body` lacks."""
    if isinstance(now, dict) and fields:
        body = body if isinstance(body, dict) else {}
        return {
            k: _without(v, fields[f"f:{k}"], body.get(k)) if f"f:{k}" in fields else v
            for k, v in now.items()
            if f"f:{k}" not in fields or k in body or _foreign(v, fields[f"f:{k}"])
        }
    if isinstance(now, list) and fields and _keyed(now):
        new = {_key(entry): entry for entry in body} if isinstance(body, list) else {}
        return [
            _without(e, fields[_entry(e)], new.get(_key(e))) if _entry(e) in fields else e
            for e in now
            if _entry(e) not in fields or _key(e) in new
        ]
    return now


def _foreign(now: Any, fields: Json) -> bool:
    """Whether others own something below a field."""
    return isinstance(now, dict) and bool(fields) and any(f"f:{key}" not in fields for key in now)


def _entry(value: Any) -> str:
    return f"k:{_key(value)}"
