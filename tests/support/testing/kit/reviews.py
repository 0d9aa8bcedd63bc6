"""An API server in memory that knows tokens and who may read which path."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import orjson

from hetserve_shell.kube.client import Answer
from hetserve_shell.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
from testing.kit.apiserver import FakeApiServer, Json


@dataclass
class ReviewingApi(FakeApiServer):
    """users: by token. rights: (user name, path). hold: awaited before a review is answered."""

    users: dict[str, Json] = field(default_factory=dict)
    rights: set[tuple[str, str]] = field(default_factory=set)
    hold: asyncio.Event | None = None

    async def request(self, method: str, path: str, **rest: Any) -> Answer:
        """Answers reviews; everything else, and faults, as the base."""
        if path not in (TOKEN_REVIEWS, ACCESS_REVIEWS) or self.faults.get(method):
            return await super().request(method, path, **rest)
        self.calls.append((method, path, rest.get("body")))
        if self.hold is not None:
            await self.hold.wait()
        spec = rest["body"]["spec"]
        status = self._authenticated(spec) if path == TOKEN_REVIEWS else self._allowed(spec)
        return Answer(201, orjson.dumps({**rest["body"], "status": status}))

    def reviews(self, path: str) -> list[Json]:
        """The specs of the reviews that were created at a path."""
        return [body["spec"] for method, asked, body in self.calls if (method, asked) == ("POST", path)]

    def _authenticated(self, spec: Json) -> Json:
        user = self.users.get(spec["token"])
        return {"error": "invalid bearer token"} if user is None else {"authenticated": True, "user": user}

    def _allowed(self, spec: Json) -> Json:
        asked = spec["nonResourceAttributes"]
        return {"allowed": asked["verb"] == "get" and (spec["user"], asked["path"]) in self.rights}
