"""Guess a chat's language from its words, and change the one of its keyword vectors."""

from collections.abc import Mapping
from functools import partial

from pipeline.store import chats
from pipeline.store import keyword_search as store
from pipeline.store.database import Database, persistently
from schemas.errors import NotFound

RELABELLED_AT_ONCE = 500
"""Messages or sessions whose keyword vectors are made in one transaction."""

# Stop words of a language that a chat must have before it looks like that language: their number, their share of its
# words (0.3 to 0.5 in what people write to each other), and how many times as many as of the declared language.
MIN_STOP_WORDS, MIN_SHARE, MIN_MARGIN = 10, 0.2, 1.4


def looks_like(stop_words: Mapping[str, int], words: int, declared: str) -> str | None:
    """Return the language that a chat appears to be in, if that is not the declared one; `simple` declares none.

    `stop_words` are counted by language among `words` words.

    >>> looks_like({"german": 45, "english": 9, "dutch": 20}, 100, "english")
    'german'
    >>> looks_like({"german": 45, "english": 9}, 100, "simple"), looks_like({"danish": 3}, 8, "english")
    (None, None)
    """
    best = max(stop_words, key=lambda language: (stop_words[language], language), default=declared)
    counted = stop_words.get(best, 0)
    if declared in ("simple", best) or counted < max(MIN_STOP_WORDS, MIN_SHARE * words):
        return None
    return best if counted >= MIN_MARGIN * stop_words.get(declared, 0) else None


def change(database: Database, tenant_id: str, chat_id: str, language: str) -> int:
    """Make a chat's keyword vectors in this language in slices, and count the messages that were in another.

    The same call goes on where one was broken off. Raises `NotFound`.
    """
    with database.tenant(tenant_id) as connection:
        # alone: what is accepted or placed from now on is in the new language
        chat = chats.lock_exclusively(connection, chat_id)
        if chat is None:
            raise NotFound(f"there is no chat {chat_id}")
        if chat.language != language:
            store.set_language(connection, chat_id, language)
    changed = 0
    after: str | None = ""
    while after is not None:
        after, more = persistently(partial(_relabel, database, tenant_id, chat_id, language, after))
        changed += more
    while persistently(partial(_relabel_sessions, database, tenant_id, chat_id, language)):
        pass
    return changed


def _relabel(
    database: Database, tenant_id: str, chat_id: str, language: str, after: str
) -> tuple[str | None, int]:
    with database.tenant(tenant_id) as connection:
        chats.lock(connection, chat_id)
        last, changed, gained = store.relabel_messages(
            connection, chat_id, language, after, RELABELLED_AT_ONCE
        )
        if gained:
            chats.count_placed(connection, chat_id, 0, gained)
    return last, changed


def _relabel_sessions(database: Database, tenant_id: str, chat_id: str, language: str) -> int:
    with database.tenant(tenant_id) as connection:
        chats.lock(connection, chat_id)
        return store.relabel_sessions(connection, chat_id, language, RELABELLED_AT_ONCE)
