"""Choose the lines of a context in order of worth, with the reason for leaving out the rest. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.recall import relevance
from pipeline.recall.choose import known, summaries
from pipeline.recall.choose.lines import ChosenLine, Frame, Style, Wording, head_of
from pipeline.recall.choose.talk import PostedQuestion, Talk, choose_messages
from pipeline.recall.gather import Ranked
from pipeline.recall.question.conversation import FOLLOWUP_WINDOW
from pipeline.recall.request import Request
from pipeline.text.excerpt import Wanted
from pipeline.text.tokens import Count
from schemas.context import BlockKind, Dropped
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
    offered += summaries.weeks(results.weeks, parameters, wording)
    offered += summaries.overview(results.overview, parameters, style)
    if not results.fell_back:
        fitting = results.narrowing.chosen if results.narrowing else ()
        if parameters.is_blended:
            fitting = results.sessions[: parameters.sessions]
        fitting_ids = {session.id for session in fitting}
        offered += summaries.choose(results.sessions, fitting_ids, opened, parameters, style)
        offered += summaries.related(results.sessions, opened, parameters, style)

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
