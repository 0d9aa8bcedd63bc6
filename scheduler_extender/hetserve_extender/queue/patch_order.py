"""Orders the patches that remove our gate; the API server carries out concurrent ones in any order.

A patch waits for earlier ones that are due by an earlier release of its priority. While a released pod is
unschedulable, patches run one after another, because their order decides who gets the next GPU. Proof of the bound on
waiting: docs/queues.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from hetserve.placement.queues.rounds import Release

PatchOutcome = Literal["released", "refused", "lost"]
"""`lost`: not answered, so it may have landed."""
HELD_UP_AT_MOST: Final = 1.0
"""Seconds for which an unanswered patch delays those behind it."""


@dataclass(slots=True, eq=False)
class Patch:
    """An unanswered patch."""

    release: Release
    waits_for: int = 0
    followers: list[Patch] = field(default_factory=list, repr=False)
    over: bool = False
    """Whether it delays no patch any more."""

    @property
    def uid(self) -> str:
        return self.release.pod.uid

    @property
    def sendable(self) -> bool:
        return self.waits_for == 0


@dataclass(slots=True)
class PatchOrder:
    """The unanswered patches, at most one per pod. Events return those to send now."""

    _patches: dict[str, Patch] = field(default_factory=dict)
    _by_priority: dict[int, list[tuple[int, Patch]]] = field(default_factory=dict)
    """Patches that are not over, with the release by which their pod is due."""
    _parallel: list[Patch] = field(default_factory=list)
    _alone: Patch | None = None

    def __len__(self) -> int:
        return len(self._patches)

    def __iter__(self) -> Iterator[Patch]:
        return iter(tuple(self._patches.values()))

    def __contains__(self, uid: object) -> bool:
        return uid in self._patches

    def holds(self, patch: Patch) -> bool:
        return self._patches.get(patch.uid) is patch

    def add(self, releases: Iterable[Release], *, one_by_one: bool) -> tuple[Patch, ...]:
        """Adds patches for releases, in the order of their decision."""
        self._forget_over()
        patches = tuple(map(Patch, releases))
        for patch in patches:
            self._patches[patch.uid] = patch
            for earlier in self._alone_after_all(patch) if one_by_one else self._in_parallel(patch):
                earlier.followers.append(patch)
                patch.waits_for += 1
        return patches

    def let_pass(self, patch: Patch) -> list[Patch]:
        """A patch took too long, failed or is answered: it delays no others."""
        if patch.over:
            return []
        patch.over = True
        followers, patch.followers = patch.followers, []
        for follower in followers:
            follower.waits_for -= 1
        return [follower for follower in followers if follower.sendable and not follower.over]

    def answered(self, patch: Patch) -> list[Patch]:
        if self.holds(patch):
            del self._patches[patch.uid]
        return self.let_pass(patch)

    def _in_parallel(self, patch: Patch) -> tuple[Patch, ...]:
        """Adds a patch; returns those that it follows."""
        release = patch.release
        follows: tuple[Patch, ...] = ()
        self._parallel.append(patch)
        if not release.out_of_turn:
            others = self._by_priority.setdefault(release.pod.priority, [])
            follows = tuple(other for due, other in others if due < release.number)
            others.append((release.due, patch))
        return follows

    def _alone_after_all(self, patch: Patch) -> tuple[Patch, ...]:
        """Adds a patch that follows all before it; returns those."""
        follows = tuple(self._parallel) if self._alone is None else (self._alone, *self._parallel)
        self._alone, self._parallel = patch, []
        if not patch.release.out_of_turn:
            self._by_priority.setdefault(patch.release.pod.priority, []).append((patch.release.due, patch))
        return follows

    def _forget_over(self) -> None:
        self._parallel = [patch for patch in self._parallel if not patch.over]
        if self._alone is not None and self._alone.over:
            self._alone = None
        left = {
            priority: [(due, patch) for due, patch in others if not patch.over]
            for priority, others in self._by_priority.items()
        }
        self._by_priority = {priority: others for priority, others in left.items() if others}
