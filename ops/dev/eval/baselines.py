"""What a chat would be searched with otherwise: BM25 over Postgres' words, vectors, or the untuned sum of both."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pipeline.clients.protocols import Embedder
from pipeline.text.bm25 import K1, B
from pipeline.text.tokens import estimate_line
from pipeline.text.truncate import one_line
from schemas.messages import MessageIn

Array = npt.NDArray[np.float64]
Words = Callable[[Sequence[str]], Sequence[Mapping[str, int]]]
"""Returns the words of each text, with how often each is in it."""


class PlainBm25:
    """BM25 of single messages, without anything around them."""

    def __init__(self, words: Words, texts: Sequence[str]) -> None:
        self._words = words
        self._texts = words(texts)
        self._lengths = [sum(each.values()) for each in self._texts]
        self._frequency = Counter(word for each in self._texts for word in each)

    def scores(self, question: str) -> Array:
        """Return the score of each text; 0 without a word of the question."""
        (asked,) = self._words([question])
        total, usual = len(self._texts), sum(self._lengths) / max(len(self._lengths), 1) or 1.0
        scores = np.zeros(total)
        for word in asked:
            idf = math.log(1 + (total - self._frequency[word] + 0.5) / (self._frequency[word] + 0.5))
            for i, text in enumerate(self._texts):
                if times := text.get(word, 0):
                    norm = K1 * (1 - B + B * self._lengths[i] / usual)
                    scores[i] += idf * times * (K1 + 1) / (times + norm)
        return scores


class PlainVectors:
    """Cosines of the plain texts with the question as it was typed."""

    def __init__(self, embedder: Embedder, texts: Sequence[str]) -> None:
        self._embedder = embedder
        self._vectors = np.array(embedder.embed_documents(texts), dtype=np.float64)

    def scores(self, question: str) -> Array:
        """Return the cosine of each text."""
        found: Array = self._vectors @ np.array(self._embedder.embed_query(question), dtype=np.float64)
        return found


def spread(scores: Array) -> Array:
    """Return scores between 0 for the least and 1 for the best; 0 if all are the same."""
    span = float(np.ptp(scores)) if scores.size else 0.0
    return (scores - scores.min()) / span if span > 0 else np.zeros_like(scores)


def ranked(messages: Sequence[MessageIn], scores: Array, *, above: float = -math.inf) -> list[MessageIn]:
    """Return the messages with a score `above` this, best first, of equal ones the later."""
    found = [(score, m.sent_at, i) for i, (score, m) in enumerate(zip(scores, messages, strict=True))]
    return [messages[i] for score, _, i in sorted(found, reverse=True) if score > above]


def plain_context(best: Sequence[MessageIn], budget: int) -> str:
    """Show the best messages with their speakers, a line each, as long as they fit into `budget` tokens."""
    lines: list[str] = []
    left = budget
    for message in best:
        line = f"{message.sender_name}: {one_line(message.content)}"
        left -= estimate_line(line)
        if left < 0:
            break
        lines.append(line)
    return "\n".join(lines)
