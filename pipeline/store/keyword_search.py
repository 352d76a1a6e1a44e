"""SQL of keyword search: BM25 inside a scope from the stored `tsvector`s, and the languages that these are in."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Connection, text

from pipeline.store.filters import Scope
from pipeline.store.statements import arrays, holds, run
from schemas.messages import LANGUAGES

KeywordSearch = Literal["exact", "bounded", "off"]

# So many messages at most are scored for one query.
CANDIDATES = 5000

_LEXEMES = text("SELECT tsvector_to_array(to_tsvector(CAST(:language AS regconfig), :query))")
# The function looks past row-level security, which would keep the index from being used, and takes the tenant from
# the setting that row-level security goes by.
SEARCH = "keyword_search(:chat, :key, :words, :messages, :mean_size, :most, :limit)"
_KEYWORDS = text(f"SELECT frequencies, scores, exact FROM {SEARCH}")
_STOP_WORDS = text("""
    SELECT language, sum(times) FROM unnest(CAST(:words AS text[]), CAST(:times AS bigint[])) AS w (word, times)
    CROSS JOIN unnest(CAST(:languages AS text[])) AS language
    WHERE ts_lexize(CAST(language || '_stem' AS regdictionary), word) = '{}'
    GROUP BY language
""")
_SET_LANGUAGE = text("UPDATE chats SET language = :language WHERE chat_id = :chat")
_RELABEL_MESSAGES = text("""
    WITH next AS MATERIALIZED (
        SELECT id, external_id, language, length(tsv) AS lexemes FROM messages
        WHERE chat_id = :chat AND external_id > :after ORDER BY external_id LIMIT :limit FOR NO KEY UPDATE
    ), changed AS (
        UPDATE messages m SET language = :language FROM next
        WHERE m.chat_id = :chat AND m.id = next.id AND next.language <> :language
        RETURNING m.tenant_id, m.id, length(m.tsv) - next.lexemes AS gained
    )
    SELECT (SELECT max(external_id) FROM next), (SELECT count(*) FROM changed),
        (SELECT coalesce(sum(gained), 0) FROM changed c WHERE NOT EXISTS (
            SELECT 1 FROM arrivals a WHERE a.tenant_id = c.tenant_id AND a.message_id = c.id))
""")
_RELABEL_SESSIONS = text("""
    UPDATE conversation_sessions SET language = :language WHERE id = ANY (ARRAY(
        SELECT id FROM conversation_sessions WHERE chat_id = :chat AND language <> :language
        ORDER BY id LIMIT :limit FOR NO KEY UPDATE))
""")
_IS_MIXED = text("""
    SELECT EXISTS (SELECT 1 FROM messages m WHERE m.tenant_id = c.tenant_id AND m.chat_id = c.chat_id
            AND m.language <> c.language)
        OR EXISTS (SELECT 1 FROM conversation_sessions s WHERE s.tenant_id = c.tenant_id
            AND s.chat_id = c.chat_id AND s.language <> c.language)
    FROM chats c WHERE chat_id = :chat
""")


def lexemes(connection: Connection, language: str, query: str) -> list[str]:
    """Return the query's words as the text search configuration stems them, without stop words."""
    return list(connection.scalar(_LEXEMES, {"language": language, "query": query}) or [])


@dataclass(frozen=True, kw_only=True)
class KeywordHits:
    """What the keywords found in a scope."""

    # message ids, best first, with their BM25 score
    scores: dict[int, float] = field(default_factory=dict)
    # in how many messages each lexeme is; estimated for those in more than `CANDIDATES`
    document_frequency: dict[str, int] = field(default_factory=dict)
    search: KeywordSearch = "off"


