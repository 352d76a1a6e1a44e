"""What goes wrong, told as RFC 9457 problem details: what, where, what to do, and never how it looks inside.

`type` is a name to switch on (`urn:backscroll:problem:…`), `title` is the same for every problem of a type,
`detail` is for people, `field` names the part of the body that is wrong, `request_id` finds the log lines.
"""

import json
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from schemas.errors import (
    BackscrollError,
    Busy,
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    Retryable,
    SchemaOutdated,
)
from schemas.messages import clean_text
from workers.signals import REQUEST_ID

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:backscroll:problem:"
# An error may quote what was sent; nobody reads more of it.
MAX_DETAIL_CHARS = 1000
MAX_FIELD_CHARS = 200

OUTAGE_SECONDS = 5
"""When to come again while Postgres is away or its tables are being upgraded."""
SOON_SECONDS = 1

TITLES = {
    "unauthorized": "The API key is missing or wrong",
    "not-found": "There is no such thing",
    "busy": "Something else must end first; the same request may be sent again then",
    "slow-body": "The body did not arrive in time",
    "too-large": "The body is too large",
    "invalid-input": "A value in the body is wrong",
    "unavailable": "Not possible now; the same request may be sent again",
    "overloaded": "Too many messages wait to be processed",
    "internal": "Something went wrong here",
}


class Problem(BaseModel):
    """The body of every answer that is not a success, as `application/problem+json`."""

    type: str
    title: str
    status: int
    detail: str
    # the part of the body that is wrong, such as `messages.0.sent_at`
    field: str | None = None
    request_id: str


class HttpError(BackscrollError):
    """A request that the door itself turns down."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})


def request_id() -> str:
    """The id of the request that is being answered."""
    return str(structlog.contextvars.get_contextvars().get(REQUEST_ID, ""))


def as_response(problem: HttpError) -> Response:
    """The problem as an answer."""
    body = {
        "type": TYPE_PREFIX + problem.kind,
        "title": TITLES.get(problem.kind) or HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": clean_text(problem.detail)[:MAX_DETAIL_CHARS],
        "field": clean_text(problem.field)[:MAX_FIELD_CHARS] if problem.field else None,
        "request_id": request_id(),
    }
    text = json.dumps({name: value for name, value in body.items() if value is not None})
    return Response(text, problem.status, problem.headers, MEDIA_TYPE)


def internal_problem() -> HttpError:
    """What is said of a defect of ours."""
    return HttpError(500, "internal", "This is a defect in Backscroll; its log has more by the request id.")


def tell_defect(error: Exception) -> None:
    """Log an error that nobody expected: its type, where it happened, and Postgres's code for it.

    Not its message: that may quote what people wrote, and no log may hold it.
    """
    cause = getattr(error, "orig", None) or error
    log.error(
        "request_failed",
        error=f"{type(error).__module__}.{type(error).__qualname__}",
        sqlstate=getattr(cause, "sqlstate", None),
        where="".join(traceback.format_tb(error.__traceback__)),
    )


def as_problem(error: Exception) -> HttpError:
    """What the sender is told of an error."""
    match error:
        case HttpError():
            return error
        case InvalidInput():
            return HttpError(422, "invalid-input", str(error), field=error.field or None)
        case NotFound():
            return HttpError(404, "not-found", str(error))
        case DatabaseUnavailable():
            log.warning("database_unavailable", error=str(error))
            return _unavailable("Postgres cannot be reached.", OUTAGE_SECONDS)
        case SchemaOutdated():
            log.warning("waits_for_upgrade", error=str(error))
            return _unavailable("The tables are not those that this version needs.", OUTAGE_SECONDS)
        case Busy():
            return HttpError(409, "busy", str(error), headers={"Retry-After": str(OUTAGE_SECONDS)})
        case Retryable():
            log.warning("try_again", error=str(error))
            return _unavailable("Others are changing the same chat.", SOON_SECONDS)
    tell_defect(error)
    return internal_problem()


def _unavailable(reason: str, seconds: int) -> HttpError:
    detail = f"{reason} Send the same request again in {seconds} s; nothing is stored twice."
    return HttpError(503, "unavailable", detail, headers={"Retry-After": str(seconds)})


async def _answer(_request: Request, error: Exception) -> Response:
    return as_response(as_problem(error))


async def _answer_http(_request: Request, error: Exception) -> Response:
    """No such path, or not with this method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for nothing else
    kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    problem = HttpError(error.status_code, kind, str(error.detail), headers=error.headers)
    return as_response(problem)


def install(app: FastAPI) -> None:
    """Answer every error in this shape; what none of these knows, `access` catches."""
    app.add_exception_handler(BackscrollError, _answer)
    app.add_exception_handler(HTTPException, _answer_http)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These statuses for an endpoint's description."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    told = {
        401: "No API key, or a wrong one.",
        404: "There is no such thing; `detail` says what.",
        408: "The body did not arrive in time.",
        409: "Something else must end first; come again after `Retry-After` seconds.",
        413: "The body is too large.",
        422: "A value is wrong; `field` names it and `detail` says what is allowed.",
        503: "Not now: come again after `Retry-After` seconds.",
    }
    return {status: {"description": told[status], "content": content} for status in statuses}
