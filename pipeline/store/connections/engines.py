"""Pools of connections to Postgres that never wait forever or for a server that is gone, and its standby's.

A standby answers what only reads, while it has all that was committed before it was asked. A question reads the
primary's position in its log, and waits a moment until the standby has replayed that. So a write by any process is seen
by whoever asks next, and nobody sees who was forgotten or has left a chat; no clocks are compared, and no writers are
remembered.
"""

import select
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import psycopg
import structlog
from psycopg.types.json import set_json_dumps
from pydantic_core import from_json, to_json
from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.exc import InvalidatePoolError

from pipeline.store.connections import trips
from pipeline.store.connections.transactions import READ_ONLY, sqlstate_of
from pipeline.store.connections.trips import Row, Statement
from schemas.errors import SettingsError
from schemas.server_urls import postgres_parameters

log = structlog.get_logger(__name__)

CATCH_UP_SECONDS = 0.02
"""How long a question waits for the standby, which is mostly some milliseconds behind; then the primary answers it."""
POLL_SECONDS = 0.002
ANSWER_SECONDS = 1.0
"""How long a standby may take to tell how far it is."""

# Null on a server that is a standby itself. Where commits do not wait for the disk, they are seen before.
POSITION: Statement = (
    """SELECT CASE WHEN pg_is_in_recovery() THEN NULL WHEN current_setting('synchronous_commit') = 'off'
        THEN pg_current_wal_insert_lsn()::text ELSE pg_current_wal_flush_lsn()::text END""",
    {},
)
HAS_REPLAYED = "SELECT pg_is_in_recovery() AND pg_last_wal_replay_lsn() >= CAST(%(position)s AS pg_lsn)"
# the database of a cluster, whether it is a standby there, whether the role is above row-level security, and its name
IDENTITY: Statement = (
    """SELECT system_identifier::text || '/' || current_database(), pg_is_in_recovery(), rolsuper OR rolbypassrls,
        rolname FROM pg_control_system(), pg_roles WHERE rolname = current_user""",
    {},
)


class Replica:
    """The pool on a standby, and why it is not used."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # None: it is used
        self.problem: str | None = "it was not looked at yet"

    def judge(self, here: Sequence[Any], there: Sequence[Any]) -> None:
        """Use it if its `IDENTITY` fits the primary's. Raises `SettingsError` if its URL must not be used at all."""
        place, is_standby, is_unbound, role = there
        wrong = None
        if is_unbound:
            wrong = f"logs in as {role}, which row-level security does not bind"
        elif place != here[0]:
            wrong = "names another database than BACKSCROLL_DATABASE_URL: no standby of it"
        # one that was promoted may be named by both
        self.note(wrong or (None if is_standby else "it is no standby, but a primary"))
        if wrong:
            raise SettingsError(f"BACKSCROLL_DATABASE_READ_URL {wrong}")

    def note(self, problem: str | None) -> None:
        """Note why it is not used from now on, and log each change once."""
        if (self.problem is None) != (problem is None):
            log.warning("replica_not_used", reason=problem) if problem else log.info("replica_used")
        self.problem = problem


def poll(ask: Callable[[], Row]) -> bool:
    """Ask until the answer is yes, for `CATCH_UP_SECONDS`; return the last answer."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while not (answer := ask() == (True,)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return answer


# libpq parses the URL (`postgres_parameters`), which may have parameters unknown to SQLAlchemy.
DRIVER = "postgresql+psycopg://"

# Give up a connection whose network has silently gone: after 25 s without an answer, or 20 s (in milliseconds) with
# unacknowledged data. By default TCP sends its first probe after two hours.
_KEEPALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

# as UTF-8: the standard library's `\uXXXX` would make non-Latin text three times as long
set_json_dumps(to_json)


def make_engine(url: str, pool_size: int, overflow: int) -> Engine:
    """Create a pool for a login, without opening a connection yet; it keeps `pool_size`, and opens `overflow` more."""
    engine = create_engine(
        DRIVER,
        pool_size=pool_size,
        max_overflow=overflow,
        pool_timeout=10,
        # the last one used next: its statements are prepared and planned, and its server process is warm
        pool_use_lifo=True,
        # five times as fast as the standard library's, without its cache of strings, which people wrote
        json_deserializer=partial(from_json, cache_strings="none"),
        # an error's text goes into logs, and what people wrote must not
        hide_parameters=True,
        connect_args={
            **postgres_parameters(url),
            "connect_timeout": 5,
            "application_name": "backscroll",
            # until it is known that the connection has no pooler
            "prepare_threshold": None,
            **_KEEPALIVE,
        },
    )

    @event.listens_for(engine, "connect")
    def _keep_for_the_session(driver: psycopg.Connection[object], _record: object) -> None:
        if not trips.is_pooled(driver):
            driver.execute(trips.pooler_settings("session"))
            # psycopg waits for five uses by default; nearly every statement is one of a few that come again and again
            driver.prepare_threshold = 1
        driver.commit()

    @event.listens_for(engine, "begin")
    def _set_for_the_transaction(connection: Connection) -> None:
        if (driver := driver_of(connection)).prepare_threshold is None:
            trips.begin(driver, trips.pooler_settings("transaction"))

    @event.listens_for(engine, "checkout")
    def _look(connection: psycopg.Connection[object], _record: object, _proxy: object) -> None:
        still_there(connection)

    @event.listens_for(engine, "handle_error")
    def _leave(context: ExceptionContext) -> None:
        # the former primary may have become a standby, and another server the primary
        if sqlstate_of(context.original_exception) == READ_ONLY:
            context.is_disconnect = True

    return engine


def driver_of(connection: Connection) -> psycopg.Connection[Any]:
    """Return psycopg's connection below one of SQLAlchemy's."""
    driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
    return driver


def still_there(connection: psycopg.Connection[Any]) -> None:
    """Raise `InvalidatePoolError` for an idle connection that the server has closed.

    A restarted Postgres then costs one connection attempt, not one failed request for each pooled connection. A server
    sends an idle connection nothing but its end, so this checks the socket and not, as `pool_pre_ping` does in every
    transaction, the server.
    """
    if connection.closed or _has_something_to_read(connection.fileno()):
        raise InvalidatePoolError("the server has ended this connection")


def _has_something_to_read(descriptor: int) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(0))
