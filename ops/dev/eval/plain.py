"""What a chat would be searched with otherwise: BM25 over Postgres' words, vectors, or the untuned sum of both."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from sqlalchemy import text

from ops.dev.eval.measures import BUDGETS, QuestionFigures, WayResult, measured
from ops.dev.eval.samples import SampleChat, SampleQuestion
from ops.dev.shipped import Shipped
from pipeline.clients.protocols import Embedder
from pipeline.text.bm25 import K1, B
from pipeline.text.tokens import estimate_line
from pipeline.text.truncate import one_line
from schemas.messages import MessageIn

Array = npt.NDArray[np.float64]
Words = Callable[[Sequence[str]], Sequence[Mapping[str, int]]]
"""Returns the words of each text, with how often each is in it."""
# Postgres has no configuration for every language of a chat; `german+english` is one of two.
_CONFIGURATION = text("""
    SELECT coalesce((SELECT cfgname FROM pg_ts_config WHERE cfgname = split_part(:language, '+', 1) LIMIT 1), 'simple')
""")
_WORDS = text("""
    SELECT t.n - 1, word.lexeme, cardinality(word.positions)
    FROM unnest(CAST(:texts AS text[])) WITH ORDINALITY t(content, n)
    CROSS JOIN LATERAL unnest(to_tsvector(CAST(:configuration AS regconfig), t.content)) word
""")


class PlainSearch:
    """A chat searched plainly: by words, by vectors, and by the sum of both, each spread from 0 to 1."""

    def __init__(
        self, backscroll: Shipped, sample: SampleChat, session_of: Mapping[str, int], *, words_only: bool
    ) -> None:
        self._messages = sample.messages
        self._session_of = session_of
        texts = [message.content for message in sample.messages]
        self._bm25 = PlainBm25(_words_of(backscroll, sample.chat.language or "english"), texts)
        self._vectors = None if words_only else PlainVectors(backscroll.resources.embedder, texts)

    def asked(self, case: SampleQuestion) -> dict[str, QuestionFigures]:
        """Rank all messages for a question by each way, and measure it."""
        bm25 = self._bm25.scores(case.question)
        # a message without a word of the question is not found by words
        found = {"bm25": ranked(self._messages, bm25, above=0.0)}
        if self._vectors is not None:
            cosines = self._vectors.scores(case.question)
            found["vectors"] = ranked(self._messages, cosines)
            found["sum"] = ranked(self._messages, spread(bm25) + spread(cosines))
        return {way: measured(case, self._session_of, self._result(best)) for way, best in found.items()}

    def _result(self, best: Sequence[MessageIn]) -> WayResult:
        ids = [message.external_id for message in best]
        return WayResult(
            ranked=ids,
            sessions=list(dict.fromkeys(self._session_of[each] for each in ids)),
            shown={budget: plain_context(best, budget) for budget in BUDGETS},
        )


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
            for i, words in enumerate(self._texts):
                if times := words.get(word, 0):
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


def _words_of(backscroll: Shipped, language: str) -> Words:
    """Return what takes texts apart as Postgres does for a language."""

    def words(texts: Sequence[str]) -> list[dict[str, int]]:
        found: list[dict[str, int]] = [{} for _ in texts]
        with backscroll.database.tenant(backscroll.tenant) as connection:
            configuration = connection.scalar(_CONFIGURATION, {"language": language})
            given = {"texts": list(texts), "configuration": configuration}
            for n, lexeme, times in connection.execute(_WORDS, given):
                found[n][lexeme] = times
        return found

    return words
