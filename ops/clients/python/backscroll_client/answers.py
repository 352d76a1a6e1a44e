"""What an answer means, for every request; `buffer` has the table of what follows for those that wait."""

import json
from typing import Any, TypeVar

import httpx

from backscroll_client import errors
from backscroll_client.calls import Call

T = TypeVar("T")

PROBLEM, PROBLEM_TYPES = "application/problem+json", "urn:backscroll:problem:"
UNKNOWN_PATH = "Not Found"
"""How a Backscroll without such a path says so: then the URL or its version is wrong, not the request."""
STALLED_SECONDS = 30.0
"""After which to ask again what did not answer in time: whoever waits for an answer must not wait for it each time."""


def meaning(call: Call[T], response: httpx.Response) -> T | errors.BackscrollError:
    """Return what the answer to a call says, or the error that it tells."""
    try:
        value = json.loads(response.content)
    except (ValueError, RecursionError):
        value = None
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if response.status_code in call.statuses:
        try:
            return call.read(value)
        except errors.Refused as refused:
            return refused
        except (LookupError, TypeError, ValueError):
            # somebody else's success
            pass
    elif media_type == PROBLEM and isinstance(value, dict):
        is_own = str(value.get("type")).startswith(PROBLEM_TYPES)
        if is_own and (problem := _problem(value, response)) is not None:
            return problem
    told = f"{call.method} {call.path.partition('?')[0]} was not answered by a Backscroll: {response.status_code}"
    hint = f"{media_type}. Is the URL right?" if response.status_code < 500 else media_type
    return errors.ApiFailed(f"{told} {hint}".rstrip(), retry_after=_retry_after(response))


def _problem(problem: dict[str, Any], response: httpx.Response) -> errors.BackscrollError | None:
    detail, field = str(problem.get("detail")), str(problem.get("field") or "")
    match response.status_code:
        case 401:
            return errors.KeyRefused(detail)
        case 403:
            return errors.Forbidden(detail)
        case 404 if detail != UNKNOWN_PATH:
            return errors.NotFound(detail, field=field)
        case 400 | 413 | 422:
            return errors.Refused(detail, field=field)
        case 409 if "Retry-After" not in response.headers:
            return errors.Refused(detail, field=field)
        case 408 | 409 | 429 | 503:
            return errors.Unavailable(detail, retry_after=_retry_after(response))
        case 500:
            return errors.ApiFailed(f"{detail} {problem.get('request_id', '')}".rstrip())
    return None


def _retry_after(response: httpx.Response) -> float | None:
    seconds = response.headers.get("Retry-After", "")
    # a date, which a proxy may send, is as good as none
    return float(seconds) if seconds.isdecimal() else None


def without_answer(url: str, error: Exception) -> errors.Unavailable:
    """Return the error of a request that failed on its way, or whose answer cannot be read."""
    told = f"the Backscroll at {url} does not answer ({error or type(error).__name__})"
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return errors.NoAnswer(told)
        case httpx.TimeoutException():
            return errors.NoAnswer(told, retry_after=STALLED_SECONDS)
    return errors.Unavailable(told)
