"""SQL of keyword search: exact BM25 inside a scope, in one statement, from the stored `tsvector`s."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, text

from pipeline.store.scope import IN_SCOPE, Scope

# BM25's constants as Robertson and Zaragoza give them (The Probabilistic Relevance Framework, 2009).
K1 = 1.2
B = 0.75


def lexemes(connection: Connection, language: str, query: str) -> list[str]:
    """The query's words as the text search configuration stems them, without stop words."""
    return list(
        connection.scalar(
            text("SELECT tsvector_to_array(to_tsvector(CAST(:language AS regconfig), :query))"),
            {"language": language, "query": query},
        )
        or []
    )


@dataclass(frozen=True, kw_only=True)
class KeywordHits:
    """What the keywords found in a scope."""

    # message ids, best first, with their BM25 score
    scores: dict[int, float] = field(default_factory=dict)
    # in how many messages each lexeme stands
    document_frequency: dict[str, int] = field(default_factory=dict)


_KEYWORDS = text(f"""
    WITH matched AS MATERIALIZED (
        SELECT id, tsv, length(tsv) AS size FROM messages
        WHERE {IN_SCOPE} AND tsv @@ CAST(:any AS tsquery)
    ), frequency AS (
        SELECT matched.id, matched.size, t.lexeme, cardinality(t.positions) AS tf
        FROM matched CROSS JOIN LATERAL unnest(matched.tsv) t WHERE t.lexeme = ANY(:lexemes)
    ), documents AS (
        SELECT lexeme, count(*) AS df FROM frequency GROUP BY lexeme
    ), scored AS (
        SELECT id, sum(ln(1 + (:messages - df + 0.5) / (df + 0.5))
            * tf * ({K1} + 1) / (tf + {K1} * (1 - {B} + {B} * size / :mean_size))) AS score
        FROM frequency JOIN documents USING (lexeme) GROUP BY id ORDER BY score DESC, id DESC LIMIT :limit
    )
    SELECT (SELECT jsonb_object_agg(lexeme, df) FROM documents), (SELECT jsonb_object_agg(id, score) FROM scored)
""")


def keywords(
    connection: Connection,
    scope: Scope,
    words: Sequence[str],
    *,
    messages: int,
    mean_size: float,
    limit: int,
) -> KeywordHits:
    """The `limit` best messages of a scope for these lexemes by BM25, one statement.

    `messages` and `mean_size` are the number of messages in scope and their mean number of distinct lexemes.
    """
    if not words:
        return KeywordHits()
    row = connection.execute(
        _KEYWORDS,
        {
            **scope.given(),
            "any": any_of(words),
            "lexemes": list(words),
            "messages": max(messages, 1),
            "mean_size": max(mean_size, 1.0),
            "limit": limit,
        },
    ).one()
    frequency, scores = row[0] or {}, row[1] or {}
    ordered = sorted(((int(i), float(s)) for i, s in scores.items()), key=lambda hit: (-hit[1], -hit[0]))
    return KeywordHits(
        scores=dict(ordered), document_frequency={w: min(n, messages) for w, n in frequency.items()}
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
