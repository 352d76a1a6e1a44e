"""Ask a language model for an answer in a given form, and once more if it cannot be used."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar
from zoneinfo import ZoneInfo

import structlog
from sqlalchemy import Connection

from pipeline.clients.protocols import Completion, Prompt
from pipeline.enrich.protocols import SummarySource
from pipeline.enrich.summaries import prompts
from pipeline.enrich.summaries.prompts import InvalidAnswer
from pipeline.jobs import runner
from pipeline.llm.gateway import Gateway, ModelCall
from pipeline.store import llm_calls
from pipeline.store.chats.chats import Chat
from pipeline.store.connections.database import Database
from pipeline.store.jobs.jobs import Claim

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")


def source_of(
    database: Database, claim: Claim, chat_id: str, chat: Chat | None, lease_seconds: float
) -> SummarySource:
    """Return the source of a job's messages; before each call to a model its lease is renewed for so long."""
    return SummarySource(
        tenant_id=claim.tenant_id,
        chat_id=chat_id,
        language=chat.language if chat else "simple",
        time_zone=ZoneInfo(chat.time_zone if chat else "UTC"),
        claim=claim,
        before_call=partial(runner.renew, database, claim, lease_seconds),
    )


class ModelCaller:
    """Base of classes that ask a language model: through a gateway, with a timeout, within the model's window.

    `answer_tokens` is the room for an answer, including the thoughts of a reasoning model.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        timeout_seconds: float,
        context_tokens: int,
        answer_tokens: int = prompts.ANSWER_TOKENS,
    ) -> None:
        self._gateway = gateway
        self.model = gateway.model
        self._timeout_seconds = timeout_seconds
        self._context_tokens = context_tokens
        self._answer_tokens = answer_tokens

    def forget_answers(self, connection: Connection, source: SummarySource) -> None:
        """Delete the answers kept for a job, in the transaction that saves its result and before its other statements.

        A later try asks the model again.
        """
        if source.claim is not None:
            llm_calls.drop_answers_of_job(connection, source.chat_id, source.claim)

    def _answer(
        self, prompt: Prompt, read: Callable[[str], Answer], *, purpose: str, source: SummarySource
    ) -> Answer:
        """Return the answer to a prompt as `ask` does; each call is recorded and charged to the source's tenant."""

        def complete(purpose: str, prompt: Prompt) -> Completion:
            source.before_call()
            call = ModelCall(
                tenant_id=source.tenant_id, chat_id=source.chat_id, purpose=purpose, claim=source.claim
            )
            return self._gateway.complete(call, prompt, timeout_seconds=self._timeout_seconds)

        return ask(
            complete, prompt, read, model=self.model, purpose=purpose, context_tokens=self._context_tokens
        )


def ask(
    complete: Callable[[str, Prompt], Completion],
    prompt: Prompt,
    read: Callable[[str], Answer],
    *,
    model: str,
    purpose: str,
    context_tokens: int,
) -> Answer:
    """Return the answer as parsed by `read`; if it is invalid, ask once more, with the problem or with more room.

    `complete` makes a call for a purpose. Raises `InvalidAnswer` if `read` raises it twice, and what `complete` raises.
    """
    answer = complete(purpose, prompt)
    try:
        return read(answer.text)
    except InvalidAnswer as error:
        log.info("answer_repaired", model=model, purpose=purpose, truncated=answer.truncated)
        retry = (
            prompts.with_more_room(prompt, answer.text, context_tokens)
            if answer.truncated
            else prompts.repair_prompt(prompt, answer.text, str(error))
        )
    answer = complete("repair", retry)
    try:
        return read(answer.text)
    except InvalidAnswer as error:
        cut = (
            f"its answer was cut off at {retry.max_tokens} tokens (BACKSCROLL_LLM_ANSWER_TOKENS gives it more), "
            if answer.truncated
            else ""
        )
        raise InvalidAnswer(f"{model} gave no usable answer: {cut}{error}") from None
