"""What a chat would be searched with otherwise: BM25 over Postgres' words, vectors, or the untuned sum of both."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from sqlalchemy import text

from ops.dev.eval.measures import BUDGETS, Row, WayResult, measured
from ops.dev.eval.samples import SampleChat, SampleQuestion
from ops.dev.shipped import Shipped
from pipeline.text.bm25 import K1, B, idf
from pipeline.text.tokens import estimate_line
from pipeline.text.truncate import one_line
from schemas.messages import MessageIn

Array = npt.NDArray[np.float64]
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

    def __init__(self, backscroll: Shipped, sample: SampleChat, session_of: Mapping[str, int]) -> None:
        self._backscroll, self._messages, self._session_of = backscroll, sample.messages, session_of
        self._embedder = backscroll.resources.embedder
        self._language = sample.chat.language or "english"
        texts = [message.content for message in sample.messages]
        self._words = self._split(texts)
        self._vectors = np.array(self._embedder.embed_documents(texts), dtype=np.float64)

    def rows(self, case: SampleQuestion) -> dict[str, Row]:
        """Rank all messages for a question by each way, and measure it."""
        by_words = bm25(self._words, self._split([case.question])[0])
        cosines = self._vectors @ np.array(self._embedder.embed_query(case.question))
        rankings = {
            # a message without a word of the question is not found by words
            "bm25": ranked(self._messages, by_words, above=0.0),
            "vectors": ranked(self._messages, cosines),
            "sum": ranked(self._messages, spread(by_words) + spread(cosines)),
        }
        return {way: measured(case, self._session_of, self._result(best)) for way, best in rankings.items()}

    def _split(self, texts: Sequence[str]) -> list[dict[str, int]]:
        """Return the words of each text, as Postgres splits its language, with how often each is in it."""
        counts: list[dict[str, int]] = [{} for _ in texts]
        with self._backscroll.database.tenant(self._backscroll.tenant) as connection:
            configuration = connection.scalar(_CONFIGURATION, {"language": self._language})
            parameters = {"texts": list(texts), "configuration": configuration}
            for n, lexeme, times in connection.execute(_WORDS, parameters):
                counts[n][lexeme] = times
        return counts

    def _result(self, best: Sequence[MessageIn]) -> WayResult:
        ids = [message.external_id for message in best]
        return WayResult(
            ranked=ids,
            sessions=list(dict.fromkeys(self._session_of[id_] for id_ in ids)),
            shown={budget: plain_context(best, budget) for budget in BUDGETS},
        )


def bm25(texts: Sequence[Mapping[str, int]], question: Iterable[str]) -> Array:
    """Return the score of each text, given its words and how often each is in it; 0 without a word of the question."""
    lengths = np.array([sum(words.values()) for words in texts], dtype=np.float64)
    norms = K1 * (1 - B + B * lengths / (lengths.mean() or 1.0))
    scores = np.zeros(len(texts))
    for word in question:
        times = np.array([words.get(word, 0) for words in texts], dtype=np.float64)
        having = np.count_nonzero(times)
        scores += idf(len(texts), int(having)) * times * (K1 + 1) / (times + norms)
    return scores


def spread(scores: Array) -> Array:
    """Return scores between 0 for the least and 1 for the best; 0 if all are the same."""
    span = float(np.ptp(scores)) if scores.size else 0.0
    return (scores - scores.min()) / span if span > 0 else np.zeros_like(scores)


def ranked(messages: Sequence[MessageIn], scores: Array, *, above: float = -math.inf) -> list[MessageIn]:
    """Return the messages with a score `above` this, best first, of equal ones the later."""
    scored = [(score, m.sent_at, i) for i, (score, m) in enumerate(zip(scores, messages, strict=True))]
    return [messages[i] for score, _, i in sorted(scored, reverse=True) if score > above]


def plain_context(best: Sequence[MessageIn], budget: int) -> str:
    """Show the best messages with their speakers, a line each, as long as they fit into `budget` tokens."""
    lines = [f"{message.sender_name}: {one_line(message.content)}" for message in best]
    used = accumulate(map(estimate_line, lines))
    return "\n".join(line for line, tokens in zip(lines, used, strict=True) if tokens <= budget)
