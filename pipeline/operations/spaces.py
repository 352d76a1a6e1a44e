"""Switch the embedding model on live data: fill a space beside the active one, compare, switch, roll back, retire.

All spaces but retired ones are written, so that the former space stays complete after a switch. A query searches the
space that was active when it began. Changes need the owner of the tables.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from time import monotonic

from sqlalchemy import Connection, Engine

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.store import vector_spaces, vectors
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.operations import stats
from pipeline.store.search import vector_search
from pipeline.store.search.filters import Scope
from schemas.errors import Busy, InvalidInput, NotFound
from schemas.vectors import EmbeddingSpace, StoredSpace, Vector

DELETED_AT_ONCE = 5000
"""Vectors of a retired space that one transaction deletes."""
COUNTED = ("messages", "sessions", "memories", "missing", "given_up")
"""The counts of a `SpaceState`."""


@dataclass(frozen=True, kw_only=True)
class SpaceState:
    """A space, and counts of some tenants' vectors in it."""

    stored: StoredSpace
    messages: int
    sessions: int
    memories: int
    # rows that lack a vector in it, and those of them that were given up
    missing: int
    given_up: int
    # whether some of its vectors have an index
    indexed: bool


def listing(database: Database, tenant_ids: Sequence[str]) -> list[SpaceState]:
    """Return the state of all spaces; empty without vector tables."""
    with database.tenant("") as connection:
        spaces = vector_spaces.listing(connection) if vectors.exist(connection) else []
        tables = vector_spaces.indexed_tables(connection)
        indexed = {
            s.space.id: any(vector_spaces.is_indexed(connection, table, s.space) for table in tables)
            for s in spaces
        }
    counts = {stored.space.name: Counter[str]() for stored in spaces}
    for tenant_id in tenant_ids if spaces else ():
        with database.tenant(tenant_id) as connection:
            for row in stats.vectors_by_space(connection):
                counts[row.space] += Counter(
                    messages=row.messages, sessions=row.sessions, memories=row.memories
                )
            for stored in spaces:
                if stored.status != "retired":
                    missing, given_up = vector_spaces.count_lacking(connection, stored.space)
                    counts[stored.space.name] += Counter(missing=missing, given_up=given_up)
    return [
        SpaceState(
            stored=stored,
            indexed=indexed[stored.space.id],
            **{name: counts[stored.space.name][name] for name in COUNTED},
        )
        for stored in spaces
    ]


def find(connection: Connection, name: str) -> StoredSpace:
    """Return the space of this name, or the only one of `PROVIDER/MODEL`. Raises `NotFound`."""
    spaces = vector_spaces.listing(connection)
    fitting = [s for s in spaces if name in (s.space.name, s.space.name.rpartition("/")[0])]
    if len(fitting) != 1:
        known = ", ".join(s.space.name for s in spaces) or "none"
        raise NotFound(f"there is no embedding space {name}: there are {known}")
    return fitting[0]


def missing(database: Database, tenant_ids: Sequence[str], space: EmbeddingSpace) -> int:
    """Count these tenants' rows that have no vector in the space."""
    total = 0
    for tenant_id in tenant_ids:
        with database.tenant(tenant_id) as connection:
            total += vector_spaces.count_lacking(connection, space)[0]
    return total


def add(owner: Engine, database: Database, tenant_ids: Sequence[str], space: EmbeddingSpace) -> StoredSpace:
    """Register a space, which is written from now on; a backfill must fill in existing rows.

    Raises `InvalidInput` if it exists already.
    """
    with owner.connect() as connection:
        existing = next((s for s in vector_spaces.listing(connection) if s.space.name == space.name), None)
    if existing is not None and existing.status != "retired":
        raise InvalidInput(f"the space {space.name} is there already, {existing.status}", field="model")
    if existing is not None:
        # its old vectors may be of texts that have changed since
        for _ in delete_vectors(database, tenant_ids, existing.space):
            pass
    with owner.begin() as connection:
        return vector_spaces.register(connection, space)


