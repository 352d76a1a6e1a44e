"""Narrowing to sessions and the messages inside, beside comparing a question with everything there is."""

import random
from statistics import median

from sqlalchemy import text

from ops.dev.bench.talk import question_words
from ops.dev.observe import timed
from ops.dev.shipped import Shipped
from pipeline.store import sessions, spaces, text_search, vector_search
from pipeline.store.filters import Filter, Inside
from pipeline.store.scope import Scope
from pipeline.store.vectors import literal
from schemas.vectors import EmbeddingSpace, Vector

SESSIONS = 3
MESSAGES = 10


def narrow(backscroll: Shipped, chats: int, questions: int) -> dict[str, float]:
    """Ask both ways in turn, as the role that is bound to one tenant; medians in milliseconds.

    `narrowed_ms`: choosing the sessions by their vectors, and comparing with the messages inside. `global_ms`:
    comparing with every vector of the tenant, exactly. Embedding the question is in neither.
    """
    rng = random.Random(2)  # noqa: S311
    narrowed, everywhere = [], []
    with backscroll.database.tenant(backscroll.tenant) as connection:
        space = spaces.active(connection)
    if space is None:
        raise RuntimeError("there is no active space")
    for _ in range(questions):
        vector = backscroll.resources.embedder.embed_query(question_words(rng))
        chat = f"bench:{rng.randrange(chats)}"
        narrowed.append(timed(_inside_the_best_sessions, backscroll, chat, space, vector)[0])
        everywhere.append(timed(_everywhere, backscroll, space, vector)[0])
    return {"narrowed_ms": round(median(narrowed), 1), "global_ms": round(median(everywhere), 1)}


def _inside_the_best_sessions(
    backscroll: Shipped, chat: str, space: EmbeddingSpace, vector: Vector
) -> list[tuple[int, float]]:
    scope = Scope(chat_id=chat, language="english")
    hits: list[tuple[int, float]] = []
    with backscroll.database.tenant(backscroll.tenant) as connection:
        for session in vector_search.session_cosines(connection, scope, space, vector, limit=SESSIONS):
            row = sessions.find(connection, session)
            if row is not None:
                inside = Filter(session=Inside(row.session_key, row.started_at, row.ended_at))
                hits += text_search.nearest(connection, chat, inside, space, vector, limit=MESSAGES)
    return sorted(hits, key=lambda hit: -hit[1])[:MESSAGES]


def _everywhere(backscroll: Shipped, space: EmbeddingSpace, vector: Vector) -> list[int]:
    """Do what a search that knows no chats and sessions must do to be exact."""
    size = int(space.dimensions)
    with backscroll.database.tenant(backscroll.tenant) as connection:
        rows = connection.execute(
            # numbers of our own; as parameters they would be another statement
            text(f"""
                WITH everything AS MATERIALIZED (
                    SELECT message_id, embedding::halfvec({size}) <=> CAST(:query AS halfvec({size})) AS distance
                    FROM message_vectors WHERE space_id = {int(space.id or 0)})
                SELECT message_id FROM everything ORDER BY distance LIMIT {MESSAGES}
            """),  # noqa: S608
            {"query": literal(vector)},
        )
        return [row[0] for row in rows]
