"""What messages of the API server and of Kubernetes' controllers mean: the one place that reads their text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

RawObject = Mapping[str, Any]

_QUOTA: Final = "exceeded quota"
"""Part of every refusal by the admission of ResourceQuota."""
_NOT_OF_THE_SCHEMA: Final = re.compile(r"failed to (create typed patch|convert (patch|new)) object ")
"""How apply refuses a manifest that it cannot read, with status 500 although another try changes nothing."""
_GENERATE_NAME, _SUFFIX = 58, 5
"""How much Kubernetes keeps of the name that it generates a pod's name from, and the length of what it adds."""


def exceeds_quota(message: str) -> bool:
    """Whether the API server refused a request because of a quota. message: its own."""
    return _QUOTA in message


def is_of_the_content(status: int, message: str) -> bool:
    """Whether the manifest itself is at fault, so that the same one will be refused again."""
    return status in (400, 422) or (status == 500 and bool(_NOT_OF_THE_SCHEMA.match(message)))


def renamed(message: str, name: str, real: str) -> str:
    """The message about an object that was sent under another name."""
    return message.replace(name, real)


def replica_failure(deployment: RawObject) -> str | None:
    """Why pods of a Deployment cannot be created; None if they can.

    The generated suffix of the pod's name is left out, so that the message stays the same as long as its cause.
    """
    conditions = (deployment.get("status") or {}).get("conditions") or ()
    failure: RawObject = next((c for c in conditions if c.get("type") == "ReplicaFailure"), {})
    if failure.get("status") != "True":
        return None
    begin = re.escape(f"{deployment['metadata']['name']}-"[:_GENERATE_NAME])
    pattern = rf'"({begin}[a-z0-9.-]*?)[a-z0-9]{{{_SUFFIX}}}"'
    return re.sub(pattern, r'"\1"', str(failure.get("message") or ""))
