"""The operator's requests, from the API server's audit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import orjson

from hetserve.api.names import SYSTEM_NAMESPACE

OPERATOR: Final = f"system:serviceaccount:{SYSTEM_NAMESPACE}:hetserve-operator"
READS: Final = frozenset({"get", "list", "watch"})
_MARK: Final = OPERATOR.encode()


CREATED: Final = 201
"""Status of the answer to a request, an apply too, that created its object."""


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """One answered request. at: when it arrived [s since the epoch]; status: of the answer; dry: a dry run."""

    at: float
    verb: str
    resource: str
    name: str
    status: int
    dry: bool

    @property
    def writes(self) -> bool:
        """Whether the request changed the cluster."""
        return self.verb not in READS and not self.dry and self.status < 300

    @property
    def kind(self) -> str:
        """Verb and resource, with dry runs apart."""
        return f"{'dry ' if self.dry else ''}{self.verb} {self.resource}"


def requests_of_operator(lines: Iterable[bytes], since: float, until: float) -> Iterator[AuditedRequest]:
    """Requests of the operator's account that arrived in [since, until)."""
    for line in lines:
        if _MARK not in line:
            continue
        event = orjson.loads(line)
        if event["user"]["username"] != OPERATOR or event["stage"] != "ResponseComplete":
            continue
        at = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
        if since <= at < until:
            yield _request(event, at)


def audit_lines(folder: Path) -> Iterator[bytes]:
    """Lines of the audit log; the API server starts a new file when one has 100 MB."""
    for path in sorted(folder.glob("audit*.log")):
        with path.open("rb") as log:
            yield from log


def by_kind(requests: Iterable[AuditedRequest]) -> dict[str, int]:
    """Number of requests by verb and resource."""
    return dict(sorted(Counter(request.kind for request in requests).items()))


def _request(event: dict[str, object], at: float) -> AuditedRequest:
    found, answer = event.get("objectRef"), event.get("responseStatus")
    target = found if isinstance(found, dict) else {}
    status = answer if isinstance(answer, dict) else {}
    resource = "/".join(part for part in (target.get("resource"), target.get("subresource")) if part)
    uri = str(event.get("requestURI", ""))
    return AuditedRequest(
        at,
        str(event["verb"]),
        resource or uri,
        str(target.get("name", "")),
        int(status.get("code", 0)),
        "dryRun=" in uri,
    )
