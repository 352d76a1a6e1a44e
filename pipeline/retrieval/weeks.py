"""Find the earlier weeks of a chat that a question is about, by the words of their rollups (BM25)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import Connection

from pipeline.ranking.bm25 import K1, B, idf
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.store import rollups


@dataclass(frozen=True, kw_only=True)
class RetrievedWeek:
    """A week with its summary."""

    id: int
    monday: date
    started_at: datetime
    summary: str
    topics: Sequence[str]
    # BM25
    score: float


def find_weeks(connection: Connection, query: PreparedQuery) -> list[RetrievedWeek]:
    """Return the weeks whose summary holds words of the question, best first; none where one key is asked about."""
    request, words = query.request, list(query.terms.lexemes)
    if not request.parameters.rollups or not words or request.session_key is not None:
        return []
    rows = rollups.of_chat(connection, request.chat.chat_id, words)
    frequency = Counter(word for row in rows for word in row.terms or {})
    found = []
    for row in rows:
        if request.as_of is not None and row.ended_at >= request.as_of:
            continue
        norm = K1 * (1 - B + B * row.size / max(float(row.mean_size), 1.0))
        score = sum(
            idf(row.weeks, frequency[word]) * times * (K1 + 1) / (times + norm)
            for word, times in (row.terms or {}).items()
        )
        if score > 0:
            found.append(
                RetrievedWeek(
                    id=row.id,
                    monday=row.week,
                    started_at=row.started_at,
                    summary=row.summary_text,
                    topics=row.topic_tags,
                    score=score,
                )
            )
    return sorted(found, key=lambda week: (-week.score, -week.monday.toordinal()))
