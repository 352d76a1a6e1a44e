"""Connections through a pooler such as PgBouncer, where each transaction may use another server process.

Session state would leak to another client: prepared statements, settings, advisory locks.
"""

from typing import Any

import psycopg

from schemas.errors import SettingsError

# A stopped process must release its locks, and no lock wait may outlast a lease. A search by a vector index skips
# vectors of other chats and tenants, and goes on until it has enough.
_SETTINGS = {
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "15s",
    "jit": "off",
    "hnsw.iterative_scan": "relaxed_order",
    # vectors examined in one step
    "hnsw.ef_search": "100",
}


def settings_of(span: str) -> str:
    """Return the statement that sets what every transaction relies on, for a `session` or a `transaction`."""
    is_local = str(span == "transaction").lower()
    return "SELECT " + ", ".join(f"set_config('{n}', '{v}', {is_local})" for n, v in _SETTINGS.items())


def is_pooled(driver: "psycopg.Connection[Any]") -> bool:
    """Tell whether queries are answered by another server process than the one that logged in."""
    (answers,) = driver.execute("SELECT pg_backend_pid()").fetchone() or (None,)
    return bool(answers != driver.info.backend_pid)


def require_direct(driver: "psycopg.Connection[Any]", setting: str) -> None:
    """Raise `SettingsError` for a connection through a pooler, where a lock or setting of a session would be lost."""
    if is_pooled(driver):
        raise SettingsError(
            f"{setting} goes through a connection pooler, such as PgBouncer: name Postgres itself there, by its own "
            "port. The URLs of the other roles may go through it"
        )
