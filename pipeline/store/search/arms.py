"""SQL of the arms that search for a question, all in one statement.

Each is a search of its own: by words, by vector and by sessions always, by times, people and newness where the question
names these, and memories. Together they cost one trip to the server instead of seven.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from sqlalchemy import Connection, TextClause, text

from pipeline.store.connections.statements import arrays, run
from pipeline.store.memories import memory_candidates
from pipeline.store.memories.memory_candidates import MemoryHits, MemoryScope
from pipeline.store.messages import message_rows
from pipeline.store.search import keyword_search, session_search, text_search, vector_search
from pipeline.store.search.filters import Scope
from pipeline.store.search.keyword_search import KeywordHits, any_of, quoted
from pipeline.store.search.session_search import SessionLimits
from pipeline.store.search.vector_search import VectorHits
from pipeline.store.vectors import halved
from schemas.vectors import EmbeddingSpace, Vector

Part = Literal["pieces", "times", "named", "spoken", "newest", "memories"]

_NONE_NEAR = """near_messages AS (
    SELECT CAST(NULL AS bigint) AS message_id, CAST(NULL AS timestamptz) AS sent_at, CAST(NULL AS float8) AS cosine,
        0 AS mean, 0 AS compared WHERE false)"""

_WORDS_OF_PIECE = "tsvector_to_array(words_of(:language, piece.content))"
_NEWEST_FIRST = message_rows.newest_first(message_rows.place_of("m"))
_PIECES = f"""
    SELECT json_agg(json_build_array(piece.place - 1, m.id, m.content)
        ORDER BY piece.place, CAST(hit.score AS float8) DESC, {_NEWEST_FIRST})
    FROM unnest(CAST(:pieces AS text[])) WITH ORDINALITY AS piece (content, place)
    CROSS JOIN LATERAL {keyword_search.search(_WORDS_OF_PIECE, ":pieces_read", most=":pieces_most")} found
    CROSS JOIN LATERAL jsonb_each_text(found.scores) AS hit (id, score)
    CROSS JOIN LATERAL (
        SELECT id, content, sent_at, position, external_id FROM messages
        WHERE id = CAST(hit.id AS bigint) AND chat_id = :chat OFFSET 0) m
"""


@dataclass(frozen=True, kw_only=True)
class SideArms:
    """Further criteria of a question, each with an arm of its own."""

    # pieces that a message may hold verbatim, each with a share of the messages that are scored, and how many are read
    pieces: Sequence[str] = ()
    pieces_read: int = 0
    # the times that it names, and how many messages of each are looked at
    times: Sequence[tuple[datetime, datetime]] = ()
    read: int = 0
    # lexemes of the people whom it names and of all else
    named: Sequence[str] = ()
    # the people whom it names as speakers, and how many of the nearest messages are searched for theirs
    speakers: Collection[str] = ()
    within: int = 0
    # whether it asks for the newest, of those said before a time
    newest: bool = False
    until: datetime | None = None
    # the most messages that an arm finds
    limit: int = 0

    def parts(self, space: EmbeddingSpace | None, remembers: bool) -> frozenset[Part]:
        """Return the arms to search."""
        parts: dict[Part, bool] = {
            "pieces": bool(self.pieces),
            "times": bool(self.times),
            "named": bool(self.named),
            "spoken": bool(self.speakers) and space is not None,
            "newest": self.newest,
            "memories": remembers,
        }
        return frozenset(part for part, is_wanted in parts.items() if is_wanted)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of all arms."""
        share = int(keyword_search.CANDIDATES / max(1, len(self.pieces)))
        return {
            "pieces": self.pieces,
            "pieces_read": self.pieces_read,
            "pieces_most": share,
            **arrays("starts ends", self.times),
            "read": self.read,
            "named": self.named,
            "speakers": list(self.speakers),
            "within": self.within,
            "until": self.until,
            "side": self.limit,
        }


NOTHING = SideArms()


@dataclass(frozen=True, kw_only=True)
class Arms:
    """The results of the arms."""

    by_word: KeywordHits
    by_vector: VectorHits
    # the best messages of the best sessions
    inside: Sequence[int]
    # the nearest of sessions with a high affinity of the asker
    by_affinity: Sequence[int] = ()
    # messages found by the further criteria, by arm
    asked: Mapping[str, Sequence[int]] = field(default_factory=dict)
    # for each piece, messages with words of it, the best first: `(id, text)`
    pieces: Mapping[int, Sequence[tuple[int, str]]] = field(default_factory=dict)
    memories: MemoryHits = field(default_factory=MemoryHits)


