"""The cache from which an API server answers lists that need not be the latest, as far behind as it may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hetserve_shell.kube.client import ApiStatusError
from hetserve_shell.testing.deployments import copied

Json = dict[str, Any]
KINDS: Final = frozenset({"deployments", "pods", "replicasets"})
Objects = Mapping[str, Json]


class WatchCache:
    """Each kind stays as it was before the first write since it caught up, until a list asks for more than that."""

    def __init__(self) -> None:
        self._behind: dict[str, tuple[int, Objects]] = {}

    def catch_up(self) -> None:
        """All that was written has arrived."""
        self._behind.clear()

    def fall_behind(self, revision: int, objects: Objects) -> None:
        """A write is about to change what there is."""
        for kind in KINDS - self._behind.keys():
            kept = {path: copied(raw) for path, raw in objects.items() if path.split("/")[-2] == kind}
            self._behind[kind] = revision, kept

    def answers(
        self, query: Mapping[str, str], revision: int, latest: Callable[[], list[Json]], folder: str
    ) -> tuple[int, list[Json]]:
        """Revision and objects of a list below `folder`, as new as the query wants it. Raises ApiStatusError."""
        wanted = query.get("resourceVersion")
        if wanted is not None and int(wanted) > revision:
            raise ApiStatusError(504, "Timeout", f"Too large resource version: {wanted}, current: {revision}")
        kind = folder.rpartition("/")[2]
        if wanted is None or kind not in self._behind or self._behind[kind][0] < int(wanted):
            self._behind.pop(kind, None)
            return revision, latest()
        at, objects = self._behind[kind]
        return at, [objects[path] for path in sorted(objects) if path.rpartition("/")[0] == folder]
