"""Lets a worker die of what holds a certain word, as of a fault in a library of C; for tests alone.

Only a worker that is told to import this module (`celery worker -I tests.processes.poison`) dies of it.
"""

import os
import signal
from collections.abc import Sequence
from typing import Any

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.summaries.summarizers import ExtractiveSummarizer
from pipeline.ingest import accept, place
from schemas.sessions import Message, Summary
from schemas.vectors import Vector
from tests.processes.venom import ACCEPTED, EMBEDDED, PLACED_BY, SUMMARIZED
from workers import resources

_put, _accept = place.put, accept.accept


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _put_or_die(*args: Any) -> None:
    if any(arrival.speaker == PLACED_BY for arrival in args[3]):
        _die()
    _put(*args)


def _accept_or_die(*args: Any, **named: Any) -> accept.Accepted:
    if any(ACCEPTED in message.content for message in args[3]):
        _die()
    return _accept(*args, **named)


class PoisonedEmbedder(DeterministicEmbedder):
    """Dies of a word."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        # messages alone: a session's text quotes them
        if any(EMBEDDED in text and "time: " not in text for text in texts):
            _die()
        return super().embed_documents(texts)


class PoisonedSummarizer(ExtractiveSummarizer):
    """Dies of a word."""

    def summarize(
        self, messages: Sequence[Message], previous: Summary | None = None, **options: Any
    ) -> Summary:
        if any(SUMMARIZED in message.content for message in messages):
            _die()
        return super().summarize(messages, previous, **options)


vars(place).update(put=_put_or_die)
vars(accept).update(accept=_accept_or_die)
vars(resources).update(
    make_embedder_for=lambda *_args, **_named: PoisonedEmbedder(),
    make_summarizer=lambda *_args, **_named: PoisonedSummarizer(),
)
