"""Tell somebody what they missed in a chat: its sessions, what was decided and asked of them, who joined and left.

Summaries are shown as they stand, written by a model or extracted. What no summary covers, such as the rest of a
session that the person left, is extracted from the messages.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain, takewhile
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row

from pipeline.clients.known_models import tokenizer_for
from pipeline.enrich.summaries import extractive
from pipeline.people import suppression
from pipeline.people.suppression import Named
from pipeline.recall.choose.lines import ChosenLine, Frame, Wording, clock, display_name, wording_of
from pipeline.recall.find.retrieved import MAX_OVERVIEW_SESSIONS
from pipeline.recall.pack.pack import pack
from pipeline.recall.question import names
from pipeline.store import identities
from pipeline.store.chats import chat_moves, chats, membership
from pipeline.store.chats.chats import Chat
from pipeline.store.connections.database import Database
from pipeline.store.messages import message_rows
from pipeline.store.sessions import session_rows
from pipeline.text import sentences, truncate
from pipeline.text.cues import dialogue_acts, message_cues, plain
from pipeline.text.cues.dialogue_acts import Sentence
from pipeline.text.tokens import Count
from schemas.context import BlockKind
from schemas.digests import Digest, DigestQuery
from schemas.errors import InvalidInput
from schemas.sessions import EXTRACTIVE, Message
from schemas.settings import Settings

SILENT_DAYS = 7
"""The time that is told to who never wrote."""
MAX_READ = 1000
"""Messages that are read for questions, decisions and what no summary covers; the latest."""
COMMANDS_READ = 50
"""The latest messages of a person, among which commands to bots are passed over."""
FEW = 6
"""So many messages are quoted whole, and of more the sentences that say most."""
MAX_LINE_CHARS = 280
MAX_NAMED = 20
"""People named as having joined, left, or spoken in a session."""
LEAST_TOKENS = 40
"""Tokens of a session, however many there are."""
LEAST_OF_LINE = 8
"""Tokens below which a line of a session is not begun."""
_COMMA = re.compile("[,:，、：]")


def build(database: Database, tenant_id: str, query: DigestQuery, settings: Settings) -> Digest:
    """Build a digest within its budget.

    Raises `NotFound` for an unknown chat, `InvalidInput` for a person who may not see it, `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        chat = chats.require_current(connection, query.chat_id)
        ids = [query.user_id] if query.user_id else []
        # a key for some chats learns nothing of who is linked to whom
        if ids and not database.only_chats:
            ids = identities.ids_of(connection, ids[0])
        _require_may_see(connection, chat, ids)
        missed = _read(connection, chat, ids, query, with_summaries=settings.session_memory_enabled)
    return _write(query, missed)


def _require_may_see(connection: Connection, chat: Chat, ids: Sequence[str]) -> None:
    """Raise `InvalidInput` for somebody who has left the chat, or is not in a direct one."""
    here = set(membership.of_chat(connection, chat.chat_id)) - {membership.UNKNOWN}
    if not ids or not here.isdisjoint(ids):
        return
    known_as = [chat.chat_id, *chat_moves.former(connection, chat.chat_id)]
    departures: list[Named] = [("left", chat_id, sender) for chat_id in known_as for sender in ids]
    left = suppression.is_kept_out(connection, None, *departures)
    if left or (chat.kind == "direct" and here):
        raise InvalidInput(f"user_id: {ids[0]} is not in {chat.chat_id}", field="user_id")


class _Part(NamedTuple):
    """A session, or the part of one that was missed."""

    # of the session; empty: its messages have no place yet
    id: str
    started_at: datetime
    ended_at: datetime
    speakers: Sequence[str]
    lines: Sequence[str]


class _Quote(NamedTuple):
    """Something that was asked or decided, with its source."""

    at: datetime
    kind: Literal["message", "session"]
    # of a message, or a session's and a number
    id: str
    text: str
    # None: a model says it of a session
    speaker: str | None


@dataclass(frozen=True, kw_only=True)
class _Missed:
    """What a digest is made of."""

    chat: Chat
    since: datetime
    until: datetime
    # of the person; none: it is for nobody by name
    ids: Sequence[str]
    has_written: bool
    # of people, in order
    said: Sequence[Message]
    # the messages that reply to the person
    replies: frozenset[int]
    # of everybody there, by their ids
    names: Mapping[str, Sequence[str]]
    parts: Sequence[_Part]
    # by models
    decisions: Sequence[_Quote]
    # who joined (True) or left
    changes: Mapping[str, bool]
    degraded: Sequence[str]

    @cached_property
    def zone(self) -> ZoneInfo:
        """The time zone of the chat."""
        return ZoneInfo(self.chat.time_zone)

    @cached_property
    def wording(self) -> Wording:
        """The wording of the chat's language."""
        return wording_of(self.chat.language)

    @cached_property
    def talk(self) -> Sequence[Sentence]:
        """What was said, in sentences."""
        return extractive.read_sentences(self.said, self.chat.language)


def _read(
    connection: Connection, chat: Chat, ids: Sequence[str], query: DigestQuery, *, with_summaries: bool
) -> _Missed:
    chat_id, until = chat.chat_id, query.until or chats.database_now(connection)
    latest = message_rows.latest_of(connection, chat_id, ids, until, COMMANDS_READ) if ids else []
    last = next((m for m in latest if not _is_command(m, chat.language)), latest[-1] if latest else None)
    since = query.since or (last.sent_at if last else until - timedelta(days=SILENT_DAYS))
    read = message_rows.between(connection, chat_id, since, until, MAX_READ) if chat.memory else []
    degraded = [] if chat.memory else ["memory: it is off here, so nothing is told"]
    if len(read) == MAX_READ:
        degraded.append(f"messages: only the latest {MAX_READ:,} are counted and read")
    changes = membership.changes(connection, chat_id, since, until)
    # what they wrote may still be there, and in summaries, while they are being forgotten
    forgotten = suppression.forgotten(connection, {*changes, *(message.sender_id for message in read)})
    is_whole = with_summaries and not chat_moves.unfinished(connection)
    said = [
        message
        for message in read
        if message.role == "user"
        and not (message.sender_id in forgotten and message.sent_at <= forgotten[message.sender_id])
        and not _is_command(message, chat.language)
        and (query.since is not None or last is None or message.id != last.id)
    ]
    rows = session_rows.cards_of_time(connection, chat_id, since, until, limit=MAX_OVERVIEW_SESSIONS)
    rows = rows if chat.memory else []
    if len(rows) == MAX_OVERVIEW_SESSIONS:
        degraded.append(f"sessions: only the latest {MAX_OVERVIEW_SESSIONS} are told")
    # with their last message begins what they know
    begins = since if query.since or last is None else since + timedelta(microseconds=1)
    whole = {
        row.id
        for row in rows
        if is_whole and row.summary_text and begins <= row.started_at and row.ended_at < until
    }
    answered = {message.reply_to for message in said if message.reply_to}
    theirs = message_rows.theirs(connection, chat_id, answered, ids) if ids and answered else set()
    known = defaultdict[str, list[str]](list)
    for member in membership.names(connection, chat_id):
        if member.sender_name:
            known[member.sender_id].append(member.sender_name)
    for sender in [sender for sender in changes if sender not in known][: 2 * MAX_NAMED]:
        # who has left is no member, and may have spoken
        last_said = message_rows.latest_of(connection, chat_id, [sender], until, 1)
        known[sender] = [message.sender_name for message in last_said if message.sender_name]
    return _Missed(
        chat=chat,
        since=since,
        until=until,
        ids=ids,
        has_written=bool(latest),
        said=said,
        replies=frozenset(message.id for message in said if message.reply_to in theirs),
        names=known,
        parts=list(_parts(rows, whole, said, chat)),
        decisions=[
            _Quote(row.started_at, "session", f"{row.id}/{number}", decision, None)
            for row in rows
            if row.id in whole
            for number, decision in enumerate(row.decisions, 1)
        ],
        changes={
            sender: joined
            for sender, joined in changes.items()
            if sender not in ids and not (sender in forgotten and forgotten[sender] >= since)
        },
        degraded=degraded,
    )


def _is_command(message: Message, language: str) -> bool:
    """Tell whether a message is a command, or a question to a bot."""
    return message.content.startswith(("/", "!")) or message_cues.is_put_to_a_bot(message.content, language)


def _parts(
    rows: Sequence[Row[tuple[object, ...]]], whole: Collection[int], said: Sequence[Message], chat: Chat
) -> Iterator[_Part]:
    """Yield the sessions in order, each with its summary and what that does not cover; then what has no place yet."""
    left = list(said)
    for row in rows:
        key, start, end = row.session_key, row.started_at, row.ended_at
        inside = [m for m in left if m.session_key == key and start <= m.sent_at <= end]
        taken = {message.id for message in inside}
        left = [message for message in left if message.id not in taken]
        if row.id in whole:
            rest = [m for m in inside if row.summary_ended_at is None or m.sent_at > row.summary_ended_at]
            lines = [*_summary_lines(row), *_extracted(rest, chat)]
            yield _Part(str(row.id), start, end, row.participants, lines)
        elif inside:
            yield _part(str(row.id), inside, chat)
    if left:
        yield _part("", left, chat)


def _part(session_id: str, said: Sequence[Message], chat: Chat) -> _Part:
    speakers = sorted({message.speaker for message in said})
    return _Part(session_id, said[0].sent_at, said[-1].sent_at, speakers, _extracted(said, chat))


def _summary_lines(row: Row[tuple[object, ...]]) -> list[str]:
    if row.summary_model != EXTRACTIVE:
        return sentences.sentences(row.summary_text)
    # the first line is the day
    return row.summary_text.splitlines()[1:] or [row.summary_text]


def _extracted(said: Sequence[Message], chat: Chat) -> list[str]:
    if len(said) <= FEW:
        return [f"{message.speaker}: {message.content}" for message in said]
    made = extractive.summarize(said, time_zone=ZoneInfo(chat.time_zone), language=chat.language)
    return made.summary.splitlines()[1:]


def _asked(missed: _Missed) -> list[_Quote]:
    """Return what is asked of the person in each message and is open, in order."""
    said = missed.said
    own = {number for number, message in enumerate(said) if message.sender_id in missed.ids}
    everybody = set(chain.from_iterable(missed.names.values()))
    mine = set(chain.from_iterable(missed.names.get(sender, ()) for sender in missed.ids))
    called = frozenset(plain(word) for name in mine for word in sentences.words(name))
    by_part = defaultdict[str, set[str]](set)
    for name in everybody:
        for part in (name, *name.split()):
            by_part[part.casefold()].add(name)
    # who is asked is not what is asked
    about = sentences.terms(list(called), missed.chat.language)
    talk = [replace(one, terms=tuple(term for term in one.terms if term not in about)) for one in missed.talk]

    def is_for_them(sentence: Sentence) -> bool:
        message = said[sentence.message]
        if missed.chat.kind == "direct" or message.id in missed.replies:
            return True
        if spoken_to := _spoken_to(sentence.text, by_part):
            return not mine.isdisjoint(spoken_to)
        # first without the others, of whom there may be hundreds
        for people in (mine, everybody):
            named = names.find(sentence.text, people, sentence.language).shares
            named = named or names.find(message.content, people, sentence.language).shares
            if mine.isdisjoint(named):
                return False
        return True

    found = defaultdict[int, list[str]](list)
    later: list[Sentence] = []
    for index, sentence in reversed([*enumerate(talk)]):
        if sentence.message in own or not dialogue_acts.asks_somebody(sentence, called):
            continue
        if not is_for_them(sentence):
            continue
        # whoever asks twice wants one answer
        again = any(one.speaker == sentence.speaker and dialogue_acts.repeats(one, sentence) for one in later)
        later.append(sentence)
        if not again and not dialogue_acts.is_settled(index, talk, own):
            found[sentence.message].insert(0, sentence.text)
    return list(_quotes(said, found))


def _spoken_to(text: str, people: Mapping[str, Collection[str]]) -> set[str]:
    """Return who is called at the beginning of a text, by one of the parts of their names before a comma.

    >>> sorted(_spoken_to("Ana, @Will: who locks up?", {"ana": ["Ana Lee"], "will": ["Will"], "who": ["Who"]}))
    ['Ana Lee', 'Will']
    """
    *heads, _ = _COMMA.split(text)
    called = [people.get(head.strip(" @").casefold(), ()) for head in heads]
    return set(chain.from_iterable(takewhile(bool, called)))


def _decided(missed: _Missed) -> list[_Quote]:
    """Return what was decided, in order."""
    found = defaultdict[int, list[str]](list)
    for sentence in missed.talk:
        if dialogue_acts.is_decided(sentence):
            found[sentence.message].append(sentence.text)
    return sorted([*missed.decisions, *_quotes(missed.said, found)], key=lambda quote: quote.at)


def _quotes(said: Sequence[Message], sentences_of: Mapping[int, Sequence[str]]) -> Iterator[_Quote]:
    """Yield sentences of messages, by their positions, in order."""
    for number in sorted(sentences_of):
        message = said[number]
        text = " ".join(sentences_of[number])
        yield _Quote(message.sent_at, "message", str(message.id), text, message.speaker)


def _lines(missed: _Missed, count: Count) -> Iterator[ChosenLine]:
    """Yield what may be shown: questions before all else, the latest of each kind first."""
    blocks: list[tuple[BlockKind, Sequence[_Quote], str, int]] = [
        ("asked", _asked(missed) if missed.ids else [], "is asked of the person, and open", 3),
        ("decided", _decided(missed), "says what was decided", 2),
    ]
    for block, quotes, reason, worth in blocks:
        for number, quote in enumerate(quotes):
            local = quote.at.astimezone(missed.zone)
            head = f"{clock(local)} {display_name(quote.speaker)}: " if quote.speaker else ""
            text = head + truncate.shortened(truncate.one_line(quote.text), MAX_LINE_CHARS)
            yield ChosenLine(
                block=block,
                kind=quote.kind,
                id=quote.id,
                at=quote.at,
                speaker=quote.speaker,
                reason=reason,
                worth=worth + number / 1e6,
                place=(quote.at, number),
                group=missed.wording.day_heading(local.date()),
                write=_writer(text, (), count),
            )
    for number, part in enumerate(missed.parts):
        window = missed.wording.window(part.started_at, part.ended_at, missed.zone)
        yield ChosenLine(
            block="exchanges",
            kind="session",
            id=part.id,
            at=part.started_at,
            reason="is of the time that was missed",
            worth=1 + number / 1e6,
            place=(part.started_at, number),
            write=_writer(f"- {window} · {_list(part.speakers)}", part.lines, count),
            shares=len(missed.parts),
            least=LEAST_TOKENS,
            may_be_cut=True,
        )


def _list(people: Sequence[str]) -> str:
    named = [display_name(name) for name in people[:MAX_NAMED]]
    return ", ".join([*named, *([truncate.ELLIPSIS] if len(people) > MAX_NAMED else [])])


def _writer(head: str, lines: Sequence[str], count: Count) -> Callable[[int], str]:
    """Return what writes a head and as many lines as there is room for, the last one cut."""

    def write(tokens: int) -> str:
        shown, room = [head], tokens - count(head)
        for line in lines:
            if room < LEAST_OF_LINE:
                break
            shown.append(truncate.within_tokens(f"  {truncate.one_line(line)}", room, count))
            room -= count(shown[-1])
        return "\n".join(shown)

    return write


def _write(query: DigestQuery, missed: _Missed) -> Digest:
    """Write a digest: the time that it is of, its blocks, who joined and left, within the budget."""
    tokenizer, words, budget = tokenizer_for(query.model), missed.wording.digest, query.budget_tokens
    others = sum(message.sender_id not in missed.ids for message in missed.said)
    when = missed.wording.at(missed.since.astimezone(missed.zone))
    around = dict.fromkeys(("silent", "missed", "joined", "left"), "")
    if missed.ids and not missed.has_written and query.since is None:
        around["silent"] = words["silent"].format(days=SILENT_DAYS)
    if missed.chat.memory:
        happened = others or missed.parts or missed.changes
        around["missed"] = words["missed" if happened else "nothing"].format(when=when, count=others)
    people = {
        form: [
            next(iter(missed.names.get(sender, ())), sender)
            for sender, came in missed.changes.items()
            if came is way
        ]
        for form, way in (("joined", True), ("left", False))
    }
    degraded = list(missed.degraded)
    for form, named in people.items():
        around[form] = words[form].format(names=_list(named)) if named else ""
        if sum(map(tokenizer.count, around.values())) > budget:
            around[form] = ""
            degraded.append(f"budget: there is no room for who {form}")
    frames: dict[BlockKind, Frame] = {
        "asked": Frame(heading=words["asked"], share=0.5, fenced=False),
        "decided": Frame(heading=words["decided"], share=0.35, fenced=False),
        "exchanges": Frame(heading=words["said"], fenced=False),
    }
    room = budget - sum(map(tokenizer.count, around.values()))
    blocks, dropped = pack(_lines(missed, tokenizer.count), frames, room, tokenizer.count)
    if dropped:
        degraded.append(f"budget: {len(dropped):,} earlier lines did not fit into {budget:,} tokens")
    shown = [block.text for block in blocks]
    ends = (("silent", "missed"), ("joined", "left"))
    opening, closing = ("\n".join(filter(None, map(around.get, forms))) for forms in ends)
    text = "\n\n".join(filter(None, [opening, *shown, closing]))
    return Digest(
        chat_id=missed.chat.chat_id,
        user_id=query.user_id or None,
        since=missed.since,
        until=missed.until,
        messages=others,
        has_written=missed.has_written if missed.ids else None,
        text=text,
        blocks=blocks,
        **people,
        used_tokens=tokenizer.count(text),
        budget=budget,
        counted_by=tokenizer.name,
        degraded=degraded,
    )
