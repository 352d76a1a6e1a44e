"""Choose the lines of a context in order of worth, with the reason for leaving out the rest. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.recall.ask.ask import Ask
from pipeline.recall.ask.followup import FOLLOWUP_WINDOW
from pipeline.recall.choose import known, recent, summaries
from pipeline.recall.choose.line import Frame, Line, Style
from pipeline.recall.choose.posted_question import PostedQuestion
from pipeline.recall.choose.talk import Talk, choose_messages
from pipeline.recall.choose.wording import Wording
from pipeline.recall.rank.ranked import Ranked
from pipeline.recall.relevance import judge
from pipeline.text.excerpt import Wanted
from pipeline.text.tokens import Count
from schemas.context import BlockKind, Dropped
from schemas.payloads import ContextQuery
from schemas.sessions import Message

HISTORY_SHARE = 0.4
"""Maximum share of the budget for recent talk."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The lines worth showing, the frames of their blocks, and what was left out with the reason."""

    lines: Sequence[Line]
    frames: Mapping[BlockKind, Frame]
    dropped: Sequence[Dropped]
    # how probable it is that the best memory or passage among the lines answers; 0 without one
    told: float


def choose(
    query: ContextQuery,
    prepared: Ask,
    results: Ranked,
    recent_talk: Sequence[Message],
    posted: PostedQuestion,
    wording: Wording,
    count: Count,
) -> Chosen:
    """Choose lines from all results; `recent_talk` are the latest messages, newest first."""
    request, brief = prepared.request, prepared.brief
    parameters, language = request.parameters, request.chat.language
    now = request.as_of or request.prelude.now
    searched = results.retrieved is not None
    # excerpts of long texts are about the question in all its wordings, completed by recent talk
    wanted = Wanted.of(" ".join((query.query, *query.queries, *brief)), language)
    style = Style(zone=prepared.zone, wording=wording, wanted=wanted, count=count)

    # with `fill` nothing is worth too little
    limit = 0.0 if query.fill else judge.LIMIT
    ranked, evidence = results.ranked, None if query.fill else results.evidence
    values = dict(
        zip(
            (hit.candidate.id for hit in ranked),
            judge.worths(ranked, evidence, results.judged_by),
            strict=True,
        )
    )
    reach, base = len(recent_talk), 1.0
    if parameters.history_yields and searched:
        best = {hit.candidate.id for hit in ranked[: recent.TOP_HITS]}
        since = now - (FOLLOWUP_WINDOW if brief else recent.ONGOING_WINDOW)
        reach, base = recent.reach(recent_talk, best, since), recent.RECENT_WORTH
    latest = recent_talk if query.fill else recent_talk[:reach]
    worths = recent.worths(latest, values, base, reach)
    offered: list[Line | Dropped] = [*recent.lines(latest, worths, style)]
    if searched:
        talk = Talk.of(results, parameters, style)
        shown = {message.id for message in latest[:reach]}
        least = max(limit, parameters.min_similarity)
        offered += choose_messages(ranked, values, talk, shown, parameters, least, posted.is_found)
    texts = {hit.candidate.id: hit.candidate.text for hit in results.ranked} | {
        message.id: message.content for message in recent_talk
    }
    messages = {int(line.id): texts[int(line.id)] for line in offered if isinstance(line, Line)}
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

    wordings = [Wanted.of(text, language) for text in (prepared.question.content, *query.queries)]
    writer = known.Writer(asker=request.prelude.asker, now=now, style=style)
    judged = known.probabilities(results.memories, prepared.question, wordings, results.judged_by)
    memories = known.valued(results.memories, prepared.question, judged, is_open=not wordings[0].terms)
    lines = {int(line.id) for line in offered if isinstance(line, Line) and line.kind == "session"}
    told_of = [
        s.summary for s in (*results.sessions, *results.overview) if s.summary and s.id in lines | opened
    ]
    told = list(known.choose(memories, parameters, limit, messages, told_of, writer))
    offered += told
    return Chosen(
        told=max((judged[line.id] for line in told if isinstance(line, Line)), default=0.0),
        lines=[item for item in offered if isinstance(item, Line)],
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
