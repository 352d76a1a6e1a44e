"""Every error of the client.

BackscrollError
├── Unavailable      not now: no answer, or one that asks to try again later
│   ├── NoAnswer         nobody answers there, or not in time
│   └── ApiFailed        the API has a defect, or what answers is no Backscroll
├── KeyRefused       not with this API key: it is wrong, expired or revoked
│   └── Forbidden        it may not do this
├── Refused          a value is wrong; names the field and what is allowed
│   └── NotFound         there is no such chat, memory …
└── BufferUnusable   the buffer is full, cannot be written, or is open in another client
"""


class BackscrollError(Exception):
    """The root of the client's errors; the message is the API's own sentence where it answered."""


class Unavailable(BackscrollError):
    """The API does not take it now; it may in `retry_after` seconds, if that is known."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NoAnswer(Unavailable):
    """Nobody answers there, or not in time."""


class ApiFailed(Unavailable):
    """The API has a defect, or what answers is no Backscroll."""


class KeyRefused(BackscrollError):
    """The API key is wrong, expired or revoked."""


class Forbidden(KeyRefused):
    """The API key may not do this."""


class Refused(BackscrollError):
    """A value is wrong; `field` is its name, if it is one field's."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class NotFound(Refused):
    """There is no such thing."""


class BufferUnusable(BackscrollError):
    """The buffer is full, cannot be written, or is open in another client; the message says what to do."""