def activate(
    owner: Engine, database: Database, tenant_ids: Sequence[str], name: str, *, force: bool = False
) -> StoredSpace:
    """Let searches use a complete space; the former one becomes `standby`.

    Raises `Busy` if it is not complete, unless `force`d, `InvalidInput` if it is active or retired, and `NotFound`.
    """
    with owner.connect() as connection:
        target = find(connection, name)
    _require_written(target)
    if not force:
        require_complete(database, tenant_ids, target.space)
    _index(owner, target.space)
    if not force:
        # building the index may have taken long
        require_complete(database, tenant_ids, target.space)
    return _switch(owner, target)


def rollback(owner: Engine) -> StoredSpace:
    """Let searches use the space that was active before. Raises `NotFound` if none is `standby`."""
    with owner.connect() as connection:
        standing_by = [s for s in vector_spaces.listing(connection) if s.status == "standby"]
    if not standing_by:
        raise NotFound("no space stands by to go back to: see `backscroll spaces list`")
    return _switch(owner, max(standing_by, key=lambda s: s.activated_at.timestamp() if s.activated_at else 0))


def retire(owner: Engine, name: str) -> EmbeddingSpace:
    """Stop writing a space and drop its index; `delete_vectors` does the rest. Raises `InvalidInput`, `NotFound`."""
    with owner.begin() as connection:
        vector_spaces.lock(connection)
        stored = find(connection, name)
        if stored.status == "active":
            raise InvalidInput(
                f"searches compare in {stored.space.name}: activate another space first", field="space"
            )
        vector_spaces.set_status(connection, stored.space, "retired")
    with _autocommit(owner) as connection:
        for table in vector_spaces.indexed_tables(connection):
            vector_spaces.drop_index(connection, table, stored.space)
    return stored.space


def delete_vectors(database: Database, tenant_ids: Sequence[str], space: EmbeddingSpace) -> Iterator[int]:
    """Delete all vectors of a space in several transactions; yield the number deleted by each."""
    for tenant_id in tenant_ids:
        for kind in vectors.OWNERS:
            deleted = DELETED_AT_ONCE
            while deleted == DELETED_AT_ONCE:
                with database.tenant(tenant_id) as connection:
                    deleted = vector_spaces.delete_vectors(connection, kind, space, DELETED_AT_ONCE)
                yield deleted


def _switch(owner: Engine, target: StoredSpace) -> StoredSpace:
    with owner.begin() as connection:
        vector_spaces.lock(connection)
        stored = find(connection, target.space.name)
        _require_written(stored)
        active = vectors.active_space(connection)
        if active is not None:
            vector_spaces.set_status(connection, active, "standby")
        vector_spaces.set_status(connection, stored.space, "active")
        return find(connection, target.space.name)


def _require_written(stored: StoredSpace) -> None:
    if stored.status == "active":
        raise InvalidInput(f"searches compare in {stored.space.name} already", field="space")
    if stored.status == "retired":
        raise InvalidInput(
            f"the space {stored.space.name} is retired: `backscroll spaces add` makes it anew", field="space"
        )


def require_complete(database: Database, tenant_ids: Sequence[str], space: EmbeddingSpace) -> None:
    """Raise `Busy` if rows of these tenants have no vector in the space."""
    if left := missing(database, tenant_ids, space):
        raise Busy(
            f"{left:,} messages, sessions and memories have no vector in {space.name} yet: see `backscroll backfills "
            "list`, and start `backscroll backfills start embed` if none runs"
        )


def _index(owner: Engine, space: EmbeddingSpace) -> None:
    """Build, concurrently, the indexes of a space that the active one has."""
    with _autocommit(owner) as connection:
        active = vectors.active_space(connection)
        for table in vector_spaces.indexed_tables(connection):
            if active is None or not vector_spaces.is_indexed(connection, table, active):
                continue
            if vector_spaces.is_indexed(connection, table, space) is False:
                # left by an interrupted build
                vector_spaces.drop_index(connection, table, space)
            if not vector_spaces.is_indexed(connection, table, space):
                vector_spaces.build_index(connection, table, space)


@contextmanager
def _autocommit(owner: Engine) -> Iterator[Connection]:
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


