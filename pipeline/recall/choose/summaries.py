"""Choose summaries shown without messages, and sessions related to those shown. Pure."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta

from pipeline.recall.choose.lines import ChosenLine, Style, Wording, display_name
from pipeline.recall.find.retrieved_sessions import RetrievedSession, RetrievedWeek, sharing_topics
from pipeline.recall.profiles import Parameters
from pipeline.recall.relevance import LIMIT
from pipeline.text import truncate
from schemas.context import BlockKind, Dropped, DropReason

RELATED_WORTH = 0.2
"""Worth of a related session: less than anything about the question itself."""

MAX_PEOPLE = 6
"""Names shown above the quotations of a session."""
MAX_QUOTATIONS = 2
"""Lines of a session that is summarized by quotations."""
RELATED_CHARS = 80
"""Characters of a related session's summary."""


def choose(
    sessions: Sequence[RetrievedSession],
    fitting: Collection[int],
    opened: Collection[int],
    parameters: Parameters,
    style: Style,
) -> Iterator[ChosenLine | Dropped]:
    """Choose sessions, given best first, and say why the others are left out.

    A summary is shown only if its session is `fitting` by itself and not `opened`: none of its messages is shown.
    """

    def dropped(session: RetrievedSession, reason: DropReason, detail: str) -> Dropped:
        return Dropped(kind="session", id=str(session.id), reason=reason, detail=detail)

    for session in sessions:
        if session.id in opened:
            yield dropped(session, "covered", "messages of it are shown")
        elif session.id not in fitting:
            yield dropped(session, "below_minimum", "none of its messages is chosen")
        elif not session.summary:
            yield dropped(session, "below_minimum", "not summarized")
        else:
            reason = f"session {session.id} is one of the best, and none of its messages is shown"
            yield _line("exchanges", session, LIMIT, parameters.session_chars, reason, style)


def overview(
    sessions: Sequence[RetrievedSession], parameters: Parameters, style: Style
) -> Iterator[ChosenLine]:
    """Choose all sessions of the time that the question asks to sum up, in order; they come before all else."""
    for number, session in enumerate(sessions):
        if session.summary:
            reason = f"session {session.id} is of the time that the question asks about"
            # more than any hit, the first ones most
            worth = 1 + 1 / (1 + number)
            yield _line("exchanges", session, worth, parameters.session_chars, reason, style)


def weeks(
    retrieved: Sequence[RetrievedWeek], parameters: Parameters, wording: Wording
) -> Iterator[ChosenLine]:
    """Choose the summaries of the weeks that the question names."""
    for week in retrieved[: parameters.sessions]:
        last = week.monday + timedelta(days=6)
        summary = truncate.shortened(truncate.one_line(week.summary), parameters.session_chars)
        text = f"- {wording.day(week.monday)} – {wording.day(last)}: {summary}"
        yield ChosenLine(
            block="rollups",
            kind="rollup",
            id=str(week.id),
            at=week.started_at,
            reason="a week of a time that the question names",
            worth=1.0,
            place=(week.monday,),
            write=_written(text),
        )


def related(
    sessions: Sequence[RetrievedSession],
    opened: Collection[int],
    parameters: Parameters,
    style: Style,
) -> Iterator[ChosenLine]:
    """Choose sessions that share topics or entities with those `opened`, most shared first."""
    shown = [session for session in sessions if session.id in opened]
    candidates = [session for session in sessions if session.id not in opened and session.summary]
    for number, (common, session) in enumerate(sharing_topics(shown, candidates)[: parameters.related]):
        reason = f"shares {', '.join(common[:3])} with the sessions found"
        worth = RELATED_WORTH - number / 1e6
        yield _line("related", session, worth, RELATED_CHARS, reason, style)


def _line(
    block: BlockKind,
    session: RetrievedSession,
    worth: float,
    chars: int,
    reason: str,
    style: Style,
) -> ChosenLine:
    window = style.wording.window(session.started_at, session.ended_at, style.zone)
    text = f"- {window}: {truncate.shortened(truncate.one_line(session.summary or ''), chars)}"
    if not session.is_described:
        text = "\n  ".join([" · ".join([f"- {window}", *_labels(session)]), *_quotations(session, chars)])
    return ChosenLine(
        block=block,
        kind="session",
        id=str(session.id),
        at=session.started_at,
        score=session.score,
        reason=reason,
        worth=worth,
        place=(session.started_at, session.id),
        write=_written(text),
    )


def _labels(session: RetrievedSession) -> Iterator[str]:
    """Yield the participants of a session and, if known, its topics."""
    people = [display_name(name) for name in session.participants]
    if len(people) > MAX_PEOPLE:
        people[MAX_PEOPLE:] = [truncate.ELLIPSIS]
    for names in (people, [truncate.one_line(topic) for topic in session.topics]):
        if names:
            yield ", ".join(names)


def _quotations(session: RetrievedSession, chars: int) -> list[str]:
    """Return the one or two lines of an extractive summary with most of its topics, in order, within `chars`."""
    summary = session.summary or ""
    # a summary by an earlier version is a single line
    lines = [truncate.one_line(line) for line in summary.splitlines()[1:]]
    lines = lines or [truncate.shortened(truncate.one_line(summary), chars)]
    low = [line.casefold() for line in lines]
    counts = [sum(topic.casefold() in line for topic in session.topics) for line in low]
    best: list[int] = []
    for index in sorted(range(len(lines)), key=lambda index: -counts[index]):
        if len(best) < MAX_QUOTATIONS and len(lines[index]) <= chars:
            best.append(index)
            chars -= len(lines[index])
    return [lines[index] for index in sorted(best)]


def _written(text: str) -> Callable[[int], str]:
    return lambda _: text
