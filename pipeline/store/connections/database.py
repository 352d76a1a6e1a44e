"""Connections to Postgres: for one tenant as the app role, for all tenants as the maintenance role.

A transaction first sets its tenant; until then it sees no rows (row-level security). For a key of some chats it sets
these, too: `pipeline/people/visibility.py` says what follows.
No transaction is held across a call to a model or to Redis.
"""

import copy
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import psycopg
import structlog
from sqlalchemy import Connection, Engine, PoolProxiedConnection
from sqlalchemy.exc import InvalidatePoolError, ProgrammingError

from migrations import REVISION
from pipeline.store import vectors
from pipeline.store.connections import engines, transactions, trips
from pipeline.store.connections.engines import Replica, make_engine, still_there
from pipeline.store.connections.transactions import sqlstate_of, transaction, translating
from pipeline.store.operations import checks, counters
from schemas.errors import DatabaseUnavailable, Retryable, SchemaOutdated, SettingsError, WritesRefused
from schemas.settings import Settings

log = structlog.get_logger(__name__)

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")

# Undefined table or column.
_MISSING = {"42P01", "42703"}

# Claims are short: connections that are kept, and opened besides.
_MAINTENANCE = (1, 2)
_AS_TENANT = "SELECT set_config('app.tenant_id', %s, true), set_config('app.chats', %s, true)"
# Planning a question's statement takes as long as running it, and Postgres keeps a plan only after five executions.
# Kept from a moment when a table was all but empty, it must not be one that reads the table.
_WITH_PLANS = f"""{_AS_TENANT},
    set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true)"""


