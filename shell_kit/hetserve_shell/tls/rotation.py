"""Certificates that follow their files: a new leaf is served, and a new trust holds, without a restart."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hetserve.base.units import Seconds
from hetserve_shell.http.tls import PeerName, RefusedError
from hetserve_shell.tls.certificates import day
from hetserve_shell.tls.identity import CertificateError, Identity, TlsFiles, read_identity

log = logging.getLogger(__name__)

EVERY: Final = 1.0
"""Seconds between looks at the files."""
_Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(slots=True)
class Rotation:
    """The identity in force, from files that may change at any time.

    names: common or DNS names of which a client's certificate must have one; empty: whoever the authorities signed.
    on_trust: called after other authorities are in force. on_refused: called with why a client is refused. wall: clock
    [s since 1970]. Making one raises CertificateError.
    """

    files: TlsFiles
    names: frozenset[str] = frozenset()
    on_trust: Callable[[], None] = lambda: None
    on_refused: Callable[[], None] = lambda: None
    wall: Callable[[], float] = time.time
    failing: str = ""
    """Why the files on disk are not in force; empty if they are."""
    client_ends: Seconds | None = None
    """When the certificate of the last client that was let in ends [s since 1970]."""
    _identity: Identity = field(init=False)
    _stamp: _Stamp = field(init=False, default=())
    _doubtful: bool = field(init=False, default=False)
    """Whether the last look could not use the files."""

    def __post_init__(self) -> None:
        self._stamp = self._look()
        self._identity = read_identity(self.files, Seconds(self.wall()))

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._identity.context

    @property
    def ends(self) -> Mapping[str, Seconds]:
        """When certificates end, by `server`, `ca` and `client` [s since 1970]."""
        client = {} if self.client_ends is None else {"client": self.client_ends}
        return {**self._identity.ends, **client}

    def accept(self, peer: PeerName) -> Seconds:
        """Lets a client in whose certificate verified, until it ends [s from now]. Raises RefusedError."""
        if self.names and not self.names & set(peer.names):
            wanted = " or ".join(sorted(self.names))
            raise RefusedError(f"its certificate is for {', '.join(peer.names) or 'nobody'}, not for {wanted}")
        self.client_ends = peer.ends
        return Seconds(max(peer.ends - self.wall(), 0.0))

    def refused(self, peer: str, why: str) -> None:
        """Counts and logs a client that was not let in."""
        self.on_refused()
        log.warning("%s is refused: %s", peer, why)

    async def run(self) -> None:
        """Looks at the files for ever."""
        while True:
            await asyncio.sleep(EVERY)
            self.look()

    def look(self) -> None:
        """Takes the files if they changed; where they cannot serve, what is in force stays."""
        stamp = self._look()
        if stamp == self._stamp and not self._doubtful:
            return
        try:
            identity = read_identity(self.files, Seconds(self.wall()))
        except CertificateError as error:
            self._doubt(str(error), stamp)
        else:
            if stamp == self._look():
                self._take(identity, stamp)

    def _doubt(self, words: str, stamp: _Stamp) -> None:
        """Files may be replaced one after the other: what two looks show counts."""
        if stamp == self._stamp and words != self.failing:
            self.failing = words
            log.error("%s; the certificates read before stay in force", words)
        self._stamp, self._doubtful = stamp, True

    def _take(self, identity: Identity, stamp: _Stamp) -> None:
        trust = identity.authorities != self._identity.authorities
        self._identity, self._stamp, self._doubtful, self.failing = identity, stamp, False, ""
        ends = identity.ends["server"]
        log.info("new certificates are in force, the server's until %s%s", day(ends), " (other authorities)" * trust)
        if trust:
            self.on_trust()

    def _look(self) -> _Stamp:
        stamps = list[tuple[int, int, int] | None]()
        for path in self.files.all():
            try:
                found = path.stat()
            except OSError:
                stamps.append(None)
            else:
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return tuple(stamps)
