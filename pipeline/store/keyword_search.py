"""SQL of keyword search: BM25 inside a scope, in one statement, from the stored `tsvector`s."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Connection, text

from pipeline.store.scope import Scope

KeywordSearch = Literal["exact", "bounded", "off"]

# So many messages at most are scored for one query.
CANDIDATES = 5000

_LEXEMES = text("SELECT tsvector_to_array(to_tsvector(CAST(:language AS regconfig), :query))")


def lexemes(connection: Connection, language: str, query: str) -> list[str]:
    """The query's words as the text search configuration stems them, without stop words."""
    return list(connection.scalar(_LEXEMES, {"language": language, "query": query}) or [])


@dataclass(frozen=True, kw_only=True)
class KeywordHits:
    """What the keywords found in a scope."""

    # message ids, best first, with their BM25 score
    scores: dict[int, float] = field(default_factory=dict)
    # in how many messages each lexeme stands; estimated for those in more than `CANDIDATES`
    document_frequency: dict[str, int] = field(default_factory=dict)
    search: KeywordSearch = "off"


_KEYWORDS = text("""
    SELECT frequencies, scores, exact
    FROM keyword_search(:chat, :key, :words, :messages, :mean_size, :most, :limit)
""")


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
    """The `limit` best messages of a scope for these lexemes by BM25, one statement.

    `messages` and `mean_size` are the number of messages in scope and their mean number of distinct lexemes.
    Exact while the lexemes stand in no more than `share` of `CANDIDATES` messages, counted for each and added up.
    Above that the search is bounded: the rarest lexemes that stay within it say which messages are scored, and those
    are scored exactly, by all lexemes. What a more frequent lexeme weighs is estimated from a thousand messages at
    twenty places spread over the chat's time.

    The function behind it (migration 0008) looks past row-level security, which would keep the index from being
    used, and takes the tenant from the setting that the walls go by.
    """
    if not words:
        return KeywordHits()
    frequency, scores, exact = connection.execute(
        _KEYWORDS,
        {
            "chat": scope.chat_id,
            "key": scope.session_key,
            "words": list(words),
            "messages": float(max(messages, 1)),
            "mean_size": max(mean_size, 1.0),
            "most": int(share * CANDIDATES),
            "limit": limit,
        },
    ).one()
    ordered = sorted(
        ((int(i), float(s)) for i, s in (scores or {}).items()), key=lambda hit: (-hit[1], -hit[0])
    )
    return KeywordHits(
        scores=dict(ordered),
        document_frequency={w: min(round(n), messages) for w, n in (frequency or {}).items()},
        search="bounded" if exact is False else "exact",
    )


def any_of(words: Sequence[str]) -> str:
    """A tsquery that matches where any of the lexemes stands; without any it matches nothing.

    >>> any_of(["boiler", "it's"])
    "'boiler' | 'it''s'"
    """
    return " | ".join(map(_quoted, words))


def _quoted(lexeme: str) -> str:
    r"""A lexeme as a tsquery takes it.

    >>> print(_quoted("it's"))
    'it''s'
    """
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
