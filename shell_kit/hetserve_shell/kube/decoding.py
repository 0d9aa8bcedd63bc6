"""JSON of the API server, in which a tenant's object may be nested as deeply as it likes."""

from __future__ import annotations

from typing import Any

import orjson

from hetserve.base.nesting import shallow


def decoded(text: bytes) -> Any:
    """Content of a text; of one that is too deep to be decoded, without what lies below. Raises JSONDecodeError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.loads(shallow(text))
