"""Connections to Postgres: of one tenant as the app role, of all of them as maintenance.

A transaction says first which tenant it serves; one that has not said so sees nothing (row-level security).
No transaction is held across a call to a model or to Redis.
"""

import random
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self, TypeVar

import psycopg
import structlog
from sqlalchemy import Connection, Engine, PoolProxiedConnection, create_engine, event, text
from sqlalchemy.exc import DBAPIError, InterfaceError, InvalidatePoolError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from migrations import REVISION
from pipeline.store import checks, counters, trips, vectors
from schemas.errors import BackscrollError, DatabaseUnavailable, Retryable, SchemaOutdated, SettingsError
from schemas.settings import Settings

log = structlog.get_logger(__name__)

C = TypeVar("C")

ATTEMPTS = 3
# Vectors that are looked at in one step through their index (`hnsw.ef_search`).
VECTORS_LOOKED_AT = 100

# A row beyond a limit of Postgres ("program limit exceeded"): psycopg calls it operational, but no time helps.
_LIMITS = "54"
# Victims of a deadlock or a serialization failure; the same transaction works when tried again.
_TRY_AGAIN = {"40001", "40P01", "55P03"}
# A network that goes away without a word: after 25 s without an answer, or 20 s (in milliseconds) with something sent
# and not acknowledged, a connection is given up. By default TCP asks for the first time after two hours.
KEEPALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# There is no such table or column.
_MISSING = {"42P01", "42703"}

_AS_TENANT = text("SELECT set_config('app.tenant_id', :tenant, true)")


class Database:
    """Two pools on one database.

    `app_url` logs in as the role that row-level security binds to one tenant; `maintenance_url` as the role
    that may claim jobs of all tenants (workers and the operator's commands only; the HTTP API has none).
    """

    def __init__(
        self, app_url: str, maintenance_url: str | None = None, *, pool_size: int = 5, ready: int = 0
    ) -> None:
        self._app = _engine(app_url, pool_size)
        self._maintenance = _engine(maintenance_url, 2) if maintenance_url else None
        # the login and the tables were as they must be: neither changes behind a running program's back,
        # but for a reset, which `_transaction` finds out
        self._fits = False
        # connections that `one_trip` has made for `try_trip`, up to `ready`; the event loop and threads share them
        self._ready: list[PoolProxiedConnection] = []
        self._ready_at_most = ready

    @classmethod
    def from_settings(cls, settings: Settings, *, pool_size: int = 5, ready: int = 0) -> Self:
        """Return pools on the databases that the settings name; `ready` connections are kept for `try_trip`."""
        if settings.database_url is None:
            raise SettingsError(
                "BACKSCROLL_DATABASE_URL is not set and no embedded Postgres runs: start one with `backscroll up`"
            )
        maintenance = settings.maintenance_database_url
        return cls(
            settings.database_url.get_secret_value(),
            maintenance.get_secret_value() if maintenance else None,
            pool_size=pool_size,
            ready=ready,
        )

    @contextmanager
    def tenant(self, tenant_id: str) -> Iterator[Connection]:
        """Begin a transaction of one tenant's rows; commit at the end. Raises as `check` does."""
        with self._fitting(self._app, _transaction) as connection:
            connection.execute(_AS_TENANT, {"tenant": tenant_id})
            with counters.collected(connection):
                yield connection

    @contextmanager
    def undecided(self) -> Iterator[Connection]:
        """Begin a transaction whose first statement names the tenant, together with more (`accepting.begin`)."""
        with self._fitting(self._app, _transaction) as connection:
            yield connection

    def one_trip(self, statements: Sequence[trips.Statement]) -> tuple[Any, ...] | None:
        """Run statements that are sent together, the first of which says the tenant: one transaction.

        Returns the last one's first row when that is committed. Raises as `check` does.
        """
        with self._fitting(self._app, self._idle) as pooled:
            return trips.send(_driver(pooled), _prepared(pooled), statements)

    async def try_trip(self, statements: Sequence[trips.Statement]) -> tuple[Any, ...] | None:
        """Run small statements as `one_trip` does, from the event loop; None if `one_trip` is to run them.

        It is where no connection is ready, and after any error: the same statements must be harmless when run twice.
        """
        if not (self._fits and self._ready):
            return None
        pooled = self._ready.pop()
        try:
            _still_there(_driver(pooled))
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
    def _idle(self, engine: Engine) -> Iterator[PoolProxiedConnection]:
        """Take a pooled connection without a transaction; close it after an error, else keep it ready."""
        with _translating():
            pooled = engine.raw_connection()
            try:
                yield pooled
            except BaseException:
                pooled.invalidate()
                pooled.close()
                raise
            if len(self._ready) < self._ready_at_most:
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
        with self._fitting(self._maintenance, _transaction) as connection:
            yield connection

    @contextmanager
    def unscoped(self) -> Iterator[Connection]:
        """Begin a transaction of no tenant, on tables of whatever migration."""
        with _transaction(self._app) as connection:
            yield connection

    def check(self) -> None:
        """Refuse a login that bypasses tenant isolation, and tables of an earlier migration than this program's.

        Raises `SettingsError`, `SchemaOutdated` or `DatabaseUnavailable`.
        """
        self._fits = False
        with _transaction(self._app) as connection:
            role, unbound = checks.login(connection)
            if unbound:
                raise SettingsError(
                    f"BACKSCROLL_DATABASE_URL logs in as {role}, which row-level security does not bind: "
                    "use the role backscroll_app"
                )
            if not checks.server(connection).migrated:
                raise SchemaOutdated("the database has no tables yet: run `backscroll db upgrade`")
            found = checks.migration(connection)
            # of a fixed width, so that they compare as text
            if found is None or found < REVISION:
                raise SchemaOutdated(
                    f"the database is at migration {found or 'none'}, this program needs {REVISION}: "
                    "run `backscroll db upgrade`"
                )
        self._fits = True

    def has_vectors(self) -> bool:
        """Tell whether the vector tables exist; without pgvector everything works on keywords."""
        with self._fitting(self._app, _transaction) as connection:
            return vectors.exist(connection)

    def close(self) -> None:
        """Close all connections."""
        while self._ready:
            self._ready.pop().close()
        self._app.dispose()
        if self._maintenance is not None:
            self._maintenance.dispose()

    @contextmanager
    def _fitting(
        self, engine: Engine, transaction: Callable[[Engine], AbstractContextManager[C]]
    ) -> Iterator[C]:
        """Begin a transaction on tables that this program can work on."""
        if not self._fits:
            self.check()
        try:
            with transaction(engine) as connection:
                yield connection
        except (ProgrammingError, psycopg.ProgrammingError) as error:
            if getattr(_orig(error), "sqlstate", None) in _MISSING:
                self._blame_the_tables(error)
            raise

    def _blame_the_tables(self, error: Exception) -> None:
        """Raise `SchemaOutdated` where a table or column is missing because of the database's migration."""
        self.check()
        with self.unscoped() as connection:
            found = checks.migration(connection)
        if found != REVISION:
            raise SchemaOutdated(
                f"the database is at migration {found}, which no longer has what this program (of {REVISION}) "
                "needs: update the program"
            ) from error


