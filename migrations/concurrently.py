"""Build and drop indexes of large tables without blocking writers."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import op
from sqlalchemy import text

from migrations import patience

_VALID = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")
_PARTITIONED = text("SELECT relkind = 'I' FROM pg_class WHERE oid = to_regclass(:name)")
_PARTITIONS = text("""
    SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = to_regclass(:table) ORDER BY relname
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


def build(name: str, definition: str, *, unique: bool = False) -> None:
    """Build an index from its name and what follows `CREATE INDEX … ON`; call it inside `concurrently`.

    A valid index is kept, so that an interrupted migration continues where it was; an invalid one, which an interrupted
    build leaves, is replaced. On a partitioned table it is built partition by partition.
    """
    table, _, rest = definition.partition(" ")
    partitions = op.get_bind().scalars(_PARTITIONS, {"table": table}).all()
    if not partitions:
        _build(name, definition, unique=unique)
        return
    # not valid before each partition has its own
    op.execute(f"CREATE {_kind(unique=unique)} IF NOT EXISTS {name} ON ONLY {definition}")
    for partition in partitions:
        own = f"{partition}_{name}"
        _build(own, f"{partition} {rest}", unique=unique)
        op.execute(f"ALTER INDEX {name} ATTACH PARTITION {own}")


def drop(name: str) -> None:
    """Drop an index if it exists; call it inside `concurrently`."""
    partitioned = op.get_bind().scalar(_PARTITIONED, {"name": name})
    op.execute(f"DROP INDEX {'' if partitioned else 'CONCURRENTLY '}IF EXISTS {name}")


def _build(name: str, definition: str, *, unique: bool) -> None:
    if not op.get_bind().scalar(_VALID, {"name": name}):
        drop(name)
        op.execute(f"CREATE {_kind(unique=unique)} CONCURRENTLY {name} ON {definition}")


def _kind(*, unique: bool) -> str:
    return "UNIQUE INDEX" if unique else "INDEX"
