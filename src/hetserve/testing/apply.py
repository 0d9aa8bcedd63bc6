"""Server-side apply and defaulting of Deployments, as far as they matter to who keeps which field."""

from __future__ import annotations

import copy
from typing import Any, Final

Json = dict[str, Any]
_KEYS: Final = ("name", "uid", "containerPort")
"""By which of its fields a list entry is known; lists of anything else are atomic."""


def applied(found: Json | None, last: Json | None, body: Json) -> Json:
    """Object after an apply: what the manager applied last and no longer does goes, foreign fields stay."""
    kept = copy.deepcopy(found or {})
    if last is not None:
        kept = _without(kept, last, body)
    return _over(kept, copy.deepcopy(body))  # type: ignore[no-any-return]


def defaulted(deployment: Json) -> Json:
    """Deployment with the defaults that the real apiserver sets and hetserve does not."""
    result = copy.deepcopy(deployment)
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


def _without(now: Any, last: Any, body: Any) -> Any:
    """`now` less what `last` named and `body` does not."""
    if isinstance(now, dict) and isinstance(last, dict):
        body = body if isinstance(body, dict) else {}
        return {
            k: _without(v, last[k], body.get(k)) if k in last else v
            for k, v in now.items()
            if k not in last or k in body or _foreign(v, last[k])
        }
    if isinstance(now, list) and isinstance(last, list) and _keyed([*now, *last]):
        old = {_key(entry): entry for entry in last}
        new = {_key(entry): entry for entry in body} if isinstance(body, list) else {}
        return [
            _without(e, old[_key(e)], new.get(_key(e))) if _key(e) in old else e
            for e in now
            if _key(e) not in old or _key(e) in new
        ]
    return now


def _foreign(now: Any, last: Any) -> bool:
    """Whether something under a field belongs to others, so that the field itself stays."""
    return isinstance(now, dict) and isinstance(last, dict) and any(key not in last for key in now)
