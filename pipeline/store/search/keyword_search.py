"""SQL of keyword search: BM25 inside a scope from the stored `tsvector`s."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Connection, text

from pipeline.store.connections.statements import column
from pipeline.store.search.filters import Scope

# as Robertson and Zaragoza give them: The Probabilistic Relevance Framework: BM25 and Beyond, 2009
K1 = 1.2
B = 0.75


def idf(total: int, frequency: int) -> float:
    """Return the inverse document frequency of a term in `frequency` of `total` texts; always above 0."""
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


KeywordSearch = Literal["exact", "bounded", "off"]

# Messages scored for one query at most.
CANDIDATES = 5000

_LEXEMES = text("""
    SELECT tsvector_to_array(words_of(:language, query))
    FROM unnest(CAST(:queries AS text[])) WITH ORDINALITY AS each (query, place) ORDER BY place
""")


def search(words: str = ":words", limit: str = ":limit", most: str = ":most", sessions: int = 0) -> str:
    """Return SQL of the `limit` best messages of a scope by BM25 for the lexemes that are an expression.

    What is as good and of the same instant as the last of them is found as well, so that the order in which messages
    came decides nothing.

    If `sessions` is above 0, that many sessions are found, too, by BM25 over all messages of each.

    `:messages` and `:mean_size` are the number of messages in scope and their mean number of distinct lexemes.
    Exact while the lexemes are in no more than `most` messages, counted for each and added up. Above that the search is
    bounded: the rarest lexemes that stay within it say which messages are scored, and those are scored exactly, by all
    lexemes. What a more frequent lexeme weighs is estimated from a thousand messages at twenty places spread over the
    chat's time.
    """
    # The function looks past row-level security, which would keep the index from being used, and takes the tenant from
    # the setting that row-level security goes by.
    return f"keyword_search(:chat, :key, {words}, :messages, :mean_size, {most}, {limit}, {int(sessions)})"


def lexemes(connection: Connection, language: str, query: str) -> list[str]:
    """Return the query's words as messages in this language are indexed: stemmed, without stop words.

    Of a script without spaces they are the pairs of its characters.
    """
    return all_lexemes(connection, language, [query])[0]


def all_lexemes(connection: Connection, language: str, queries: Sequence[str]) -> list[list[str]]:
    """Return the lexemes of each of several queries."""
    return [list(words or ()) for words in column(connection, _LEXEMES, language=language, queries=queries)]


@dataclass(frozen=True, kw_only=True)
class KeywordHits:
    """The results of a keyword search."""

    # message ids, best first, with their BM25 score
    scores: dict[int, float] = field(default_factory=dict)
    # the number of messages with each lexeme; estimated above `CANDIDATES`
    document_frequency: dict[str, int] = field(default_factory=dict)
    search: KeywordSearch = "off"


def sizes_of(scope: Scope) -> dict[str, float]:
    """Return the parameters of `search` for the size of the scope and the limit of scored messages."""
    return {
        "messages": float(max(scope.messages, 1)),
        "mean_size": max(scope.mean_size, 1.0),
        "most": CANDIDATES,
    }


def as_hits(
    frequency: Mapping[str, float] | None,
    scores: Mapping[str, float] | None,
    exact: bool | None,
    messages: int,
) -> KeywordHits:
    """Convert the results of `search`."""
    return KeywordHits(
        scores=best_first(scores),
        document_frequency={w: min(round(n), messages) for w, n in (frequency or {}).items()},
        search="bounded" if exact is False else "exact",
    )


def best_first(scores: Mapping[str, float] | None) -> dict[int, float]:
    """Return the scores of `search` by message, best first."""
    ordered = sorted(((int(i), float(s)) for i, s in (scores or {}).items()), key=lambda hit: -hit[1])
    return dict(ordered)


def any_of(words: Sequence[str]) -> str:
    """Return a tsquery that matches where any of the lexemes is; without any it matches nothing.

    >>> print(any_of(["boiler", "it's"]))
    'boiler' | 'it''s'
    """
    return " | ".join(map(quoted, words))


def quoted(lexeme: str) -> str:
    r"""Quote a lexeme for a tsquery.

    >>> print(quoted("it's"))
    'it''s'
    """
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def times_in(tsv: str, query: str) -> str:
    """Return SQL of how often a tsvector holds the one lexeme of a query that matches it.

    It is read back from `ts_rank`, as `keyword_search` does; `unnest` of the tsvector takes ten times as long.
    """
    return f"round(1 / (1.64493406685 * (1 - ts_rank('{{1,1,1,1}}', {tsv}, {query}))) - 0.5)"