def keywords(
    connection: Connection,
    scope: Scope,
    words: Sequence[str],
    *,
    messages: int,
    mean_size: float,
    limit: int,
    share: float = 1.0,
) -> KeywordHits:
    """Return the `limit` best messages of a scope for these lexemes by BM25.

    `messages` and `mean_size` are the number of messages in scope and their mean number of distinct lexemes.
    Exact while the lexemes are in no more than `share` of `CANDIDATES` messages, counted for each and added up.
    Above that the search is bounded: the rarest lexemes that stay within it say which messages are scored, and those
    are scored exactly, by all lexemes. What a more frequent lexeme weighs is estimated from a thousand messages at
    twenty places spread over the chat's time.
    """
    if not words:
        return KeywordHits()
    given = {"chat": scope.chat_id, "key": scope.session_key, "words": words, "limit": limit}
    sizes = sizes_of(messages, mean_size, share)
    frequency, scores, exact = run(connection, _KEYWORDS, **given, **sizes).one()
    return as_hits(frequency, scores, exact, messages)


def sizes_of(messages: int, mean_size: float, share: float = 1.0) -> dict[str, float]:
    """Return the parameters of `SEARCH` that say how much there is in scope, and how much may be scored."""
    return {
        "messages": float(max(messages, 1)),
        "mean_size": max(mean_size, 1.0),
        "most": int(share * CANDIDATES),
    }


def as_hits(
    frequency: Mapping[str, float] | None,
    scores: Mapping[str, float] | None,
    exact: bool | None,
    messages: int,
) -> KeywordHits:
    """Return what `SEARCH` found as a value."""
    ordered = sorted(
        ((int(i), float(s)) for i, s in (scores or {}).items()), key=lambda hit: (-hit[1], -hit[0])
    )
    return KeywordHits(
        scores=dict(ordered),
        document_frequency={w: min(round(n), messages) for w, n in (frequency or {}).items()},
        search="bounded" if exact is False else "exact",
    )


def any_of(words: Sequence[str]) -> str:
    """Return a tsquery that matches where any of the lexemes is; without any it matches nothing.

    >>> print(any_of(["boiler", "it's"]))
    'boiler' | 'it''s'
    """
    return " | ".join(map(quoted, words))


def quoted(lexeme: str) -> str:
    r"""Quote a lexeme as a tsquery takes it.

    >>> print(quoted("it's"))
    'it''s'
    """
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


_STEMMED = [language for language in LANGUAGES if language != "simple"]
MOST_COMMON = 300
"""Words that are looked up in each language's list; stop words are the most common ones."""


def stop_words(connection: Connection, counts: Mapping[str, int]) -> dict[str, int]:
    """Count by language how many of these words are among Postgres' stop words for it."""
    common = arrays("words times", Counter(counts).most_common(MOST_COMMON))
    rows = run(connection, _STOP_WORDS, **common, languages=_STEMMED)
    return {language: int(times) for language, times in rows}


def set_language(connection: Connection, chat_id: str, language: str) -> None:
    """Set a chat's language; its messages and sessions keep theirs."""
    run(connection, _SET_LANGUAGE, chat=chat_id, language=language)


def relabel_messages(
    connection: Connection, chat_id: str, language: str, after: str, limit: int
) -> tuple[str | None, int, int]:
    """Put the next messages of a chat, by their external ids, into a language.

    Returns `(last id or None at the end, how many were in another, how many distinct lexemes the placed ones gained)`.
    """
    row = run(connection, _RELABEL_MESSAGES, chat=chat_id, language=language, after=after, limit=limit).one()
    return row[0], int(row[1]), int(row[2])


def relabel_sessions(connection: Connection, chat_id: str, language: str, limit: int) -> int:
    """Put sessions of a chat that are in another language into this one; return how many."""
    return run(connection, _RELABEL_SESSIONS, chat=chat_id, language=language, limit=limit).rowcount


def is_mixed(connection: Connection, chat_id: str) -> bool:
    """Tell whether a chat has a message or a session in another language than its own."""
    return holds(connection, _IS_MIXED, chat=chat_id)


def times_in(tsv: str, query: str) -> str:
    """Return SQL of how often a tsvector holds the one lexeme of a query that matches it.

    It is read back from `ts_rank`, as `keyword_search` does; `unnest` of the tsvector takes ten times as long.
    """
    return f"round(1 / (1.64493406685 * (1 - ts_rank('{{1,1,1,1}}', {tsv}, {query}))) - 0.5)"
