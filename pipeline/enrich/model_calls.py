"""Ask a language model for an answer of a form, and once more if it cannot be used."""

from collections.abc import Callable
from typing import TypeVar

import structlog

from pipeline.clients.protocols import Completion, Prompt
from pipeline.enrich import prompts
from pipeline.enrich.answers import InvalidAnswer
from pipeline.enrich.protocols import Source
from pipeline.llm.gateway import Call, Gateway

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")


class ModelCaller:
    """What asks a language model: by a gateway, within a time, and within the model's window."""

    def __init__(self, gateway: Gateway, *, timeout_seconds: float, context_tokens: int) -> None:
        self._gateway = gateway
        self._timeout_seconds = timeout_seconds
        self._context_tokens = context_tokens

    @property
    def model(self) -> str:
        """Return the provider's name of the model."""
        return self._gateway.model


def ask(
    gateway: Gateway,
    prompt: Prompt,
    read: Callable[[str], Answer],
    *,
    purpose: str,
    source: Source,
    timeout_seconds: float,
) -> Answer:
    """Return the answer as `read` reads it, repaired once if need be.

    Raises `InvalidAnswer` where `read` raises it twice, and what `Gateway.complete` raises.
    """

    def complete(purpose: str, prompt: Prompt) -> Completion:
        source.before_call()
        return gateway.complete(call_of(purpose, source), prompt, timeout_seconds=timeout_seconds)

    answer = complete(purpose, prompt)
    try:
        return read(answer.text)
    except InvalidAnswer as error:
        log.info("answer_repaired", model=gateway.model, purpose=purpose, truncated=answer.truncated)
        again = (
            prompts.with_more_room(prompt)
            if answer.truncated
            else prompts.repair_prompt(prompt, answer.text, str(error))
        )
    answer = complete("repair", again)
    try:
        return read(answer.text)
    except InvalidAnswer as error:
        cut = "its answer was cut off, " if answer.truncated else ""
        raise InvalidAnswer(f"{gateway.model} gave no usable answer: {cut}{error}") from None


def call_of(purpose: str, source: Source) -> Call:
    """Return what a call for a source is noted as."""
    return Call(tenant_id=source.tenant_id, chat_id=source.chat_id, purpose=purpose, claim=source.claim)
