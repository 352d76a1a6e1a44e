"""Choose what deserves a place in a context, in order of worth, with the reason for the rest. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.recall.ask.ask import Ask
from pipeline.recall.ask.followup import JUST_NOW
from pipeline.recall.choose import known, recent, summaries, worth
from pipeline.recall.choose.line import Frame, Line, Style
from pipeline.recall.choose.posted_question import PostedQuestion
from pipeline.recall.choose.talk import Talk, choose_messages
from pipeline.recall.choose.wording import Wording
from pipeline.recall.choose.worth import LIMIT
from pipeline.recall.rank.ranked import Ranked
from pipeline.text.excerpt import Wanted
from pipeline.text.tokens import Count
from schemas.context import BlockKind, Dropped
from schemas.payloads import ContextQuery
from schemas.sessions import Message

HISTORY_SHARE = 0.4
"""The most of the budget that recent talk takes."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The lines that deserve a place, what their blocks have around them, and why all else has none."""

    lines: Sequence[Line]
    frames: Mapping[BlockKind, Frame]
    dropped: Sequence[Dropped]


def choose(
    query: ContextQuery,
    prepared: Ask,
    found: Ranked,
    recent_talk: Sequence[Message],
    posted: PostedQuestion,
    wording: Wording,
    count: Count,
) -> Chosen:
    """Choose lines from all that was found; `recent_talk` are the latest messages, newest first."""
    request, brief = prepared.request, prepared.brief
    parameters, language = request.parameters, request.chat.language
    now = request.as_of or request.prelude.now
    searched = found.retrieved is not None
    # long texts are excerpted about the question in all its wordings, with the words of recent talk that it leans on
    asked = Wanted.of(" ".join((query.query, *query.queries, *brief)), language)
    style = Style(zone=prepared.zone, wording=wording, asked=asked, count=count)

    # with `fill` nothing is worth too little
    limit = 0.0 if query.fill else LIMIT
    # Nor is a message to a question in another language than the chat's: names and numbers, the only words that both
    # have, would set the scale.
    least = limit if prepared.question.language == language else 0.0
    ranked = found.ranked
    values = dict(zip((hit.candidate.id for hit in ranked), worth.of_messages(ranked), strict=True))
    reach, base = len(recent_talk), 1.0
    if parameters.history_yields and searched:
        best = {hit.candidate.id for hit in ranked[: recent.BEST]}
        since = now - (JUST_NOW if brief else recent.GOING_ON)
        reach, base = recent.reach(recent_talk, best, since), recent.BASE
    latest = recent_talk if query.fill else recent_talk[:reach]
    worths = recent.worths(latest, values, base, reach)
    offered: list[Line | Dropped] = [*recent.lines(latest, worths, style)]
    if searched:
        talk = Talk.of(found, parameters, style)
        shown = {each.id for each in latest[:reach]}
        offered += choose_messages(
            ranked, values, talk, shown, parameters, least, found.scale, posted.is_found
        )
    texts = {hit.candidate.id: hit.candidate.text for hit in found.ranked} | {
        each.id: each.content for each in recent_talk
    }
    messages = {int(line.id): texts[int(line.id)] for line in offered if isinstance(line, Line)}
    session_of = {hit.candidate.id: hit.candidate.session for hit in found.ranked}
    opened = {session_of[message] for message in messages if message in session_of}
    offered += summaries.weeks(found.weeks, parameters, wording)
    offered += summaries.of_time(found.overview, parameters, style)
    if not found.fell_back:
        fitting = {each.id for each in found.narrowing.chosen} if found.narrowing else set[int]()
        offered += summaries.choose(found.sessions, fitting, opened, parameters, style)
        offered += summaries.related(found.sessions, opened, parameters, style)

    wordings = [Wanted.of(each, language) for each in (prepared.question.content, *query.queries)]
    writer = known.Writer(asker=request.prelude.asker, now=now, style=style)
    memories = known.valued(found.memories, query.query, wordings)
    offered += known.choose(memories, parameters, limit, messages, writer)
    return Chosen(
        lines=[each for each in offered if isinstance(each, Line)],
        frames={
            "documents": Frame(heading=wording.documents),
            "memories": Frame(heading=wording.memories),
            "rollups": Frame(heading=wording.rollups),
            "exchanges": Frame(heading=wording.anywhere if found.fell_back else wording.earlier),
            "related": Frame(heading=wording.related),
            "history": Frame(
                heading=wording.history, cap=parameters.history_tokens, share=HISTORY_SHARE, contiguous=True
            ),
        },
        dropped=[each for each in offered if isinstance(each, Dropped)],
    )
