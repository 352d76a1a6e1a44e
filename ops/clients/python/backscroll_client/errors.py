"""Every error of the client.

BackscrollError
├── Unavailable      no answer, or one that asks to try again later
├── KeyRefused       the API key is wrong, expired or revoked
├── Refused          a value is wrong, or the key may not do this; names the field and what is allowed
│   └── NotFound         there is no such chat, memory …
├── ApiFailed        the API has a defect
└── BufferUnusable   the buffer is full, or another client's
"""

import json
from typing import Any


class BackscrollError(Exception):
    """The root of the client's errors; the message is the API's own sentence where it answered."""


class Unavailable(BackscrollError):
    """The API does not answer, or asks to try again, in `retry_after` seconds if it said so."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class KeyRefused(BackscrollError):
    """The API key is wrong, expired or revoked."""


class Refused(BackscrollError):
    """A value is wrong, or the key may not do this; `field` is its name, if it is one field's."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class NotFound(Refused):
    """There is no such thing."""


class ApiFailed(BackscrollError):
    """The API has a defect, or what answers is no Backscroll."""


class BufferUnusable(BackscrollError):
    """The buffer is full, or belongs to another client."""


def error_of(status: int, body: bytes, retry_after: str | None = None) -> BackscrollError | None:
    """Return the error that an answer tells, None for a success."""
    if status < 300:
        return None
    try:
        problem: dict[str, Any] = dict(json.loads(body))
    except (ValueError, TypeError):
        problem = {}
    detail = str(problem.get("detail") or f"the API answers {status}")
    match status:
        case 429 | 502 | 503 | 504:
            return Unavailable(detail, retry_after=_seconds(retry_after))
        case 409 if retry_after is not None:
            return Unavailable(detail, retry_after=_seconds(retry_after))
        case 401:
            return KeyRefused(detail)
        case 404 if "type" in problem:
            return NotFound(detail)
        case 400 | 403 | 405 | 408 | 409 | 413 | 415 | 422:
            return Refused(detail, field=str(problem.get("field") or ""))
    return ApiFailed(f"{detail} {problem.get('request_id', '')}".rstrip())


def _seconds(retry_after: str | None) -> float | None:
    # a date, which a proxy may send, is as good as none
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
