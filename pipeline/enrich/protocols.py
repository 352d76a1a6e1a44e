"""Protocol of summarizers: a session's messages to their summary."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Protocol

from pipeline.jobs.runner import Claim
from schemas.sessions import Message, Summary


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Whose messages are summarized, and for which job."""

    tenant_id: str = ""
    chat_id: str = ""
    # of the chat's keyword search, such as `german`; `simple`: unknown
    language: str = "simple"
    # the job whose next try finds the answers that were paid for
    claim: Claim | None = None
    # is called before each call to a model, and renews the lease or raises `LeaseLost`
    before_call: Callable[[], None] = _nothing


NOWHERE = Source()


class Summarizer(Protocol):
    """A session's messages to their summary."""

    @property
    def model(self) -> str:
        """Return the name that is stored with the summary, such as `extractive-v1`."""

    def summarize(
        self,
        messages: Sequence[Message],
        previous: Summary | None = None,
        *,
        time_zone: tzinfo = UTC,
        source: Source = NOWHERE,
    ) -> Summary:
        """Summarize at least one message, in order of time; dates are those of the chat's `time_zone`.

        `previous` is the summary of the messages before them in the same session, and is carried on. Raises
        `ProviderUnavailable`, `BudgetSpent`, `ProviderFailed` (no usable answer) or `ProviderRejected`.
        """
