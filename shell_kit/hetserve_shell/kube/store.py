"""Facts about the objects of one kind, kept up by watch events and lists.

Both may arrive in any order: an object only moves to a newer resourceVersion (compared as numbers). A full list also
removes objects whose deletion a watch missed. A Reflector's list replaces all: an older version in it is what was
restored from a copy of etcd.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from hetserve.base.pages import revision_of
from hetserve_shell.kube.connection import RawObject
from hetserve_shell.kube.pages import Pages

log = logging.getLogger(__name__)

Fact = TypeVar("Fact")


class Store(Generic[Fact]):
    """Facts by UID, each with the resourceVersion of its object, and indices over them.

    Filled from lists and events in any order (`fill`, `put`, `drop`), or by one Reflector, as its handler (`replace`,
    `apply`).

    reduce: the fact of an object, or None if it has none; called once for each version of an object. An object for
    which it raises has no fact. complaint: what to log about a fact, once.
    index: by name, the value under which `by` finds a fact; None: under no value.
    """

    def __init__(
        self,
        reduce: Callable[[RawObject], Fact | None],
        complaint: Callable[[Fact], str | None] = lambda _fact: None,
        index: Mapping[str, Callable[[Fact], Hashable | None]] | None = None,
    ) -> None:
        self._reduce = reduce
        self._complaint = complaint
        self._index = dict(index or {})
        self._found: dict[str, dict[Hashable, dict[str, Fact]]] = {name: {} for name in self._index}
        self._known: dict[str, tuple[int, Fact | None]] = {}
        self._wrong: dict[str, str] = {}
        self._deleted: dict[str, int] = {}
        self._lists = 0
        self._subscribers: list[Callable[[Fact | None, Fact | None], None]] = []

    def subscribe(self, changed: Callable[[Fact | None, Fact | None], None]) -> None:
        """Call `changed` with the fact before and after each change of a fact; None: there is none."""
        self._subscribers.append(changed)

    def put(self, raw: RawObject) -> None:
        """Takes an object, unless it is known in this version or a newer one."""
        uid, version = _identity(raw)
        known = self._known.get(uid)
        if self._deleted.get(uid, -1) < version and (known is None or known[0] < version):
            self._take(raw, uid, version)

    def _take(self, raw: RawObject, uid: str, version: int) -> None:
        before = self._known.get(uid, (0, None))[1]
        fact = self._read(raw, uid)
        if fact == before:
            fact = before  # one object for both, so that the new one takes no memory
        self._known[uid] = (version, fact)
        self._move(uid, before, fact)

    def drop(self, raw: RawObject) -> None:
        """Removes a deleted object."""
        uid, at = _identity(raw)
        version, before = self._forget(uid)
        if self._lists:  # a list that began earlier must not restore it
            self._deleted[uid] = max(at, version)
        self._move(uid, before, None)

    async def fill(self, pages: Pages) -> None:
        """Takes a full list page by page; removes older objects that it does not contain. Raises as `Pages.objects`."""
        listed: set[str] = set()
        self._lists += 1
        try:
            async for objects in pages.objects():
                for raw in objects:
                    listed.add(str(raw["metadata"]["uid"]))
                    self.put(raw)
            self.keep(listed, int(pages.revision))
        finally:
            self._lists -= 1
            if not self._lists:
                self._deleted.clear()

    def replace(self, objects: Sequence[RawObject]) -> None:
        """Takes a full list, read after all that is known."""
        listed = set[str]()
        for raw in objects:
            uid, version = _identity(raw)
            listed.add(uid)
            if uid not in self._known or self._known[uid][0] != version:
                self._take(raw, uid, version)
        self.keep(listed)

    def keep(self, listed: Collection[str], reached: float = math.inf) -> None:
        """Removes all others than these UIDs, but for those that are newer than the revision `reached`."""
        for uid in [uid for uid, (at, _) in self._known.items() if uid not in listed and at <= reached]:
            self._move(uid, self._forget(uid)[1], None)

    def apply(self, event: str, raw: RawObject) -> None:
        """Takes an event of a watch."""
        (self.drop if event == "DELETED" else self.put)(raw)

    def by(self, name: str, value: Hashable) -> tuple[Fact, ...]:
        """Facts with a value in the index of this name."""
        return tuple(self._found[name].get(value, {}).values())

    def __iter__(self) -> Iterator[Fact]:
        return (fact for _, fact in self._known.values() if fact is not None)

    def __len__(self) -> int:
        """Number of objects, with those that have no fact."""
        return len(self._known)

    def _read(self, raw: RawObject, uid: str) -> Fact | None:
        fact, wrong = None, None
        try:
            fact = self._reduce(raw)
            wrong = None if fact is None else self._complaint(fact)
        except Exception as error:  # one object must not hide the others
            wrong = f"{type(error).__name__}: {error}"
        if wrong is None:
            self._wrong.pop(uid, None)
        elif self._wrong.get(uid) != wrong:
            self._wrong[uid] = wrong
            name = f"{raw.get('kind', 'object')} {raw['metadata'].get('name')}"
            log.warning("%s cannot be read: %s", name, wrong)
        return fact

    def _forget(self, uid: str) -> tuple[int, Fact | None]:
        self._wrong.pop(uid, None)
        return self._known.pop(uid, (0, None))

    def _move(self, uid: str, before: Fact | None, after: Fact | None) -> None:
        """Brings the indices up to date and tells subscribers."""
        if before is after:
            return
        for name, value_of in self._index.items():
            found = self._found[name]
            old = None if before is None else value_of(before)
            new = None if after is None else value_of(after)
            if old is not None and old != new:
                del found[old][uid]
                if not found[old]:
                    del found[old]
            if new is not None and after is not None:
                found.setdefault(new, {})[uid] = after
        for changed in self._subscribers:
            changed(before, after)


def _identity(raw: RawObject) -> tuple[str, int]:
    meta = raw["metadata"]
    return str(meta["uid"]), revision_of(meta.get("resourceVersion"))
