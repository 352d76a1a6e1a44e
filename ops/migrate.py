"""Brings a database's tables to what this program needs, and its embedding space with them.

Runs as the owner of the tables. The migrations are found in the installed package, so this works from a wheel
as from a checkout.
"""

import importlib
import importlib.resources
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from alembic import command
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, pool, text
from sqlalchemy.exc import InterfaceError, OperationalError

from migrations import patience
from pipeline.clients.factory import make_embedder
from pipeline.store import spaces, vectors
from schemas.errors import DatabaseUnavailable, Retryable, SchemaOutdated
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace

# A statement was ended by a timeout, or by somebody.
_ENDED = "57014"
# The revision that makes the vector tables, or leaves them out where pgvector is not there.
VECTORS_MODULE = "migrations.versions.0002_vectors"


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a database is."""

    # the migration that it is at, or None without tables
    found: str | None
    # the one that this program brings
    newest: str
    # pgvector's version in this database, or None
    pgvector: str | None
    vector_tables: bool
    # names of the embedding spaces with their state
    spaces: tuple[tuple[str, str], ...] = ()


def config(owner_url: str) -> Config:
    """Alembic's configuration, with the migrations of the installed package."""
    made = Config()
    made.set_main_option("script_location", str(importlib.resources.files("migrations")).replace("%", "%%"))
    made.attributes["url"] = _driver(owner_url)
    return made


def upgrade(owner_url: str, space: EmbeddingSpace | None = None) -> State:
    """Apply the missing migrations, make the vector tables once pgvector is there, and register the space.

    Without a space none is registered. Does nothing where nothing is missing. May run while workers and the door
    do, and twice at once: the second waits for the first. Raises `DatabaseUnavailable`, also when a table stays
    locked, `Retryable` when a statement takes too long, and `SchemaOutdated` when the database is newer than this
    program.
    """
    before = state(owner_url)
    if before.found != before.newest:
        _require_known(before)
        with _explained():
            command.upgrade(config(owner_url), "head")
    with _connected(owner_url) as engine, engine.connect() as connection, patience.alone(connection):
        if before.pgvector:
            patience.persistently(connection, lambda: _make_vector_tables(connection))
        if space is not None:
            spaces.register(connection, space)
            connection.commit()
    return state(owner_url)


def _make_vector_tables(connection: Connection) -> None:
    """Make them where they are missing; pgvector is there."""
    with connection.begin():
        if not vectors.exist(connection):
            with Operations.context(MigrationContext.configure(connection)):
                importlib.import_module(VECTORS_MODULE).create_tables()


def reset(owner_url: str, space: EmbeddingSpace | None = None) -> State:
    """Drop all tables of ours with everything in them, and make them anew. Errors as of `upgrade`."""
    _require_known(state(owner_url))
    with _explained():
        command.downgrade(config(owner_url), "base")
    return upgrade(owner_url, space)


def state(owner_url: str) -> State:
    """How far the database is. Raises `DatabaseUnavailable`."""
    newest = ScriptDirectory.from_config(config(owner_url)).get_current_head()
    with _connected(owner_url) as engine, engine.begin() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
        pgvector = connection.scalar(text("SELECT extversion FROM pg_extension WHERE extname = 'vector'"))
        return State(
            found=found,
            newest=newest or "",
            pgvector=pgvector,
            vector_tables=vectors.exist(connection),
            spaces=_spaces(connection) if found else (),
        )


def revisions() -> list[str]:
    """All migrations that this program knows, the newest first."""
    script = ScriptDirectory.from_config(config("postgresql://unused"))
    return [each.revision for each in script.walk_revisions()]


def configured_space(settings: Settings) -> EmbeddingSpace:
    """The space of the embedder that the settings name; loads no model. Raises `SettingsError`."""
    return make_embedder(settings).space


def _spaces(connection: Connection) -> tuple[tuple[str, str], ...]:
    if connection.scalar(text("SELECT to_regclass('embedding_spaces')")) is None:
        return ()
    rows = connection.execute(text("SELECT name, status FROM embedding_spaces ORDER BY id"))
    return tuple((name, status) for name, status in rows)


def _require_known(found: State) -> None:
    if found.found and found.found not in revisions():
        raise SchemaOutdated(
            f"the database is at migration {found.found}, which this program (up to {found.newest}) does not "
            "know: update the program"
        )


@contextmanager
def _connected(owner_url: str) -> Iterator[Engine]:
    engine = create_engine(_driver(owner_url), poolclass=pool.NullPool, connect_args={"connect_timeout": 5})
    try:
        with _explained():
            yield engine
    finally:
        engine.dispose()


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        reason = (str(error.orig).strip().splitlines() or [""])[0]
        if getattr(error.orig, "sqlstate", None) == _ENDED:
            raise Retryable(
                f"Postgres ended a statement before it was done: {reason}. What was migrated until now stays: "
                "raise statement_timeout if the server or the role sets one, and try again"
            ) from error
        raise DatabaseUnavailable(f"Postgres cannot be reached, or does not let us in: {reason}") from error


def _driver(url: str) -> str:
    return "postgresql+psycopg://" + url.partition("://")[2]
