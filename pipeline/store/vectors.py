"""SQL that writes vectors and reads them by their message; reading them by likeness stands in `nearest`."""

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import pack

from psycopg import adapters
from psycopg.adapt import Dumper
from psycopg.pq import Format
from sqlalchemy import Connection, TextClause, text

from schemas.vectors import EmbeddingSpace, Vector

_EXIST = text("SELECT to_regclass('message_vectors') IS NOT NULL")

_KNOWN_HASHES = text(
    "SELECT DISTINCT content_hash FROM message_vectors WHERE space_id = :space AND content_hash = ANY(:hashes)"
)
_OF_MESSAGES = text(
    "SELECT message_id, embedding::text FROM message_vectors WHERE space_id = :s AND message_id = ANY(:ids)"
)
_DROP_SESSIONS = text("DELETE FROM session_vectors WHERE session_id = ANY(:ids)")


def exist(connection: Connection) -> bool:
    """Whether the vector tables are there (they need pgvector)."""
    return bool(connection.scalar(_EXIST))


def known_hashes(connection: Connection, space_id: int, hashes: Sequence[bytes]) -> set[bytes]:
    """Which of these texts some message of the tenant has a vector for in the space."""
    rows = connection.execute(_KNOWN_HASHES, {"space": space_id, "hashes": list(hashes)})
    return {bytes(row[0]) for row in rows}


def of_messages(connection: Connection, space: EmbeddingSpace, ids: Sequence[int]) -> dict[int, Vector]:
    """The vectors of those of these messages that have one."""
    rows = connection.execute(_OF_MESSAGES, {"s": space.id, "ids": list(ids)})
    return {row[0]: [float(value) for value in row[1].strip("[]").split(",")] for row in rows}


def distance(dimensions: int, embedding: str = "embedding", given: str = ":query") -> str:
    """Return SQL of the cosine distance of a column to a parameter; 1 minus it is the cosine.

    The number of dimensions is part of the statement: as a parameter it would lose the index.
    """
    size = int(dimensions)
    return f"{embedding}::halfvec({size}) <=> CAST({given} AS halfvec({size}))"


def in_space(space: EmbeddingSpace, row: str = "") -> str:
    """Return the SQL condition that a row of a vector table is of this space."""
    return f"{row}space_id = {int(space.id or 0)}"


def literal(vector: Vector) -> str:
    """A vector in pgvector's own notation; that of a question is asked for by one statement after the other.

    >>> literal([0.5, -1.0])
    '[0.5,-1.0]'
    """
    return _literal(tuple(vector))


@lru_cache(maxsize=32)
def _literal(vector: tuple[float, ...]) -> str:
    return "[" + ",".join(map(repr, vector)) + "]"


class _ArrayDumper(Dumper):
    """An `array` of floats as `real[]`, in Postgres' binary notation.

    Vectors as text, each a list of numbers of up to twenty digits, took as long to write and read as all the rest
    that saving one takes.
    """

    format = Format.BINARY
    oid = adapters.types["float4"].array_oid

    def dump(self, obj: "array[float]") -> bytes:
        """One dimension without nulls from 1 on; each float after its length, big-endian."""
        items = array("I", [4]) * (2 * len(obj))
        items[1::2] = array("I", obj.tobytes())
        if sys.byteorder == "little":
            items.byteswap()
        return pack(">iiIii", 1, 0, adapters.types["float4"].oid, len(obj), 1) + items.tobytes()


adapters.register_dumper(array, _ArrayDumper)


@dataclass(frozen=True, kw_only=True)
class VectorTable:
    """Where the vectors of one kind of owner lie, and what is copied from the owner so that no scan needs a join."""

    table: str
    owner: str
    # the owner's own table; merged sessions have no vectors
    source: str
    id_type: str
    copied: Sequence[str] = ()
    live: str = "true"

    def statement(self) -> TextClause:
        """Write vectors of owners that are still there; one without an embedding copies its twin's."""
        copied = "".join(f", {name}" for name in self.copied)
        given = "".join(f", o.{name}" for name in self.copied)
        renewed = ", ".join(
            f"{name} = excluded.{name}" for name in (*self.copied, "content_hash", "embedding")
        )
        return text(f"""
            INSERT INTO {self.table} (tenant_id, {self.owner}, space_id{copied}, content_hash, embedding)
            SELECT :tenant, o.id, :space{given}, given.hash,
                coalesce(CAST((CAST(:values AS real[]))[given.start + 1 : given.start + :size] AS halfvec),
                    (SELECT v.embedding FROM {self.table} v
                    WHERE v.tenant_id = :tenant AND v.space_id = :space AND v.content_hash = given.hash LIMIT 1))
            FROM unnest(CAST(:ids AS {self.id_type}[]), CAST(:hashes AS bytea[]), CAST(:starts AS integer[]))
                AS given (id, hash, start)
            -- one that is being deleted is waited for here: found gone by the foreign key, it would fail all others
            JOIN (SELECT * FROM {self.source} o WHERE o.tenant_id = :tenant
                AND o.id = ANY(CAST(:ids AS {self.id_type}[])) AND {self.live} FOR KEY SHARE) o ON o.id = given.id
            ORDER BY o.id
            ON CONFLICT (tenant_id, {self.owner}, space_id) DO UPDATE SET {renewed}
        """)


TABLES = {
    "message": VectorTable(
        table="message_vectors",
        owner="message_id",
        source="messages",
        id_type="bigint",
        copied=("chat_id", "sent_at"),
    ),
    "session": VectorTable(
        table="session_vectors",
        owner="session_id",
        source="conversation_sessions",
        id_type="bigint",
        copied=("chat_id",),
        live="o.status <> 'merged'",
    ),
    "memory": VectorTable(table="memory_vectors", owner="memory_id", source="memories", id_type="uuid"),
}


def put(
    connection: Connection,
    tenant_id: str,
    kind: str,
    space_id: int,
    rows: Sequence[tuple[str, bytes, Vector | None]],
) -> None:
    """Write vectors `(owner's id, content hash, vector)` of one kind of owner.

    Without a vector that of another owner with the same text is copied. Owners that are gone are left out.
    """
    values, starts = array("f"), list[int | None]()
    for _, _, vector in rows:
        starts.append(None if vector is None else len(values))
        values.extend(vector or ())
    connection.execute(
        TABLES[kind].statement(),
        {
            "tenant": tenant_id,
            "space": space_id,
            "ids": [row[0] for row in rows],
            "hashes": [row[1] for row in rows],
            "values": values,
            "size": next((len(vector) for _, _, vector in rows if vector is not None), 0),
            "starts": starts,
        },
    )


def drop_sessions(connection: Connection, session_ids: Sequence[int]) -> None:
    """Delete the vectors of sessions that are gone into others."""
    if exist(connection):
        connection.execute(_DROP_SESSIONS, {"ids": list(session_ids)})
