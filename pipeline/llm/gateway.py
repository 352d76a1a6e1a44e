"""The one way to a language model: every call goes through here, whatever it is for.

It keeps answers that were paid for, refuses what a budget does not allow, and limits the rate over all workers.
"""

from dataclasses import dataclass

from sqlalchemy import Connection

from pipeline.clients.protocols import ChatModel, Completion, Prompt
from pipeline.jobs.runner import Claim
from pipeline.store.database import Database


@dataclass(frozen=True, kw_only=True)
class Call:
    """What a call is for."""

    tenant_id: str
    chat_id: str
    # `summary`, `repair`, `hyde`, …: a row of `backscroll cost` for each
    purpose: str
    # the job that it is made for, whose next try finds the answer; none: the answer is not kept
    claim: Claim | None = None


class Gateway:
    """Calls one language model for all tenants."""

    def __init__(self, database: Database, client: ChatModel) -> None:
        self._database = database
        self._client = client

    @property
    def model(self) -> str:
        """Return the model's name."""
        return self._client.model

    def complete(self, call: Call, prompt: Prompt, *, timeout_seconds: float) -> Completion:
        """Return the model's answer, within `timeout_seconds` in all; no transaction may be open meanwhile.

        Raises `ProviderUnavailable`, `ProviderFailed` or `ProviderRejected` as the client does.
        """
        return self._client.complete(prompt, timeout_seconds=timeout_seconds)

    def forget_answers(self, connection: Connection, call: Call) -> None:
        """Delete the answers kept for a call's job, in the transaction that saves its result."""
