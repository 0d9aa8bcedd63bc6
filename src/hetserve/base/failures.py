"""How what was asked of a server ended without a whole answer."""

from __future__ import annotations

from enum import StrEnum


class Failure(StrEnum):
    """How a query ended without a whole answer.

    NOT_SENT: no byte of it left. CLOSED_UNANSWERED: a kept connection ended before a byte of the answer, most likely
    since the server had closed it before, or the server says that it has not begun. LOST: it may have been computed.
    """

    NOT_SENT = "not sent"
    CLOSED_UNANSWERED = "closed unanswered"
    LOST = "lost"
