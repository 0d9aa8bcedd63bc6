"""What a refusal of the API server says about the request."""

from __future__ import annotations

import re
from typing import Final

from hetserve_shell.kube.client import ApiStatusError

_NOT_OF_THE_SCHEMA: Final = re.compile(r"failed to (create typed patch|convert (patch|new)) object ")
"""Server-side apply reports a manifest that it cannot read as an internal error, although a retry changes nothing."""


def is_of_the_content(error: ApiStatusError) -> bool:
    """Whether what was sent is at fault, so that the server will refuse the same again."""
    return error.status in (400, 422) or (error.status == 500 and bool(_NOT_OF_THE_SCHEMA.match(error.message)))
