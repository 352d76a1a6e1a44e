"""Choose the lines of a context in order of worth, with the reason for leaving out the rest. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.recall import relevance
from pipeline.recall.choose import known
from pipeline.recall.choose.lines import ChosenLine, Frame, Style, Wording, display_name, head_of
from pipeline.recall.choose.talk import PostedQuestion, Talk, choose_messages
from pipeline.recall.find.retrieved import RetrievedSession, RetrievedWeek, sharing_topics
from pipeline.recall.gather import Ranked
from pipeline.recall.profiles import Parameters
from pipeline.recall.question.conversation import FOLLOWUP_WINDOW
from pipeline.recall.relevance import LIMIT
from pipeline.recall.request import Request
from pipeline.text import truncate
from pipeline.text.excerpt import Wanted
from pipeline.text.tokens import Count
from schemas.context import BlockKind, Dropped, DropReason
from schemas.payloads import ContextQuery
from schemas.sessions import Message

# The newest message takes up to a fifth of the budget, any other a tenth; none is cut below `LEAST` tokens.
NEWEST_SHARES, OTHER_SHARES, RECENT_LEAST = 5, 10, 24
# The latest messages are shown whatever the question, so that a bot knows what is going on: this many, and those sent
# within this time. Their worth is `RECENT_WORTH`, behind the best hits.
MIN_MESSAGES, ONGOING_WINDOW = 3, timedelta(minutes=10)
# Maximum number of irrelevant messages between two relevant ones.
MAX_GAP = 3
# Recent talk is relevant if it contains one of this many top hits.
TOP_HITS = 10
RECENT_WORTH = 0.8
"""Worth of a recent message that has nothing to do with the question."""


def recent_lines(recent: Sequence[Message], worth: Sequence[float], style: Style) -> Iterator[ChosenLine]:
    """Write the latest messages as lines, newest first, each with its worth: the older, the less."""
    for number, (message, value) in enumerate(zip(recent, worth, strict=True)):
        answered = message.answered
        above = recent[number + 1] if number + 1 < len(recent) else None
        if answered and above and above.id == answered.id:
            # not quoted if it is the line above
            answered = None
        head = head_of(message, answered, style.zone, style.wording)

        def write(tokens: int, message: Message = message, head: str = head) -> str:
            return head + style.excerpt(head, message.content, tokens)

        yield ChosenLine(
            block="history",
            kind="message",
            id=str(message.id),
            at=message.sent_at,
            speaker=message.speaker,
            answers=str(answered.id) if answered else None,
            reason="said last",
            worth=value,
            place=message.stamp,
            write=write,
            shares=OTHER_SHARES if number else NEWEST_SHARES,
            least=RECENT_LEAST,
            group=style.wording.day_heading(message.sent_at.astimezone(style.zone)),
            may_be_cut=True,
        )


def recent_reach(recent: Sequence[Message], best: Collection[int], since: datetime) -> int:
    """Return how many of the latest messages are shown before the hits; `recent` is newest first.

    The last `MIN_MESSAGES`, those said `since` a time, and as far back as they are among the `best` that were found.
    """
    number = min(MIN_MESSAGES, len(recent))
    for place, message in enumerate(recent[number:], start=number):
        if place - number >= MAX_GAP:
            break
        if message.sent_at >= since or message.id in best:
            number = place + 1
    return number


def recent_worths(
    recent: Sequence[Message], worth: Mapping[int, float], base: float, reach: int
) -> list[float]:
    """Return the worth of each of the latest messages, newest first, such that the shown ones have no gap.

    As much as it is to the question, at least `base`, and no less than an older one, which it leads to.
    """
    values = [max(worth.get(m.id, 0.0), base) if number < reach else 0.0 for number, m in enumerate(recent)]
    best = 0.0
    for number in range(len(values) - 1, -1, -1):
        best = max(best, values[number])
        # what is newer comes first
        values[number] = best * (1 - number / 1e6)
    return values


HISTORY_SHARE = 0.4
"""Maximum share of the budget for recent talk."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The lines worth showing, the frames of their blocks, and what was left out with the reason."""

    lines: Sequence[ChosenLine]
    frames: Mapping[BlockKind, Frame]
    dropped: Sequence[Dropped]
    # how probable it is that the best memory or passage among the lines answers; 0 without one
    told: float


