"""Errors as RFC 9457 problem details: what is wrong, where, and what to do, without internals."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from schemas.base import Frozen, in_words
from schemas.errors import (
    BackscrollError,
    Busy,
    Conflict,
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    Retryable,
    SchemaOutdated,
)
from schemas.masking import masked
from schemas.messages import clean_text
from workers.api.scopes import METHODS
from workers.signals import current_request_id

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:backscroll:problem:"
# An error may quote the request.
MAX_DETAIL_CHARS = 1000
MAX_FIELD_CHARS = 200

OUTAGE_SECONDS = 5
"""When to retry while Postgres is down or its tables are being upgraded."""
SOON_SECONDS = 1

TITLES = {
    "unauthorized": "The API key is missing or wrong",
    "forbidden": "The API key may not do this",
    "too-many-requests": "The API key has reached its limit",
    "unproven": "The platform's proof is missing or wrong",
    "not-found": "There is no such thing",
    "busy": "Something else must end first; the same request may be sent again then",
    "conflict": "It is at odds with what is stored",
    "slow-body": "The body did not arrive in time",
    "too-large": "The body is too large",
    "invalid-input": "A value in the body is wrong",
    "unavailable": "Not possible now; the same request may be sent again",
    "overloaded": "Too many messages wait to be processed",
    "internal": "Something went wrong here",
}


_MEANING = {
    401: "No API key or proof, or a wrong one.",
    403: "The API key lacks the scope, or is only for other chats; `detail` says which.",
    404: "There is no such thing; `detail` says what.",
    408: "The body did not arrive in time.",
    409: "Something else must end first: retry after `Retry-After` seconds. Without that header, `detail` says what "
    "stored thing is in the way.",
    413: "The body is too large.",
    422: "A value is wrong; `field` names it and `detail` says what is allowed.",
    429: "The API key has reached its limit; retry after `Retry-After` seconds.",
    503: "Not possible now; retry after `Retry-After` seconds.",
}


class Problem(Frozen):
    """The body of every answer that is not a success, as `application/problem+json`."""

    type: str
    """A name to switch on, `urn:backscroll:problem:…`."""
    title: str
    """The same for every problem of a type."""
    status: int
    detail: str
    """For people."""
    field: str | None = None
    """The wrong part of the request, such as `messages.0.sent_at`."""
    request_id: str
    """The id by which to find the log lines."""


@dataclass(eq=False)
class HttpError(BackscrollError):
    """A request that the HTTP API itself refuses."""

    status: int
    kind: str
    detail: str
    field: str | None = None
    headers: Mapping[str, str] | None = None


def request_id() -> str:
    """Return the id of the request that is being answered."""
    return current_request_id() or ""


def as_response(problem: HttpError) -> Response:
    body = Problem(
        type=TYPE_PREFIX + problem.kind,
        title=TITLES.get(problem.kind) or HTTPStatus(problem.status).phrase,
        status=problem.status,
        # it may name what was given
        detail=masked(clean_text(problem.detail))[:MAX_DETAIL_CHARS],
        field=masked(clean_text(problem.field))[:MAX_FIELD_CHARS] if problem.field else None,
        request_id=request_id(),
    )
    return Response(body.model_dump_json(exclude_none=True), problem.status, problem.headers, MEDIA_TYPE)


def _log_defect(error: Exception) -> None:
    """Log an unexpected error: its type, where it happened, and Postgres's code for it.

    Its message is left out, as it may quote what people wrote.
    """
    cause = getattr(error, "orig", None) or error
    log.error(
        "request_failed",
        error=f"{type(error).__module__}.{type(error).__qualname__}",
        sqlstate=getattr(cause, "sqlstate", None),
        where="".join(traceback.format_tb(error.__traceback__)),
    )


def as_problem(error: Exception) -> HttpError:
    """Turn an error into the problem for its sender."""
    match error:
        case HttpError():
            return error
        case Conflict():
            return HttpError(409, "conflict", str(error), field=error.field or None)
        case InvalidInput():
            return HttpError(422, "invalid-input", str(error), field=error.field or None)
        case NotFound():
            return HttpError(404, "not-found", str(error))
        case DatabaseUnavailable():
            log.warning("database_unavailable", error=str(error))
            # the text after the colon is the driver's, and may name hosts
            return unavailable(f"{str(error).partition(':')[0]}.", OUTAGE_SECONDS)
        case SchemaOutdated():
            log.warning("waits_for_upgrade", error=str(error))
            return unavailable("The tables are not those that this version needs.", OUTAGE_SECONDS)
        case Busy():
            return HttpError(409, "busy", str(error), headers={"Retry-After": str(OUTAGE_SECONDS)})
        case Retryable():
            log.warning("try_again", error=str(error))
            return unavailable("Others are changing the same chat.", SOON_SECONDS)
    _log_defect(error)
    return HttpError(500, "internal", "This is a defect in Backscroll; its log has more by the request id.")


def unavailable(reason: str, seconds: int) -> HttpError:
    """Return the problem of something that is not possible now."""
    detail = f"{reason} Send the same request again in {seconds} s; nothing is stored twice."
    return HttpError(503, "unavailable", detail, headers={"Retry-After": str(seconds)})


async def _answer(request: Request, error: Exception) -> Response:
    caller = getattr(request.state, "caller", None)
    if isinstance(error, NotFound) and caller is not None and caller.key.chats is not None:
        # the sentence may suggest other chats
        error = NotFound("there is no such thing, or not for this API key")
    return as_response(as_problem(error))


async def _answer_invalid(request: Request, error: Exception) -> Response:
    """Answer a wrong value in the path or the query."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - it is registered for nothing else
    return as_response(as_invalid(request, error))


def as_invalid(request: Request, error: RequestValidationError) -> HttpError:
    """Turn a wrong value in the path or the query into the problem for its sender."""
    # without the first part of each location, `path` or `query`
    problems = [problem | {"loc": problem["loc"][1:]} for problem in error.errors()]
    annotations = [param.field_info.annotation for param in request.scope["route"].dependant.query_params]
    model = next((annotation for annotation in annotations if hasattr(annotation, "model_fields")), None)
    message, field = in_words(problems, model)
    return HttpError(422, "invalid-input", message, field=field)


async def _answer_http(request: Request, error: Exception) -> Response:
    """Answer for an unknown path or method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for nothing else
    kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    headers = error.headers
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # Starlette names the methods of the first route with this path only
        scopes = [{**request.scope, "method": method} for method in METHODS]
        fit = [s["method"] for s in scopes if any(r.matches(s)[0] is Match.FULL for r in request.app.routes)]
        headers = {"Allow": ", ".join(fit)}
    problem = HttpError(error.status_code, kind, str(error.detail), headers=headers)
    return as_response(problem)


# Every error is answered in this form; `access` answers those without a handler.
HANDLERS: dict[int | type[Exception], Any] = {
    BackscrollError: _answer,
    RequestValidationError: _answer_invalid,
    HTTPException: _answer_http,
}


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe problems with these statuses."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _MEANING[status], "content": content} for status in statuses}
