"""What the blocks of a context may show of sessions and weeks, as sections for `packing`. Pure."""

from collections.abc import Sequence
from datetime import timedelta, tzinfo

from pipeline.context.packing import UNCAPPED, Entry, Section, entry_of
from pipeline.context.wording import DEFAULT, Wording
from pipeline.retrieval.profiles import Parameters
from pipeline.retrieval.sessions import RetrievedSession, sharing_topics
from pipeline.retrieval.weeks import RetrievedWeek
from pipeline.text import calendar, fencing, truncate
from schemas.context import ContextItem

# Users choose their names, of any length.
MAX_NAME_CHARS = 60


def sessions(
    chosen: Sequence[RetrievedSession], parameters: Parameters, cap: int, zone: tzinfo, wording: Wording
) -> Section:
    """Offer the summaries of the chosen sessions, each with its time window and topics."""
    entries = []
    for session in chosen:
        topics = f" ({truncate.one_line(', '.join(session.topics[:4]))})" if session.topics else ""
        summary = _without_day(session, zone, wording)
        text = f"{topics}: {truncate.shortened(summary, parameters.session_chars)}"
        reason = f"session {session.id} holds some of the best matches"
        entries.append(_session_entry(session, text, reason, zone, wording))
    return Section(kind="sessions", heading=wording.sessions, entries=entries, cap=cap)


def rollups(weeks: Sequence[RetrievedWeek], parameters: Parameters, cap: int, wording: Wording) -> Section:
    """Offer the summaries of the weeks that a question names, each with its dates and topics."""
    entries = []
    for week in weeks[: parameters.sessions]:
        last = week.monday + timedelta(days=6)
        topics = f" ({truncate.one_line(', '.join(week.topics[:4]))})" if week.topics else ""
        summary = truncate.shortened(truncate.one_line(week.summary), parameters.session_chars)
        item = ContextItem(
            kind="rollup",
            id=str(week.id),
            text=f"- {wording.day(week.monday)} – {wording.day(last)}{topics}: {summary}",
            at=week.started_at,
            reason="a week of a time that the question names",
        )
        entries.append(entry_of(item, (week.monday,)))
    return Section(kind="rollups", heading=wording.rollups, entries=entries, cap=cap)


def related(
    chosen: Sequence[RetrievedSession],
    others: Sequence[RetrievedSession],
    parameters: Parameters,
    zone: tzinfo,
    wording: Wording,
) -> Section:
    """Sessions that share topics or entities with the chosen ones, most shared first."""
    entries = []
    for common, session in sharing_topics(chosen, others)[: parameters.related]:
        summary = truncate.shortened(truncate.one_line(session.summary or ""), parameters.related_chars)
        reason = f"shares {', '.join(common[:3])} with the sessions above"
        entries.append(_session_entry(session, f": {summary}", reason, zone, wording))
    return Section(kind="related", heading=wording.related, entries=entries, cap=UNCAPPED)


def display_name(name: str) -> str:
    """Put a name on one line of bounded length."""
    return truncate.shortened(fencing.name(name), MAX_NAME_CHARS)


def _without_day(session: RetrievedSession, zone: tzinfo, wording: Wording) -> str:
    """Return a session's summary; an extractive one begins with its day, which the window already names."""
    summary, began = truncate.one_line(session.summary or ""), session.started_at.astimezone(zone).date()
    for language in (wording.language, DEFAULT):
        summary = summary.removeprefix(f"{calendar.written(began, language)}: ")
    return summary


def _session_entry(
    session: RetrievedSession, text: str, reason: str, zone: tzinfo, wording: Wording
) -> Entry:
    item = ContextItem(
        kind="session",
        id=str(session.id),
        text=f"- {wording.window(session.started_at, session.ended_at, zone)}{text}",
        at=session.started_at,
        score=session.score,
        reason=reason,
    )
    return entry_of(item, (session.started_at, session.id))