def _engine(url: str, pool_size: int) -> Engine:
    scheme, _, rest = url.partition("://")
    if scheme not in {"postgresql", "postgres", "postgresql+psycopg"} or not rest:
        raise SettingsError(
            "BACKSCROLL_DATABASE_URL, and those of other roles, must look like "
            "postgresql://user:password@host:5432/backscroll"
        )
    engine = create_engine(
        f"postgresql+psycopg://{rest}",
        pool_size=pool_size,
        max_overflow=5,
        pool_timeout=10,
        # an error's text goes into logs, and what people wrote must not
        hide_parameters=True,
        connect_args={"connect_timeout": 5, "application_name": "backscroll", **KEEPALIVE},
    )

    @event.listens_for(engine, "connect")
    def _bound_waits(connection: object, _record: object) -> None:
        # A stopped process lets go of its locks, and nobody waits for a lock longer than for a lease. In an index of
        # vectors those of other chats and tenants are passed over, and the search goes on until it has enough.
        with connection.cursor() as cursor:  # type: ignore[attr-defined]
            cursor.execute(
                "SET idle_in_transaction_session_timeout = '10s'; SET lock_timeout = '15s'; SET jit = off; "
                f"SET hnsw.iterative_scan = relaxed_order; SET hnsw.ef_search = {VECTORS_LOOKED_AT}"
            )
        connection.commit()  # type: ignore[attr-defined]

    @event.listens_for(engine, "checkout")
    def _look(connection: psycopg.Connection[object], _record: object, _proxy: object) -> None:
        _still_there(connection)

    return engine


def _driver(pooled: PoolProxiedConnection) -> "psycopg.Connection[Any]":
    driver: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]
    return driver


def _prepared(pooled: PoolProxiedConnection) -> trips.Prepared:
    prepared: trips.Prepared = pooled.info.setdefault("prepared", {})
    return prepared


def _still_there(connection: psycopg.Connection[Any]) -> None:
    """Raise `InvalidatePoolError` for an idle connection that was ended.

    A restarted Postgres costs one connection attempt then, not one failed request for each pooled one. A server says
    nothing to an idle connection but that it ends, so this asks the socket and not, as `pool_pre_ping` would at every
    transaction, the server.
    """
    if connection.closed or _has_something_to_read(connection.fileno()):
        raise InvalidatePoolError("the server has ended this connection")


def _has_something_to_read(descriptor: int) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(0))


@contextmanager
def _transaction(engine: Engine) -> Iterator[Connection]:
    with _translating(), engine.begin() as connection:
        yield connection


@contextmanager
def _translating() -> Iterator[None]:
    """Raise the errors of a transaction as ours, where trying again may help."""
    try:
        yield
    except BackscrollError:
        raise
    except PoolTimeout as error:
        raise DatabaseUnavailable("all connections to Postgres are taken; try again") from error
    except (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError) as error:
        if (getattr(_orig(error), "sqlstate", None) or "").startswith(_LIMITS):
            raise
        raise _translated(error) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise _translated(error) from error
        raise


def _orig(error: Exception) -> BaseException:
    """Return the driver's error, with or without SQLAlchemy around it."""
    return getattr(error, "orig", None) or error


def _translated(error: Exception) -> Retryable:
    orig = _orig(error)
    reason = str(orig).strip().splitlines()[0] if str(orig).strip() else type(orig).__name__
    if getattr(orig, "sqlstate", None) in _TRY_AGAIN:
        return Retryable(f"Postgres asks to try again: {reason}")
    return DatabaseUnavailable(f"Postgres cannot be reached: {reason}")


def persistently(act: Callable[[], C]) -> C:
    """Run a transaction again, up to `ATTEMPTS` times in all, when Postgres ended it to resolve a deadlock.

    Any subclass of `Retryable`, an outage, is raised at once: waiting for it is the sender's part.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            return act()
        except Retryable as error:
            if type(error) is not Retryable:
                raise
            # two victims of one another must not meet again in step
            time.sleep(random.uniform(0, 0.05 * attempt))  # noqa: S311
    return act()
