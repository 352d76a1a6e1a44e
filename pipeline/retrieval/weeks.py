"""Find the earlier weeks of a chat that a question is about, by the words of their rollups (BM25)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

import numpy as np
from sqlalchemy import Connection

from pipeline.ranking.bm25 import idf, saturated
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
    if not rows:
        return []
    times = np.array([[(row.terms or {}).get(word, 0) for row in rows] for word in words], np.float64)
    tells = np.array([idf(rows[0].weeks, int(held)) for held in np.count_nonzero(times, axis=1)])
    sizes = np.array([row.size for row in rows], np.float64)
    scores = saturated(times, sizes, max(float(rows[0].mean_size), 1.0), tells).tolist()
    found = [
        RetrievedWeek(
            id=row.id,
            monday=row.week,
            started_at=row.started_at,
            summary=row.summary_text,
            topics=row.topic_tags,
            score=score,
        )
        for row, score in zip(rows, scores, strict=True)
        if score > 0 and (request.as_of is None or row.ended_at < request.as_of)
    ]
    return sorted(found, key=lambda week: (-week.score, -week.monday.toordinal()))
