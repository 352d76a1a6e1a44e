"""Find the earlier weeks of a chat that a question names: last week, the weeks of October."""

from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import Connection

from pipeline.recall.ask.ask import Ask
from pipeline.store.sessions import rollups


@dataclass(frozen=True, kw_only=True)
class RetrievedWeek:
    """A week with its summary."""

    id: int
    monday: date
    started_at: datetime
    summary: str


def find_weeks(connection: Connection, query: Ask) -> list[RetrievedWeek]:
    """Return the weeks of the times that a question names, in order; none where one key is asked about.

    A time of a few days has none: its sessions say more of it than a summary of the week.
    """
    request = query.request
    times = [(start.date(), until.date()) for start, until in query.question.spans]
    times = [(first, until) for first, until in times if (until - first).days >= 7]
    if not times or request.session_key is not None:
        return []
    return [
        RetrievedWeek(
            id=row.id,
            monday=row.week,
            started_at=row.started_at,
            summary=row.summary_text,
        )
        for row in rollups.of_times(connection, request.chat.chat_id, times)
        if request.as_of is None or row.ended_at < request.as_of
    ]
