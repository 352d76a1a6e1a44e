"""What becomes of a job that fails: when it is tried again, and what is kept of the error; pure."""

import psycopg
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from schemas.errors import BackscrollError, BudgetSpent, LeaseLost, ProviderUnavailable, Retryable

FIRST_RETRY_SECONDS = 2.0
LAST_RETRY_SECONDS = 600.0
OUTAGE_SECONDS = 15.0
"""Pause before a provider that is down is asked again, unless it names one; such a try does not count as an attempt."""
MIN_RETRY_AFTER_SECONDS = 1.0
MAX_RETRY_AFTER_SECONDS = 3600.0
"""A job that is put off for longer is tried after this: a budget may have been raised."""
MAX_ERROR_CHARS = 500


def delay_seconds(error: Exception, attempts: int, jitter: float) -> float:
    """Return the delay before a job that this error ended is tried again; `attempts` includes the one that failed."""
    if isinstance(error, LeaseLost):
        return 0.0
    if isinstance(error, ProviderUnavailable | BudgetSpent):
        return outage_seconds(error.retry_after)
    # Postgres is back when this is written, so that interrupted jobs need not wait long.
    return backoff_seconds(1 if isinstance(error, Retryable) else attempts, jitter)


def backoff_seconds(attempt: int, jitter: float) -> float:
    """Return the delay after the n-th failed attempt; `jitter` from 0 to 1 spreads jobs that failed together.

    >>> [backoff_seconds(n, 0.0) for n in (1, 2, 3, 20)]
    [1.0, 2.0, 4.0, 300.0]
    >>> backoff_seconds(1, 1.0)
    2.0
    """
    ceiling: float = min(FIRST_RETRY_SECONDS * 2 ** min(attempt - 1, 30), LAST_RETRY_SECONDS)
    return ceiling * (0.5 + jitter / 2)


def outage_seconds(retry_after: float | None) -> float:
    """Return the delay of a job that waits for a provider or a budget, which may name it.

    >>> [outage_seconds(after) for after in (None, 0.0, 40.0, 50_000.0)]
    [15.0, 1.0, 40.0, 3600.0]
    """
    seconds = OUTAGE_SECONDS if retry_after is None else retry_after
    return min(max(seconds, MIN_RETRY_AFTER_SECONDS), MAX_RETRY_AFTER_SECONDS)


def reason_of(error: Exception) -> str:
    """Describe an error in one line, without message texts.

    Postgres errors quote the row after their first line, and validation errors quote their input.
    """
    if isinstance(error, ValidationError):
        wrong = (f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors())
        return f"{type(error).__name__}: {'; '.join(wrong)}"[:MAX_ERROR_CHARS]
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if isinstance(error, DBAPIError | psycopg.Error):
        lines = str(cause).strip().splitlines() or [""]
        return f"{type(cause).__name__}: {lines[0]}"[:MAX_ERROR_CHARS]
    return f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]


def outline_of(error: Exception) -> str:
    """Describe an error for task monitoring, without values or a server's words, which may quote messages.

    In our own errors these follow a colon; of any other error only the class name is returned.

    >>> outline_of(ProviderUnavailable("models.example answered 429: you said “Привет”"))
    'models.example answered 429'
    >>> outline_of(KeyError("Привет"))
    'KeyError'
    """
    if isinstance(error, BackscrollError):
        return str(error).partition(": ")[0]
    orig = getattr(error, "orig", None)
    return type(orig if isinstance(orig, Exception) else error).__name__
