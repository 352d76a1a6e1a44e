"""Made-up talk to measure with: words as frequent as in real talk, and vectors that know the words."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import hypot

from pipeline.clients.protocols import Embedder
from schemas.messages import MessageIn
from schemas.vectors import EmbeddingSpace, Vector

# Long enough ago that a chat of 100,000 messages, nine years of it, ends in the past.
START = datetime(2010, 1, 4, 8, 0, tzinfo=UTC)
PEOPLE = ("Ann", "Bob", "Cy", "Dee", "Eve", "Fay")
# Words by how often they are used, as Zipf's law has it: the n-th is used 1/n times as often as the first.
_SYLLABLES = [a + b for a in "btkmsrldgpf" for b in ("a", "o", "in", "u", "er")]
VOCABULARY = [a + b for a in _SYLLABLES for b in _SYLLABLES]
# Questions hold words that are neither the most frequent ones nor seldom enough to be easy.
ASKED = VOCABULARY[30:1500]


def conversation(seed: int, messages: int) -> Iterator[MessageIn]:
    """Talk of a made-up language: sessions of about twenty messages, words as frequent as in real ones."""
    rng = random.Random(seed)  # noqa: S311
    weights = [1 / rank for rank in range(1, len(VOCABULARY) + 1)]
    at = START
    for number in range(messages):
        at += (
            timedelta(hours=rng.uniform(1, 30))
            if rng.random() < 0.05
            else timedelta(seconds=rng.uniform(5, 240))
        )
        words = rng.choices(VOCABULARY, weights, k=min(40, 3 + int(rng.expovariate(0.12))))
        speaker = rng.choice(PEOPLE)
        yield MessageIn(
            external_id=f"b{number}",
            sender_id=f"bench:{speaker}",
            sender_name=speaker,
            content=" ".join(words) + rng.choice((".", "?", "", "!")),
            sent_at=at,
        )


class WordMeans:
    """Documents as the mean of a model's vectors of their words: a hundred times as fast as the model itself.

    Questions are embedded by the model. What is no word of the talk counts nothing.
    """

    def __init__(self, model: Embedder) -> None:
        self._model = model
        self._words = dict(zip(VOCABULARY, model.embed_documents(VOCABULARY), strict=True))

    @property
    def space(self) -> EmbeddingSpace:
        """The model's."""
        return self._model.space

    @property
    def max_tokens(self) -> int:
        """As many as a text has: nothing is cut."""
        return 1_000_000

    def count_tokens(self, text: str) -> int:
        """Words."""
        return len(text.split())

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """The mean of the words, scaled to length 1."""
        return [self._mean(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        """By the model."""
        return self._model.embed_query(text)

    def _mean(self, text: str) -> Vector:
        known = [self._words[word] for word in text.rstrip(".?!").split() if word in self._words]
        total = [sum(values) for values in zip(*known or [self._words[VOCABULARY[0]]], strict=True)]
        length = hypot(*total)
        return [round(value / length, 4) for value in total]
