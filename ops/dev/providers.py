"""Models that hang, fail, answer rubbish or answer too late, as a file says.

Only a worker that is told to import this module (`celery worker -I ops.dev.providers`) has them.
"""

import os
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from ops.dev.shipped import WrappedEmbedder
from pipeline.clients.factory import make_embedder_for
from pipeline.enrich.protocols import Summarizer
from pipeline.enrich.summaries.summarizers import make_summarizer
from schemas.errors import ProviderRejected, ProviderUnavailable
from schemas.load_settings import load_settings
from schemas.sessions import Message, Summary
from schemas.vectors import Vector
from workers import resources

# Names the file: a mood, and the kind of work whose model has it, where that is not both.
MOOD_FILE = "CHAOS_PROVIDER_MOOD_FILE"
HANG, FAIL, RUBBISH, LATE = "hang", "fail", "rubbish", "late"


def _mood(kind: str) -> str:
    mood, _, whose = "", "", ""
    # without the file all is well
    with suppress(FileNotFoundError):
        mood, _, whose = Path(os.environ[MOOD_FILE]).read_text(encoding="utf-8").partition(" ")
    return mood if whose in ("", kind) else ""


def _suffer(kind: str) -> str:
    """Hang, fail or wait as the mood says; the mood for an answer that is still to be made."""
    mood = _mood(kind)
    if mood == HANG:
        while _mood(kind) == HANG:
            time.sleep(0.05)
        raise ProviderUnavailable("the provider did not answer in time (chaos)")
    if mood == FAIL:
        raise ProviderUnavailable("the provider answers 500 (chaos)")
    if mood == LATE:
        time.sleep(load_settings().lease_seconds + 1)
    return mood


class MoodyEmbedder(WrappedEmbedder):
    """An embedder whose provider has moods."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        mood = _suffer("embed")
        vectors = self.inner.embed_documents(texts)
        return _spoilt(vectors) if mood == RUBBISH else vectors


def _spoilt(vectors: list[Vector]) -> list[Vector]:
    """Return too few of them, or vectors too short, not numbers, or without a direction."""
    spoilt: list[list[Vector]] = [vectors[:-1], [vector[:-1] for vector in vectors]]
    spoilt += [[[value] * len(vector) for vector in vectors] for value in (float("nan"), 0.0)]
    return random.choice(spoilt)  # noqa: S311


class MoodySummarizer:
    """A summarizer whose provider has moods."""

    def __init__(self, inner: Summarizer) -> None:
        self._inner = inner

    @property
    def model(self) -> str:
        return self._inner.model

    def summarize(
        self, messages: Sequence[Message], previous: Summary | None = None, **options: Any
    ) -> Summary:
        if _suffer("summarize") == RUBBISH:
            if random.random() < 0.5:  # noqa: S311
                raise ProviderRejected("the answer is not the JSON that was asked for (chaos)")
            return cast(Summary, {"summary": "not a summary"})
        return self._inner.summarize(messages, previous, **options)


if MOOD_FILE in os.environ:
    vars(resources).update(
        make_embedder_for=lambda space, settings: MoodyEmbedder(make_embedder_for(space, settings)),
        make_summarizer=lambda *args, **named: MoodySummarizer(make_summarizer(*args, **named)),
    )
