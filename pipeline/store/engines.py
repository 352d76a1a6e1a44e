"""Pools of connections to Postgres, in which none waits for ever or for a server that is gone."""

import select
from functools import partial
from typing import Any

import psycopg
from psycopg.types.json import set_json_dumps
from pydantic_core import from_json, to_json
from sqlalchemy import Engine, ExceptionContext, create_engine, event
from sqlalchemy.exc import InvalidatePoolError

from pipeline.store.transactions import READ_ONLY, sqlstate_of
from schemas.server_urls import postgres_parameters

# Where a server is, libpq reads from its URL (`postgres_parameters`), which may name what SQLAlchemy does not know.
DRIVER = "postgresql+psycopg://"
# Vectors that are looked at in one step through their index (`hnsw.ef_search`).
VECTORS_LOOKED_AT = 100

# A network that goes away without a word: after 25 s without an answer, or 20 s (in milliseconds) with something sent
# and not acknowledged, a connection is given up. By default TCP asks for the first time after two hours.
_KEEPALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

# as UTF-8: the standard library's `\uXXXX` makes a text that is not Latin three times as long on its way
set_json_dumps(to_json)


def make_engine(url: str, pool_size: int) -> Engine:
    """Make a pool of a login; no connection is opened yet."""
    engine = create_engine(
        DRIVER,
        pool_size=pool_size,
        max_overflow=5,
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
            # psycopg waits for five uses by default; nearly every statement is one of a few that come again and again
            "prepare_threshold": 1,
            **_KEEPALIVE,
        },
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
        still_there(connection)

    @event.listens_for(engine, "handle_error")
    def _leave(context: ExceptionContext) -> None:
        # what was the primary when the pool connected may be a standby now, and another server the primary
        if sqlstate_of(context.original_exception) == READ_ONLY:
            context.is_disconnect = True

    return engine


def still_there(connection: psycopg.Connection[Any]) -> None:
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