@dataclass(frozen=True, kw_only=True)
class PastQuestion:
    """A question in a chat, or a message that stands in for one."""

    chat_id: str
    text: str
    # whether it is from the query log, not a message
    is_question: bool
    # the messages that the bot says its answer used
    used: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class SpaceFigures:
    """The figures of one space."""

    space: str
    # share of the messages used by answers that are among the `nearest`; None: no answer was reported
    recall: float | None
    # milliseconds to embed a question
    embed_ms: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How similar the results of two spaces are."""

    # all samples, and how many of them are questions, not messages
    samples: int
    questions: int
    # messages compared for each sample
    nearest: int
    # the share of the nearest messages that are in both, and of samples with the same nearest one
    overlap: float
    same_first: float
    spaces: tuple[SpaceFigures, SpaceFigures]


def past_questions(connection: Connection, limit: int) -> list[PastQuestion]:
    """Return the tenant's latest questions, those with reported answers first, filled up with messages."""
    questions = [
        PastQuestion(chat_id=chat_id, text=text, is_question=True, used=_messages(used))
        for chat_id, text, used in vector_spaces.questions(connection, limit)
    ]
    messages = vector_spaces.texts(connection, limit - len(questions)) if len(questions) < limit else []
    return questions + [
        PastQuestion(chat_id=chat_id, text=text, is_question=False) for chat_id, text in messages
    ]


def compare_spaces(
    database: Database,
    tenant_id: str,
    pair: tuple[EmbeddingSpace, EmbeddingSpace],
    embedders: SpaceEmbedders,
    *,
    limit: int,
    nearest: int,
) -> Comparison:
    """Search for the same samples in both spaces; models are called outside any transaction.

    Raises `NotFound` if there is nothing to ask, `SettingsError` and `ProviderUnavailable` if a model cannot be used.
    """
    with database.tenant(tenant_id) as connection:
        chosen = past_questions(connection, limit)
    if not chosen:
        raise NotFound("there are no questions and no messages to compare the spaces on")
    results: list[list[list[int]]] = [[], []]
    seconds = [0.0, 0.0]
    for sample in chosen:
        vectors = list[Vector]()
        for place, space in enumerate(pair):
            embedder = embedders.of(space)
            began = monotonic()
            vectors.append(embedder.embed_query(sample.text))
            seconds[place] += monotonic() - began
        with database.tenant(tenant_id) as connection:
            for place, (space, vector) in enumerate(zip(pair, vectors, strict=True)):
                results[place].append(_nearest(connection, sample, space, vector, nearest))
    both = list(zip(*results, strict=True))
    overlaps = [len({*one} & {*other}) / max(len(one), len(other)) for one, other in both if one or other]
    figures = [
        SpaceFigures(
            space=space.name,
            recall=_recall(chosen, results[place]),
            embed_ms=1000 * seconds[place] / len(chosen),
        )
        for place, space in enumerate(pair)
    ]
    return Comparison(
        samples=len(chosen),
        questions=sum(sample.is_question for sample in chosen),
        nearest=nearest,
        overlap=fmean(overlaps) if overlaps else 0.0,
        same_first=fmean(one[:1] == other[:1] for one, other in both),
        spaces=(figures[0], figures[1]),
    )


def _messages(used: Sequence[str]) -> frozenset[int]:
    """Return the messages among the items that an answer used.

    >>> _messages(["message:7", "session:8", "message:x"])
    frozenset({7})
    """
    named = (item.partition(":") for item in used)
    return frozenset(int(number) for kind, _, number in named if kind == "message" and number.isdecimal())


def _nearest(
    connection: Connection, sample: PastQuestion, space: EmbeddingSpace, vector: Vector, limit: int
) -> list[int]:
    chat = chats.get_current(connection, sample.chat_id)
    if chat is None:
        return []
    scope = Scope(chat_id=chat.chat_id, language=chat.language)
    hits = vector_search.nearest(connection, scope, space, vector, messages=chat.message_count, limit=limit)
    return list(hits.cosines)


def _recall(samples: Sequence[PastQuestion], results: Sequence[Sequence[int]]) -> float | None:
    used = [(sample.used, ids) for sample, ids in zip(samples, results, strict=True) if sample.used]
    return fmean(len(expected & {*ids}) / len(expected) for expected, ids in used) if used else None
