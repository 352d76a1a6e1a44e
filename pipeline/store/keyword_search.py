"""SQL of keyword search: BM25 inside a scope from the stored `tsvector`s."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Connection, text

from pipeline.store.filters import Scope
from pipeline.store.statements import run

KeywordSearch = Literal["exact", "bounded", "off"]

# So many messages at most are scored for one query.
CANDIDATES = 5000

_LEXEMES = text("SELECT tsvector_to_array(words_of(:language, :query))")
# The function looks past row-level security, which would keep the index from being used, and takes the tenant from
# the setting that row-level security goes by.
_KEYWORDS = text("""
    SELECT frequencies, scores, exact
    FROM keyword_search(:chat, :key, :words, :messages, :mean_size, :most, :limit)
""")


def lexemes(connection: Connection, language: str, query: str) -> list[str]:
    """Return the query's words as messages in this language are indexed: stemmed, without stop words.

    Of a script without spaces they are the pairs of its characters.
    """
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
    sizes = {
        "messages": float(max(messages, 1)),
        "mean_size": max(mean_size, 1.0),
        "most": int(share * CANDIDATES),
    }
    frequency, scores, exact = run(connection, _KEYWORDS, **given, **sizes).one()
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
    return " | ".join("'" + word.replace("\\", "\\\\").replace("'", "''") + "'" for word in words)


def _quoted(lexeme: str) -> str:
    r"""Quote a lexeme as a tsquery takes it.

    >>> print(_quoted("it's"))
    'it''s'
    """
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
