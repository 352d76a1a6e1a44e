"""Fill a page with what was found of earlier talk: summaries of sessions, messages, and related sessions. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice

from pipeline.context import blocks, new_summaries, packing
from pipeline.context.message_block import Lines, exchanges, in_budget_order
from pipeline.context.packing import UNCAPPED, Section
from pipeline.context.page import Page
from pipeline.context.posted_question import PostedQuestion
from pipeline.context.recent_talk import is_whole
from pipeline.context.wording import Wording
from pipeline.ranking.model import Candidate, Scored
from pipeline.ranking.similarity import Scale
from pipeline.retrieval.gather import RetrievalResult
from pipeline.retrieval.prepare import PreparedQuery
from pipeline.retrieval.sessions import RetrievedSession
from pipeline.text import truncate
from pipeline.text.excerpt import Wanted
from schemas.context import BlockKind, ContextItem, Dropped
from schemas.sessions import Message

SUMMARIES: tuple[BlockKind, ...] = ("sessions", "related")
"""The blocks that summarize sessions."""
# A guess at what a message takes: its characters and its speaker's.
_CHARS_PER_TOKEN, _SPEAKER_CHARS = 4, 24


@dataclass(frozen=True)
class FoundTalk:
    """What was found of earlier talk."""

    prepared: PreparedQuery
    found: RetrievalResult
    wording: Wording
    question: PostedQuestion
    # what long messages are excerpted about
    asked: Wanted
    # whether messages are offered that recent talk shows cut
    offers_cut: bool

    @cached_property
    def scale(self) -> Scale:
        """The range of the cosines of all that was found."""
        return self.found.scale

    @cached_property
    def in_order(self) -> list[tuple[int, Scored]]:
        """The messages with their ranks in the order in which they are offered."""
        found = self.found
        ranked = list(enumerate(found.ranked, start=1))
        if found.narrowing is not None:
            ranked = [(rank, hit) for rank, hit in ranked if not found.is_outside(hit.candidate.session)]
        return in_budget_order(ranked, self.prepared.request.parameters.messages)

    def fill(self, page: Page, session_cap: int) -> Page:
        """Fill a copy of the page with sessions, messages and related sessions.

        A session whose messages are all shown is not summarized: the tokens go to others.
        """
        if self.found.retrieved is None:
            return page
        covered = self._whole(page)
        while True:
            result = self._filled(page, covered, session_cap)
            summaries = {int(item.id) for kind in SUMMARIES for item in result.items(kind)}
            twice = summaries & self._whole(result)
            if not twice:
                break
            covered |= twice
        result.dropped += _covered(covered, "the context holds all its messages")
        return result

    @cached_property
    def _summarized(self) -> list[RetrievedSession]:
        """The sessions with a summary, best first; none where none fits."""
        return [session for session in self.found.sessions if session.summary and not self.found.fell_back]

    @cached_property
    def _recent(self) -> list[tuple[Message, str]]:
        """The newest messages, each with its line; none where it need not be shown."""
        return [
            (message, "" if self.question.is_recent(message) else truncate.displayed(message.content))
            for message in self.found.recent
        ]

    @cached_property
    def _words(self) -> dict[int, set[str]]:
        """The words of the part of each summary that may be shown, by session."""
        chars = self.prepared.request.parameters.session_chars
        return {each.id: new_summaries.words_of((each.summary or "")[:chars]) for each in self._summarized}

    @cached_property
    def _session_of(self) -> dict[str, int]:
        """The session of each message, by its id as items have it."""
        return {str(each.id): each.session for each in self._candidates}

    @cached_property
    def _times(self) -> dict[int, list[datetime]]:
        """When each session began, as far as is known, and when its messages were said, in order."""
        times: dict[int, list[datetime]] = {
            session.id: [session.started_at] for session in self.found.sessions
        }
        for candidate in self._candidates:
            times.setdefault(candidate.session, []).append(candidate.sent_at)
        for of_session in times.values():
            of_session.sort()
        return times

    @property
    def _candidates(self) -> Iterable[Candidate]:
        return (hit.candidate for hit in self.found.ranked)

    @cached_property
    def _by_place(self) -> dict[tuple[int, int], Candidate]:
        return {(c.session, c.place): c for c in self._candidates if c.session}

    def _whole(self, page: Page) -> set[int]:
        """Return the sessions that the page shows whole."""
        if not self._summarized:
            return set()
        shown = (page.items("history"), page.items("exchanges"))
        return shown_whole(self._summarized, self._recent, *shown, self._session_of)

    def _filled(self, page: Page, covered: Collection[int], session_cap: int) -> Page:
        parameters, zone, wording = self.prepared.request.parameters, self.prepared.parsed.zone, self.wording
        sessions = [session for session in self._summarized if session.id not in covered]
        shown, others, little = self._chosen(page, sessions, session_cap)
        filled = page.copy()
        filled.dropped += _covered({session.id for session in little}, "the context says most of it already")
        summaries = blocks.sessions(shown, parameters, session_cap, zone, wording)
        related = blocks.related(shown, others, parameters, zone, wording)
        reserve = packing.fill(related, filled.room // 10, filled.count).block
        keep_free = reserve.tokens if reserve else 0
        if parameters.blend is None:
            filled.fill(summaries, keep_free=self.best_alone(filled))
            filled.fill(self._exchanges(filled, filled.room - keep_free), keep_free=keep_free)
        else:
            # one list: what ranks best takes its tokens first, be it a summary or a message
            together = filled.copy()
            sections = [summaries, self._exchanges(filled, filled.room - keep_free, beside=bool(shown))]
            together.fill_in_turn(sections, keep_free=keep_free)
            if shown and "sessions" not in together.blocks:
                filled.fill(self._exchanges(filled, filled.room - keep_free), keep_free=keep_free)
            else:
                filled = together
        filled.fill(related)
        return filled

    def _chosen(
        self, page: Page, sessions: Sequence[RetrievedSession], session_cap: int
    ) -> tuple[list[RetrievedSession], list[RetrievedSession], list[RetrievedSession]]:
        """Return the sessions to summarize, others that may be related, and those of these that would add little."""
        parameters, narrowing = self.prepared.request.parameters, self.found.narrowing
        most = parameters.sessions
        if parameters.blend is not None or narrowing is not None or not most:
            # their order is that of a list with the messages, or they are those that were looked into
            return list(sessions[:most]), list(sessions[most:]), []
        shown = [item.text for item in page.items("history")]
        shown += [candidate.text for candidate in self.likely(page.room - session_cap)]
        chosen, little = new_summaries.choose(sessions, self._words, shown, most)
        ids = {session.id for session in chosen}
        return chosen, [session for session in sessions if session.id not in ids], little

    def likely(self, tokens: int) -> list[Candidate]:
        """Return the best messages, for which there is about room."""
        left, found = tokens * _CHARS_PER_TOKEN, []
        for _, hit in islice(self.in_order, self.prepared.request.parameters.messages):
            left -= len(hit.candidate.text) + _SPEAKER_CHARS
            if left < 0:
                break
            found.append(hit.candidate)
        return found

    def best_alone(self, page: Page) -> int:
        """Return the tokens of a block with nothing but the best message that the page does not show yet."""
        if self.found.retrieved is None:
            return 0
        return packing.least(self._exchanges(page, page.room, beside=True), page.count)

    def _exchanges(self, page: Page, room: int, *, beside: bool | None = None) -> Section:
        """Offer the best messages; `beside` summaries, by default if the page has some."""
        if beside is None:
            beside = "sessions" in page.blocks
        lines = Lines(
            by_place=self._by_place,
            times=self._times,
            zone=self.prepared.parsed.zone,
            wording=self.wording,
            asked=self.asked,
            room=room,
            count=page.count,
        )
        recent = {int(item.id): item.text for item in page.items("history")}
        shown = [message for message in self.found.recent if message.id in recent] if self.offers_cut else []
        entries = exchanges(
            self.in_order,
            lines,
            dict.fromkeys(recent, "the recent messages"),
            {message.id for message in shown if not is_whole(recent[message.id], message)},
            self.prepared.request.parameters,
            self.question.is_found,
            self.scale,
        )
        heading = self.wording.exchanges if beside else self.wording.earlier
        if self.found.fell_back:
            heading = self.wording.anywhere
        return Section(kind="exchanges", heading=heading, entries=entries, cap=UNCAPPED)


def shown_whole(
    sessions: Iterable[RetrievedSession],
    recent: Sequence[tuple[Message, str]],
    history: Collection[ContextItem],
    exchanged: Collection[ContextItem],
    session_of: Mapping[str, int],
) -> set[int]:
    """Return the sessions whose messages are all in the context, so that their summaries would repeat them.

    `recent` are the chat's newest messages with their lines, of which `history` shows some; `exchanged` are other
    messages, whose sessions `session_of` maps by id. Messages without a line need not be shown.
    """
    lines = {item.id: item.text for item in history}
    elsewhere: dict[int, set[str]] = {}
    for item in exchanged:
        elsewhere.setdefault(session_of.get(item.id, 0), set()).add(item.id)
    oldest = min((message.sent_at for message, _ in recent), default=None)

    def is_shown(message: Message, line: str) -> bool:
        # it may be cut
        return line in lines.get(str(message.id), "")

    def count(session: RetrievedSession) -> int:
        found = elsewhere.get(session.id, set())
        if oldest is None or session.ended_at < oldest or not session.message_count:
            return len(found)
        own = [each for each in recent if _belongs(each[0], session)]
        if len(own) + len(found) < session.message_count:
            return 0
        return len(found.union(str(message.id) for message, line in own if is_shown(message, line)))

    return {session.id for session in sessions if count(session) >= session.message_count > 0}


def _belongs(message: Message, session: RetrievedSession) -> bool:
    same_key = message.session_key == session.session_key
    return same_key and session.started_at <= message.sent_at <= session.ended_at


def _covered(sessions: Collection[int], detail: str) -> list[Dropped]:
    return [
        Dropped(kind="session", id=str(session), reason="covered", detail=detail)
        for session in sorted(sessions)
    ]
