"""Builds and drops indexes of tables that may be large, beside running work."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import op
from sqlalchemy import text

from migrations import patience

_VALID = text("""
    SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)
""")


@contextmanager
def concurrently() -> Iterator[None]:
    """Run each statement in a transaction of its own, waiting for locks as long as it takes.

    A concurrent build waits for older transactions, and nobody waits for it.
    """
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")
        try:
            yield
        finally:
            op.execute(f"SET lock_timeout = '{int(patience.LOCK_SECONDS * 1000)}ms'")


def build(name: str, definition: str) -> None:
    """Build an index, as `CREATE INDEX … ON` has it; to be called inside `concurrently`.

    One that stands stays, so that a migration which was interrupted goes on where it was; one that an interrupted
    build left invalid is replaced.
    """
    valid = op.get_bind().scalar(_VALID, {"name": name})
    if valid:
        return
    drop(name)
    op.execute(f"CREATE INDEX CONCURRENTLY {name} ON {definition}")


def drop(name: str) -> None:
    """Drop an index if it is there; to be called inside `concurrently`."""
    op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
