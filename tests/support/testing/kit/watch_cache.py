"""The cache from which an API server answers lists that need not be the latest, as far behind as it may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hetserve_shell.kube.client import ApiStatusError
from testing.kit.deployments import copied

Json = dict[str, Any]
KINDS: Final = frozenset({"deployments", "pods", "replicasets"})
Objects = Mapping[str, Json]


class WatchCache:
    """Each kind stays as it was before the first write since it caught up, until a list asks for more than that.

    Writes are those over the API. Once it lags, a kind stays as it was shown last, whoever changes it in whichever way.
    """

    def __init__(self) -> None:
        self._behind: dict[str, tuple[int, Objects]] = {}
        self._lags = False

    def lag(self, revision: int, objects: Objects) -> None:
        """From now on it shows nothing new but to lists that ask for more."""
        self._lags = True
        self.catch_up()
        self.fall_behind(revision, objects)

    def catch_up(self) -> None:
        """All that was written has arrived."""
        self._behind.clear()

    def fall_behind(self, revision: int, objects: Objects) -> None:
        """A write is about to change what there is."""
        for kind in KINDS - self._behind.keys():
            there = ((path, raw) for path, raw in objects.items() if f"/{kind}/" in path)
            kept = {path: copied(raw) for path, raw in there if path.split("/")[-2] == kind}
            self._behind[kind] = revision, kept

    def answers(self, query: Mapping[str, str], revision: int, objects: Objects, folder: str) -> tuple[int, list[Json]]:
        """Revision and objects of a list below `folder`, as new as the query wants it. Raises ApiStatusError."""
        wanted = query.get("resourceVersion")
        if wanted is not None and int(wanted) > revision:
            raise ApiStatusError(504, "Timeout", f"Too large resource version: {wanted}, current: {revision}")
        kind = folder.rpartition("/")[2]
        if wanted is None or kind not in self._behind or self._behind[kind][0] < int(wanted):
            self._behind.pop(kind, None)
            if self._lags:
                self.fall_behind(revision, objects)
        at, shown = self._behind.get(kind, (revision, objects))
        return at, listed(shown, folder)


def listed(objects: Objects, folder: str) -> list[Json]:
    """Those of a collection, of all namespaces if it names none, sorted by path."""
    prefix, _, kind = folder.rpartition("/")
    prefix, part = f"{prefix}/", f"/{kind}/"
    there = (path for path in objects if part in path and path.startswith(prefix) and path.split("/")[-2] == kind)
    return [objects[path] for path in sorted(there)]
