"""Detect the languages of chats, read the cues of their messages, and index a chat's words again after a change.

A chat's language is declared, or detected from its texts: at the first few messages, and whenever their number has
multiplied. Until then it is the default. Summaries extracted in another language are made again.
"""

import time
from collections.abc import Iterable, Sequence
from functools import partial

from sqlalchemy import Connection

from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs import runner
from pipeline.store.chats import chat_languages as store
from pipeline.store.chats import chats
from pipeline.store.chats.chat_languages import DECLARED, DETECTED, IndexedSessions
from pipeline.store.chats.chats import Chat
from pipeline.store.connections.database import Database
from pipeline.store.connections.transactions import persistently
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from pipeline.store.messages import message_rows
from pipeline.store.messages.message_rows import MessageText
from pipeline.store.sessions import session_rows
from pipeline.text import language as texts
from pipeline.text.cues import message_cues
from schemas.errors import NotFound
from schemas.kinds import SUMMARIZE
from schemas.languages import AUTO, parts_of

FIRST_DETECTION_MESSAGES, DETECTION_FACTOR = 20, 5
"""Messages at which a chat's language is first detected, and the factor to each further detection: 20, 100, 500, …"""
SAMPLE_TEXTS, SAMPLE_CHARS = 120, 1000
"""Texts of a chat in a sample, its first and last ones, and characters read of each."""
INDEXED_AT_ONCE = 500
"""Messages or sessions indexed in one transaction."""
TURN_SECONDS = 45.0
"""How long one job runs; the rest is claimed again."""


def detection_due(before: int, now: int) -> bool:
    """Tell whether detection is due for a chat that had `before` messages and has `now`.

    >>> [detection_due(*counts) for counts in ((0, 19), (19, 20), (20, 99), (20, 700), (500, 2499), (2499, 2500))]
    [False, True, False, True, False, True]
    """
    due_at = FIRST_DETECTION_MESSAGES
    while due_at <= before:
        due_at *= DETECTION_FACTOR
    return due_at <= now


def undeclared_language(samples: Sequence[str], declared: str) -> str | None:
    """Return the detected language of texts if it differs from the declared one; `simple` declares none."""
    if declared == "simple":
        return None
    detected = texts.detect(samples)
    return None if detected is None or set(parts_of(detected)) & set(parts_of(declared)) else detected


def labeller(database: Database, policy: SessionPolicy) -> runner.Handler:
    """Make the handler of `language` jobs: each claim is a chat."""
    # before anything is claimed: loading takes a second or more, which would count against a lease
    texts.load_model()

    def handle(_: str, claims: Sequence[Claim]) -> set[str]:
        for claim in claims:
            _detect_and_index(database, claim, policy)
        return {SUMMARIZE.name}

    return handle


def change(database: Database, tenant_id: str, chat_id: str, language: str, policy: SessionPolicy) -> int:
    """Declare a chat's language (`auto`: detect it), index its words, and return how many messages were indexed again.

    Repeating the call resumes an interrupted one. Raises `NotFound`.
    """
    with database.tenant(tenant_id) as connection:
        # exclusively: messages accepted or placed from now on are in the new language
        chat = chats.lock_exclusively(connection, chat_id)
        if chat is None:
            raise NotFound(f"there is no chat {chat_id}")
        differs = chat.language != language
        store.declare(connection, tenant_id, chat_id, language, differs=differs)
    if language == AUTO:
        detect(database, tenant_id, chat_id)
    changed = 0
    more = True
    while more:
        more, messages = persistently(partial(_index, database, tenant_id, chat_id, policy))
        changed += messages
    return changed


def detect(database: Database, tenant_id: str, chat_id: str) -> None:
    """Detect a chat's language if that is due and none is declared; a change marks its words for indexing."""
    with database.tenant(tenant_id) as connection:
        chat = chats.get(connection, chat_id)
        if chat is None or chat.language_by == DECLARED:
            return
        if not detection_due(chat.language_at, chat.message_count):
            return
        sample = store.sample(connection, chat_id, SAMPLE_TEXTS, SAMPLE_CHARS)
    detected = texts.detect(sample)
    with database.tenant(tenant_id) as connection:
        chat = chats.lock_exclusively(connection, chat_id)
        if chat is None or chat.language_by == DECLARED:
            return
        if detected is not None and detected != chat.language:
            store.set_language(connection, chat_id, detected, DETECTED)
        store.mark_examined(connection, chat_id, detected and DETECTED)


def _detect_and_index(database: Database, claim: Claim, policy: SessionPolicy) -> None:
    """Detect a chat's language and index its words, or a part of them."""
    tenant_id, chat_id = claim.tenant_id, claim.key
    ends_at = time.monotonic() + TURN_SECONDS
    detect(database, tenant_id, chat_id)
    with database.tenant(tenant_id) as connection:
        # messages being accepted in the former language are stored once this lock is held
        chats.lock_exclusively(connection, chat_id)
    index = partial(_index, database, tenant_id, chat_id, policy, claim)
    more, _ = persistently(index)
    while more and time.monotonic() < ends_at:
        more, _ = persistently(index)
    with database.tenant(tenant_id) as connection:
        jobs.finish(connection, [claim], again_in=0 if more else None)


def _index(
    database: Database, tenant_id: str, chat_id: str, policy: SessionPolicy, claim: Claim | None = None
) -> tuple[bool, int]:
    """Index a chat's next messages or sessions that are in another language; return `(more left, messages)`."""
    with database.tenant(tenant_id) as connection:
        chat = chats.lock(connection, chat_id)
        after = store.words_after(connection, chat_id) if chat else None
        if chat is None or after is None:
            return False, 0
        texts = (
            message_rows.texts_of_slice(connection, chat_id, after, INDEXED_AT_ONCE) if chat.memory else []
        )
        done = store.index_messages(connection, chat_id, chat.language, after, INDEXED_AT_ONCE)
        # afterwards, as changing a message's language deletes its former cues
        store_cues(connection, tenant_id, ((text, chat.language) for text in texts))
        if done.lexemes:
            chats.count_placed(connection, chat_id, 0, done.lexemes)
        more = done.more
        if not more:
            indexed = store.index_sessions(connection, chat_id, chat.language, INDEXED_AT_ONCE)
            _enqueue_summaries(connection, tenant_id, chat, indexed, policy.for_chat(chat))
            more = indexed.more
        if not more:
            store.mark_indexed(connection, chat_id)
        if claim is not None:
            jobs.keep(connection, claim)
    return more, done.messages


def _enqueue_summaries(
    connection: Connection, tenant_id: str, chat: Chat, indexed: IndexedSessions, policy: SessionPolicy
) -> None:
    """Enqueue summaries of sessions that were in another language, if summaries are on."""
    if not policy.memory:
        return
    jobs.fence(connection, tenant_id, [f"session:{i}" for i in indexed.changed])
    if policy.summaries and indexed.summarized:
        session_rows.outdate_summaries(connection, indexed.summarized)
        keys = [f"session:{i}" for i in indexed.summarized]
        jobs.enqueue(connection, tenant_id, SUMMARIZE.name, keys, lane=chat.chat_id, priority=jobs.LATER)


def store_cues(connection: Connection, tenant_id: str, messages: Iterable[tuple[MessageText, str]]) -> None:
    """Store the cues of messages, each with its chat's language, in one statement."""
    cues = [
        (message, message_cues.read_cues(message.text, language, of_a_bot=message.role == "assistant"))
        for message, language in messages
    ]
    if cues:
        message_rows.put_cues(connection, tenant_id, cues)