def choose(
    query: ContextQuery,
    request: Request,
    results: Ranked,
    recent_talk: Sequence[Message],
    posted: PostedQuestion,
    wording: Wording,
    count: Count,
) -> Chosen:
    """Choose lines from all results; `recent_talk` are the latest messages, newest first."""
    parameters, language = request.parameters, request.chat.language
    now = request.now
    searched = results.retrieved is not None
    # excerpts of long texts are about the question in all its wordings, completed by recent talk
    wanted = Wanted.of(" ".join((query.query, *query.queries, *request.context_words)), language)
    style = Style(zone=request.zone, wording=wording, wanted=wanted, count=count)

    # with `fill` nothing is worth too little
    limit = 0.0 if query.fill else relevance.LIMIT
    ranked, evidence = results.ranked, None if query.fill else results.evidence
    values = dict(
        zip(
            (hit.candidate.id for hit in ranked),
            relevance.worths(ranked, evidence, results.judged_by),
            strict=True,
        )
    )
    reach, base = len(recent_talk), 1.0
    if parameters.history_yields and searched:
        best = {hit.candidate.id for hit in ranked[:TOP_HITS]}
        since = now - (FOLLOWUP_WINDOW if request.context_words else ONGOING_WINDOW)
        reach, base = recent_reach(recent_talk, best, since), RECENT_WORTH
    latest = recent_talk if query.fill else recent_talk[:reach]
    worths = recent_worths(latest, values, base, reach)
    offered: list[ChosenLine | Dropped] = [*recent_lines(latest, worths, style)]
    if searched:
        talk = Talk.of(results, parameters, style)
        shown = {message.id for message in latest[:reach]}
        least = max(limit, parameters.min_similarity)
        offered += choose_messages(ranked, values, talk, shown, parameters, least, posted.is_found)
    texts = {hit.candidate.id: hit.candidate.message.content for hit in results.ranked} | {
        message.id: message.content for message in recent_talk
    }
    messages = {int(line.id): texts[int(line.id)] for line in offered if isinstance(line, ChosenLine)}
    session_of = {hit.candidate.id: hit.candidate.session for hit in results.ranked}
    opened = {session_of[message] for message in messages if message in session_of}
    offered += weeks(results.weeks, parameters, wording)
    offered += overview(results.overview, parameters, style)
    if not results.fell_back:
        fitting = results.narrowing.chosen if results.narrowing else ()
        if parameters.is_blended:
            fitting = results.sessions[: parameters.sessions]
        fitting_ids = {session.id for session in fitting}
        offered += choose_summaries(results.sessions, fitting_ids, opened, parameters, style)
        offered += related(results.sessions, opened, parameters, style)

    wordings = [Wanted.of(text, language) for text in (request.question.content, *query.queries)]
    writer = known.Writer(asker=request.snapshot.asker, now=now, style=style)
    judged = known.probabilities(results.memories, request.question, wordings, results.judged_by)
    # that it is about whom the question names makes it worth showing, and answers nothing
    answering = known.probabilities(
        results.memories, request.question, wordings, results.judged_by, named=False
    )
    memories = known.valued(results.memories, request.question, judged, is_open=not wordings[0].terms)
    lines = {int(line.id) for line in offered if isinstance(line, ChosenLine) and line.kind == "session"}
    told_of = [
        s.summary for s in (*results.sessions, *results.overview) if s.summary and s.id in lines | opened
    ]
    told = list(known.choose(memories, parameters, limit, messages, told_of, writer))
    offered += told
    return Chosen(
        told=max((answering[line.id] for line in told if isinstance(line, ChosenLine)), default=0.0),
        lines=[item for item in offered if isinstance(item, ChosenLine)],
        frames={
            "documents": Frame(heading=wording.documents),
            "memories": Frame(heading=wording.memories),
            "rollups": Frame(heading=wording.rollups),
            "exchanges": Frame(heading=_heading(results, wording)),
            "related": Frame(heading=wording.related),
            "history": Frame(
                heading=wording.history, cap=parameters.history_tokens, share=HISTORY_SHARE, contiguous=True
            ),
        },
        dropped=[item for item in offered if isinstance(item, Dropped)],
    )


def _heading(results: Ranked, wording: Wording) -> str:
    """Return what earlier talk stands under: how surely it answers the question."""
    if results.fell_back:
        return wording.anywhere
    return wording.loosely if results.evidence and results.evidence.level != "strong" else wording.earlier


RELATED_WORTH = 0.2
"""Worth of a related session: less than anything about the question itself."""

MAX_PEOPLE = 6
"""Names shown above the quotations of a session."""
MAX_QUOTATIONS = 2
"""Lines of a session that is summarized by quotations."""
RELATED_CHARS = 80
"""Characters of a related session's summary."""


def choose_summaries(
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
        place=(session.started_at, session.session_key),
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
