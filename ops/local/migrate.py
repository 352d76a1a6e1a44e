"""Migrate a database's tables, as their owner, and register its first embedding space."""

import importlib.resources
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from alembic import command
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, pool, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from migrations import partitioning, patience
from pipeline.clients.factory import make_embedder, space_by_name
from pipeline.store import vector_spaces, vectors
from pipeline.store.connections import trips
from pipeline.store.connections.engines import DRIVER, driver_of
from pipeline.store.operations import checks
from schemas.errors import DatabaseUnavailable, Retryable, SchemaOutdated
from schemas.server_urls import postgres_parameters
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace

# SQLSTATE query_canceled: by a timeout, or by an operator.
_CANCELED = "57014"


@dataclass(frozen=True, kw_only=True)
class DatabaseState:
    """The migration, vectors and embedding spaces of a database."""

    # the migration of the tables, or None without tables
    found: str | None
    # the newest migration of this program
    newest: str
    # pgvector's version in this database, or None
    pgvector: str | None
    vector_tables: bool
    # names of the embedding spaces with their status
    spaces: tuple[tuple[str, str], ...] = ()


def config(owner_url: str) -> Config:
    """Make Alembic's configuration, with the migrations of the installed package."""
    made = Config()
    made.set_main_option("script_location", str(importlib.resources.files("migrations")).replace("%", "%%"))
    made.attributes["url"] = owner_url
    return made


def upgrade(
    owner_url: str, space: EmbeddingSpace | None = None, partitions: int | None = None
) -> DatabaseState:
    """Apply the missing migrations, create the vector tables once pgvector is there, and register the first space.

    Where there is an active space, `space` is not registered: `backscroll spaces add` is for later ones. `partitions`
    are made of messages and vectors while there are none; else this raises `CannotPartition`.
    May run while workers and the HTTP API run, and twice at once. Raises `DatabaseUnavailable`, also if a table stays
    locked, `Retryable` if a statement takes too long, and `SchemaOutdated` if the database is newer than this program.
    """
    before = state(owner_url)
    if before.found != before.newest:
        require_known(before.found)
        with _explained():
            command.upgrade(config(owner_url), "head")
    with (
        _explained(),
        connected(owner_url) as engine,
        engine.connect() as connection,
        patience.alone(connection),
    ):
        if before.pgvector:
            patience.persistently(connection, lambda: _make_vector_tables(connection))
        if partitions is not None:
            patience.persistently(connection, lambda: _partition(connection, partitions))
        if space is not None:
            with connection.begin():
                # later ones are the operator's to add
                if vectors.active_space(connection) is None:
                    vector_spaces.register(connection, space)
        checks.require_catalog(connection)
    return state(owner_url)


def _partition(connection: Connection, partitions: int) -> None:
    with connection.begin():
        partitioning.partition(connection, partitions, only_empty=True)


def _make_vector_tables(connection: Connection) -> None:
    """Create them if they are missing; pgvector is installed."""
    with connection.begin():
        if not vectors.exist(connection):
            with Operations.context(MigrationContext.configure(connection)):
                partitioning.create_vectors(connection)


def reset(owner_url: str, space: EmbeddingSpace | None = None) -> DatabaseState:
    """Drop all our tables with everything in them, and create them again. Raises as `upgrade` does."""
    require_known(state(owner_url).found)
    with _explained():
        command.downgrade(config(owner_url), "base")
    return upgrade(owner_url, space)


def state(owner_url: str) -> DatabaseState:
    """Read the state of the database. Raises `DatabaseUnavailable`."""
    newest = ScriptDirectory.from_config(config(owner_url)).get_current_head()
    with _explained(), connected(owner_url) as engine, engine.begin() as connection:
        trips.require_direct(driver_of(connection), "BACKSCROLL_OWNER_DATABASE_URL")
        checks.require_seen_vectors(connection)
        revision = MigrationContext.configure(connection).get_current_revision()
        pgvector = connection.scalar(text("SELECT extversion FROM pg_extension WHERE extname = 'vector'"))
        return DatabaseState(
            found=revision,
            newest=newest or "",
            pgvector=pgvector,
            vector_tables=vectors.exist(connection),
            spaces=_spaces(connection) if revision else (),
        )


def revisions() -> list[str]:
    """List all migrations that this program knows, the newest first."""
    script = ScriptDirectory.from_config(config("postgresql://unused"))
    return [migration.revision for migration in script.walk_revisions()]


def configured_space(settings: Settings, known: DatabaseState | None = None) -> EmbeddingSpace:
    """Find the space of the settings' embedder.

    A model that is known by its name or to the database is neither loaded nor asked. Raises `SettingsError`, and
    `ProviderUnavailable` if its server must be asked and is away.
    """
    named = space_by_name(settings, ())
    if named.dimensions:
        return named
    for name, _ in known.spaces if known else ():
        model, _, dimensions = name.rpartition("/")
        if model == f"{named.provider}/{named.model}":
            return replace(named, dimensions=int(dimensions))
    return make_embedder(settings).space


def _spaces(connection: Connection) -> tuple[tuple[str, str], ...]:
    if connection.scalar(text("SELECT to_regclass('embedding_spaces')")) is None:
        return ()
    rows = connection.execute(text("SELECT name, status FROM embedding_spaces ORDER BY id"))
    return tuple((name, status) for name, status in rows)


def require_known(revision: str | None, of: object = "the database") -> None:
    """Raise `SchemaOutdated` for a migration that this program does not know, or cannot upgrade from."""
    checks.require_upgradable(revision)
    if revision and revision not in (known := revisions()):
        raise SchemaOutdated(
            f"{of} is at migration {revision}, which this program (up to {known[0]}) does not know: update the program"
        )


@contextmanager
def connected(url: str) -> Iterator[Engine]:
    """Open an engine without a pool for a block. Raises what SQLAlchemy does."""
    parameters = postgres_parameters(url) | {"connect_timeout": 5, "prepare_threshold": None}
    engine = create_engine(DRIVER, poolclass=pool.NullPool, connect_args=parameters)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        reason = (str(error.orig).strip().splitlines() or [""])[0]
        if getattr(error.orig, "sqlstate", None) == _CANCELED:
            raise Retryable(
                f"Postgres canceled a statement: {reason}. What was migrated until now is kept: "
                "raise statement_timeout if the server or the role sets one, and try again"
            ) from error
        raise DatabaseUnavailable(f"Postgres cannot be reached, or refuses the login: {reason}") from error
    except DBAPIError as error:
        raise SchemaOutdated(
            f"the database is not as its migration makes it: {str(error.orig).strip().splitlines()[0]}. A version "
            "under development made it, or somebody changed it by hand: begin with another data folder or an empty "
            "database, and import again"
        ) from error