class Database:
    """Two pools on one database.

    `app_url` logs in as the role that row-level security binds to one tenant; `maintenance_url` as the role
    that may claim jobs of all tenants (workers and the operator's commands only; the HTTP API has none).
    `read_url` is `app_url` at a standby, for what only reads (`on_replica`).
    """

    def __init__(
        self,
        app_url: str,
        maintenance_url: str | None = None,
        *,
        read_url: str | None = None,
        pool_size: int = 5,
        overflow: int = 5,
        ready: int = 0,
    ) -> None:
        self._app = make_engine(app_url, pool_size, overflow)
        self._maintenance = make_engine(maintenance_url, *_MAINTENANCE) if maintenance_url else None
        # the most that it opens to the primary
        self.connections = pool_size + overflow + (sum(_MAINTENANCE) if maintenance_url else 0)
        # the login and the tables have passed `check`: neither changes while a program runs,
        # except by a reset, which `_fitting` detects
        self._fits = False
        self._compared = False
        # connections that `one_trip` has made for `try_trip`, up to `ready`; the event loop and threads share them
        self._ready: list[PoolProxiedConnection] = []
        self._ready_at_most = ready
        # the setting `app.chats`
        self.only_chats = ""
        self.replica = Replica(make_engine(read_url, pool_size, overflow)) if read_url else None
        # whether this is a view of the standby, from `_reader`
        self.is_replica = False

    def for_chats(self, chats: Collection[str] | None) -> Self:
        """Return these pools for whoever holds a key of these chats; None: of all, which is the same database."""
        if chats is None:
            return self
        confined = copy.copy(self)
        confined.only_chats = json.dumps(sorted(chats))
        return confined

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        pool_size: int = 5,
        overflow: int = 5,
        ready: int = 0,
        with_replica: bool = False,
    ) -> Self:
        """Return pools on the databases that the settings name; `ready` connections are kept for `try_trip`."""
        if settings.database_url is None:
            raise SettingsError(
                "BACKSCROLL_DATABASE_URL is not set and no embedded Postgres runs: start one with `backscroll up`"
            )
        maintenance = settings.maintenance_database_url
        read = settings.database_read_url if with_replica else None
        return cls(
            settings.database_url.get_secret_value(),
            maintenance.get_secret_value() if maintenance else None,
            read_url=read.get_secret_value() if read else None,
            pool_size=pool_size,
            overflow=overflow,
            ready=ready,
        )

    @contextmanager
    def tenant(self, tenant_id: str, *, keeps_plans: bool = False) -> Iterator[Connection]:
        """Begin a transaction of one tenant's rows; commit at the end. Raises as `check` does.

        With `keeps_plans` each statement is planned once, for any parameters, by indexes: for those that are looked up
        in one chat, and not where the planner has to see how large that is.
        """
        lines: list[transactions.LogLine] = []
        with self._fitting(self._app, transaction) as connection:
            command = _WITH_PLANS if keeps_plans else _AS_TENANT
            trips.begin(_driver(connection.connection), command, tenant_id, self.only_chats)
            with transactions.lines_of(connection, lines), counters.collected(connection):
                yield connection
        transactions.write_lines(lines)

    @contextmanager
    def undecided(self) -> Iterator[Connection]:
        """Begin a transaction whose first statement names the tenant, together with more (`accepting.begin`)."""
        with self._fitting(self._app, transaction) as connection:
            yield connection

    def one_trip(
        self,
        statements: Sequence[trips.Statement],
        *,
        keeps_ready: bool = False,
        seconds: float | None = None,
    ) -> tuple[Any, ...] | None:
        """Run statements that are sent together, the first of which says the tenant: one transaction.

        Returns the last one's first row when that is committed. With `keeps_ready` the connection is kept for
        `try_trip`, if there is need of one. Raises as `check` does, and `psycopg.Error`.
        """
        with self._fitting(self._app, partial(self._idle, keeps_ready=keeps_ready)) as pooled:
            return trips.send(_driver(pooled), _prepared(pooled), statements, seconds)

    async def try_trip(self, statements: Sequence[trips.Statement]) -> tuple[Any, ...] | None:
        """Run small statements as `one_trip` does, from the event loop; None if the caller must use `one_trip`.

        That is if no connection is ready, or after any error, so the statements must be harmless when run twice.
        """
        if not (self._fits and self._ready):
            return None
        pooled = self._ready.pop()
        try:
            still_there(_driver(pooled))
            row = await trips.send_from_loop(_driver(pooled), _prepared(pooled), statements)
        except BaseException as error:
            pooled.invalidate()
            pooled.close()
            if isinstance(error, psycopg.Error | InvalidatePoolError):
                log.info("trip_repeated", error=type(error).__name__)
                return None
            raise
        self._ready.append(pooled)
        return row

    @contextmanager
    def _idle(self, engine: Engine, *, keeps_ready: bool) -> Iterator[PoolProxiedConnection]:
        """Take a pooled connection without a transaction; close it after an error, else give it back or keep it."""
        with translating():
            pooled = engine.raw_connection()
            try:
                yield pooled
            except BaseException:
                pooled.invalidate()
                pooled.close()
                raise
            if keeps_ready and len(self._ready) < self._ready_at_most:
                self._ready.append(pooled)
            else:
                pooled.close()

    @contextmanager
    def maintenance(self) -> Iterator[Connection]:
        """Begin a transaction over all tenants' jobs, not their texts; commit at the end. Raises as `check` does."""
        if self._maintenance is None:
            raise SettingsError(
                "BACKSCROLL_MAINTENANCE_DATABASE_URL is not set: jobs are claimed as that role"
            )
        with self._fitting(self._maintenance, transaction) as connection:
            yield connection

    @contextmanager
    def unscoped(self) -> Iterator[Connection]:
        """Begin a transaction without a tenant, on tables of any migration."""
        with transaction(self._app) as connection:
            yield connection

    def check(self) -> None:
        """Refuse a login that bypasses tenant isolation, and tables of an earlier migration than this program's.

        Raises `SettingsError`, `SchemaOutdated` or `DatabaseUnavailable`.
        """
        self._fits = False
        with transaction(self._app) as connection:
            role, unbound = checks.login(connection)
            if unbound:
                raise SettingsError(
                    f"BACKSCROLL_DATABASE_URL logs in as {role}, which row-level security does not bind: "
                    "use the role backscroll_app"
                )
            if not checks.server(connection).migrated:
                raise SchemaOutdated("the database has no tables yet: run `backscroll db upgrade`")
            migration = checks.migration(connection)
            checks.require_upgradable(migration)
            # of a fixed width, so that they compare as text
            if migration is None or migration < REVISION:
                raise SchemaOutdated(
                    f"the database is at migration {migration or 'none'}, this program needs {REVISION}: "
                    "run `backscroll db upgrade`"
                )
            if migration == REVISION and not self._compared:
                checks.require_seen_vectors(connection)
                checks.require_catalog(connection)
                self._compared = True
        self._fits = True

    def require_writes(self) -> None:
        """Raise `WritesRefused` if Postgres is a standby or read-only, and whatever `check` raises."""
        self.check()
        with transaction(self._app) as connection:
            if checks.is_read_only(connection):
                raise WritesRefused(
                    "Postgres takes no writes: it is a standby, or default_transaction_read_only is on"
                )

    def look_at_replica(self) -> None:
        """Use the standby from now on, or the primary alone, as it is found.

        Raises `SettingsError` if its URL must not be used at all, and as `check` does if the primary is away.
        """
        if self.replica is None:
            return
        here = self.one_trip([engines.IDENTITY]) or ()
        try:
            there = self._on_standby().one_trip([engines.IDENTITY], seconds=engines.ANSWER_SECONDS) or ()
        except Retryable as error:
            self.replica.note(str(error))
        else:
            self.replica.judge(here, there)

    def reading(self, act: Callable[[Self], R]) -> R:
        """Run what only reads on the standby, if that has all that was committed before, and else on the primary."""
        reader = self._reader()
        try:
            return act(reader)
        except Retryable as error:
            if self.replica is None or reader is self:
                raise
            # a conflict with what it replays ends a transaction, and says nothing of the next
            if isinstance(error, DatabaseUnavailable):
                self.replica.note(str(error))
        return act(self)

    def _reader(self) -> Self:
        """Return the standby if it is up to date, else this."""
        if self.replica is None or self.replica.problem is not None:
            return self
        (position,) = self.one_trip([engines.POSITION]) or (None,)
        standby = self._on_standby()

        asked = [(engines.HAS_REPLAYED, {"position": position})]
        ask = partial(standby.one_trip, asked, seconds=engines.ANSWER_SECONDS)
        try:
            return standby if position and engines.poll(ask) else self
        except Retryable as error:
            self.replica.note(str(error))
            return self

    def _on_standby(self) -> Self:
        standby = copy.copy(self)
        standby.is_replica = True
        assert self.replica is not None  # noqa: S101 - the callers have looked
        standby._app = self.replica.engine
        return standby

    def has_vectors(self) -> bool:
        """Tell whether the vector tables exist; without pgvector everything works on keywords."""
        with self._fitting(self._app, transaction) as connection:
            return vectors.exist(connection)

    def close(self) -> None:
        """Close all connections."""
        while self._ready:
            self._ready.pop().close()
        self._app.dispose()
        if self.replica is not None:
            self.replica.engine.dispose()
        if self._maintenance is not None:
            self._maintenance.dispose()

    @contextmanager
    def _fitting(self, engine: Engine, begin: Callable[[Engine], AbstractContextManager[C]]) -> Iterator[C]:
        """Begin a transaction on tables that this program can work on."""
        if not self._fits:
            self.check()
        try:
            with begin(engine) as connection:
                yield connection
        except (ProgrammingError, psycopg.ProgrammingError) as error:
            if sqlstate_of(error) in _MISSING:
                self._blame_the_tables(error)
            raise

    def _blame_the_tables(self, error: Exception) -> None:
        """Raise `SchemaOutdated` if the database's migration explains a missing table or column."""
        self.check()
        with self.unscoped() as connection:
            migration = checks.migration(connection)
        if migration != REVISION:
            raise SchemaOutdated(
                f"the database is at migration {migration}, which no longer has what this program (of {REVISION}) "
                "needs: update the program"
            ) from error


def on_replica(
    function: Callable[Concatenate[Database, P], R],
) -> Callable[Concatenate[Database, P], R]:
    """Have a function that only reads, and is harmless when run twice, run by `Database.reading`."""

    @wraps(function)
    def reads(database: Database, /, *arguments: P.args, **options: P.kwargs) -> R:
        return database.reading(lambda reader: function(reader, *arguments, **options))

    return reads


def _driver(pooled: PoolProxiedConnection) -> "psycopg.Connection[Any]":
    driver: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]
    return driver


def _prepared(pooled: PoolProxiedConnection) -> trips.Prepared:
    prepared: trips.Prepared = pooled.info.setdefault("prepared", {})
    return prepared