def _part(part: Part, space: EmbeddingSpace | None, *, of_key: bool) -> str:
    """Return SQL of the one value of an arm."""
    if part == "named":
        return f"SELECT scores FROM {keyword_search.search(':named', ':side')}"
    if part == "pieces":
        return _PIECES
    if part == "memories":
        return memory_candidates.candidates(space)
    if part == "times":
        rows = text_search.within(space)
    elif part == "newest":
        rows = message_rows.newest(of_key=of_key, columns="id", limit=":side")
    else:
        rows = vector_search.of_speakers(space) if space is not None else ""
    return f"SELECT array_agg(id) FROM ({rows}) found"


@lru_cache(maxsize=64)
def _statement(
    space: EmbeddingSpace | None,
    sessions: SessionLimits,
    limit: int,
    parts: frozenset[Part],
    *,
    of_key: bool,
    indexed: bool,
) -> TextClause:
    near = _NONE_NEAR
    # more messages are compared to find their sessions than are returned themselves
    nearest = max(limit, sessions.nearest if sessions.looked_into else 0)
    if space is not None:
        near = (
            vector_search.by_index(space, nearest)
            if indexed
            else vector_search.exactly(space, nearest, of_key=of_key)
        )
    spoken = session_search.BY_WORDS if sessions.looked_into else 0
    more = "".join(f", ({_part(part, space, of_key=of_key)}) AS {part}" for part in sorted(parts))
    near_asker = ""
    if space is not None and sessions.close_sessions:
        near_asker = f", {session_search.messages_by_affinity(space, sessions)}"
        more += ", (SELECT array_agg(id ORDER BY distance, id) FROM by_affinity) AS by_affinity"
    return text(f"""
        WITH by_word AS MATERIALIZED (SELECT * FROM {keyword_search.search(sessions=spoken)} WHERE :any <> ''),
            {near}, {session_search.best(space, sessions)}, {session_search.messages_inside(space, sessions)}
            {near_asker}
        SELECT frequencies, scores, exact,
            (SELECT json_agg(json_build_array(message_id, cosine, mean, compared)) FROM (
                SELECT * FROM near_messages ORDER BY cosine DESC, sent_at DESC FETCH FIRST (:limit) ROWS WITH TIES
                ) near) AS near,
            (SELECT array_agg(id ORDER BY score DESC, id) FROM inside) AS inside{more}
        FROM (SELECT) always LEFT JOIN by_word ON true
    """)


def search(
    connection: Connection,
    scope: Scope,
    words: Sequence[str],
    embedded: tuple[EmbeddingSpace, Vector] | None,
    *,
    limit: int,
    sessions: SessionLimits,
    side_arms: SideArms = NOTHING,
    memories: MemoryScope | None = None,
) -> Arms:
    """Search a scope by each arm for lexemes and a vector.

    By words and by vector at most `limit` messages are found. `memories` are those that are searched, too.
    """
    space, query = embedded or (None, None)
    of_key = scope.session_key is not None
    indexed = scope.indexed and space is not None and not of_key
    parts = side_arms.parts(space, memories is not None)
    compared = {} if query is None else {"query": halved(query)}
    row = run(
        connection,
        _statement(space, sessions, limit, parts, of_key=of_key, indexed=indexed),
        chat=scope.chat_id,
        key=scope.session_key,
        affinities=scope.affinities,
        language=scope.language,
        words=words,
        quoted=[quoted(word) for word in words],
        any=any_of(words),
        limit=limit,
        **keyword_search.sizes_of(scope),
        **compared,
        **(side_arms.parameters() if side_arms is not NOTHING else {}),
        **(memories.parameters() if memories is not None else {}),
    ).one()
    columns: dict[str, Any] = dict(row._mapping)
    return Arms(
        by_word=keyword_search.as_hits(row.frequencies, row.scores, row.exact, scope.messages)
        if words
        else KeywordHits(),
        by_vector=VectorHits() if space is None else vector_search.as_hits(row.near or [], indexed=indexed),
        inside=row.inside or [],
        by_affinity=columns.get("by_affinity") or [],
        asked=_asked_arms(columns, parts),
        pieces=_pieces(columns.get("pieces") or ()),
        memories=memory_candidates.as_hits(row.memories) if "memories" in parts else MemoryHits(),
    )


def _asked_arms(columns: Mapping[str, Any], parts: Collection[Part]) -> dict[str, Sequence[int]]:
    """Return the results of the further arms; two arms find messages of named people."""
    by_arm: dict[str, Sequence[int]] = {
        part: columns[part] or [] for part in ("times", "newest") if part in parts
    }
    if "named" in parts:
        by_name = keyword_search.best_first(columns["named"])
        by_arm["named"] = list(dict.fromkeys([*(columns.get("spoken") or ()), *by_name]))
    return by_arm


def _pieces(rows: Sequence[tuple[int, int, str]]) -> dict[int, list[tuple[int, str]]]:
    by_piece: dict[int, list[tuple[int, str]]] = {}
    for place, message, content in rows:
        by_piece.setdefault(place, []).append((message, content))
    return by_piece
