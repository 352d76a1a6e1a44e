"""What tables are written with: columns that must or may have a value, references, names of constraints.

Ids are unique together with their tenant, and every foreign key includes `tenant_id`: Postgres checks foreign
keys past row-level security. Times are UTC. What only Postgres can say (partial and GIN indexes, checks,
generated columns, policies) stands in the migrations.
"""

from typing import Any

from sqlalchemy import Column, DateTime, ForeignKeyConstraint, MetaData, Text
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "pk": "%(table_name)s_pkey",
    }
)

TIME = DateTime(timezone=True)


def need(name: str, kind: type[TypeEngine[Any]] | TypeEngine[Any] = Text) -> Column[Any]:
    """A column that always has a value."""
    return Column(name, kind, nullable=False)


def may(name: str, kind: type[TypeEngine[Any]] | TypeEngine[Any] = Text) -> Column[Any]:
    """A column that may be null."""
    return Column(name, kind, nullable=True)


def refers(columns: str, target: str, **options: str) -> ForeignKeyConstraint:
    """A foreign key, as in `refers("tenant_id chat_id", "chats(tenant_id chat_id)", ondelete="CASCADE")`."""
    names = columns.split()
    table, _, there = target.partition("(")
    targets = [f"{table}.{name}" for name in there.rstrip(")").split()]
    return ForeignKeyConstraint(names, targets, **options)  # type: ignore[arg-type]
