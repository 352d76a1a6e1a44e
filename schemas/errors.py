"""Every error that Backscroll raises on purpose.

    BackscrollError
    ├── Retryable                what failed may work later; jobs are retried with a growing delay
    │   ├── ProviderUnavailable      an embedding or language model did not answer
    │   ├── BudgetSpent              a tenant's budget for language models is spent today
    │   ├── DatabaseUnavailable      Postgres cannot be reached
    │   ├── QueueUnavailable         Redis cannot be reached
    │   ├── WritesRefused            Postgres or Redis answers, and takes no writes
    │   ├── Busy                     something else is in progress on the same data
    │   ├── ApiUnavailable           the HTTP API of a running Backscroll does not answer
    │   ├── LeaseLost                another worker has claimed the job since; the result is dropped
    │   └── SchemaOutdated           the database's tables are not those that this program needs
    ├── ProviderFailed           a model failed, by itself or because of this input; attempts are counted
    ├── ApiFailed                the HTTP API has a defect
    ├── JobsFailed               all of a task's jobs have failed; what becomes of them is in the database
    └── Permanent                trying again cannot help
        ├── InvalidInput             a value is wrong; names the field and what is allowed
        │   └── Conflict                 it is at odds with what is stored
        ├── NotFound                 there is no such chat, session, backfill …
        ├── SettingsError            the configuration is wrong; names the variable
        ├── PayloadRefused           a payload cannot be accepted, and is kept as a dead letter
        └── ProviderRejected         a model refuses this very input

The message is for the user: what is wrong, where, and what to do.
"""


class BackscrollError(Exception):
    """The root of all errors that Backscroll raises on purpose."""


class Retryable(BackscrollError):
    """What failed may work later."""


class _OfProvider:
    """What the errors of providers have."""

    # the provider's id of the request, if it answered one
    request_id: str | None = None


class ProviderUnavailable(_OfProvider, Retryable):
    """A model provider did not answer, or not in time.

    `retry_after` is when it may be asked again, in seconds, if it said so.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BudgetSpent(Retryable):
    """A tenant's budget for language models is spent today.

    `retry_after` is when the next day begins, in seconds.
    """

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ProviderFailed(_OfProvider, BackscrollError):
    """A model provider answered with a failure: it may be out of order, or this input breaks it."""


class DatabaseUnavailable(Retryable):
    """Postgres cannot be reached."""


class QueueUnavailable(Retryable):
    """Redis cannot be reached."""


class WritesRefused(Retryable):
    """Postgres or Redis answers, and takes no writes: it is a replica, or full."""


class ApiUnavailable(Retryable):
    """The HTTP API of a running Backscroll does not answer, or asks to retry later."""


class ApiFailed(BackscrollError):
    """The HTTP API of a running Backscroll reports a defect."""


class LeaseLost(Retryable):
    """Another worker has claimed the job since; this result must not be saved."""


class Busy(Retryable):
    """Something else is in progress on the same data; it works once that has ended."""


class SchemaOutdated(Retryable):
    """The database's tables are not those that this program needs; it works once either is upgraded."""


class JobsFailed(BackscrollError):
    """All of a task's jobs have failed, for those who watch tasks; what becomes of them is in the database."""


class Permanent(BackscrollError):
    """Trying again cannot help."""


class InvalidInput(Permanent):
    """A value that came in is wrong.

    `field` is its name as the sender knows it; the message says what is allowed.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class Conflict(InvalidInput):
    """A value is at odds with what is stored; the message says with what, and what to do."""


class NotFound(Permanent):
    """There is no such thing, or not for this tenant."""


class SettingsError(Permanent):
    """A setting is missing or wrong."""


class PayloadRefused(Permanent):
    """A payload cannot be accepted, and is kept as a dead letter."""


class ProviderRejected(_OfProvider, Permanent):
    """A model provider refuses this very input."""
