"""Compare the database's catalog of our tables with that of the newest migration (`migrations/schema.txt`)."""

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from sqlalchemy import Connection, TextClause, text

from migrations import REVISION
from pipeline.store.connections.statements import column
from pipeline.store.vectors import vectors
from schemas.errors import SchemaOutdated

SHOWN = 3
NEEDED = {"table", "column", "function"}
"""Kinds of lines without which statements fail; without others they are slow, or tenants are not isolated."""
_HARMFUL = {"column", "constraint", "policy", "trigger"}
"""Kinds of lines that nobody may add; indexes, tables and grants are the operator's to add."""
# Our tables (of partitioned messages only the parent) and our functions.
_OURS = """
    WITH ours AS (
        SELECT c.oid, c.relname AS name, c.relkind, c.relacl FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'S') AND NOT c.relispartition
            AND c.relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('alembic_version'))
    ), functions AS (
        SELECT p.oid, p.oid::regprocedure::text AS name, p.proacl FROM pg_proc p
        WHERE p.pronamespace = current_schema()::regnamespace
            AND p.proowner::regrole::text IN ('backscroll_owner', 'backscroll_search')
            AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
    )
"""
# A line for each thing of the kinds in `NEEDED`: all that a process compares at its start.
_NEEDED = text(rf"""
    {_OURS} SELECT 'table ' || name FROM ours WHERE relkind <> 'S'
    UNION ALL SELECT 'column ' || name || ' ' || attname || ' ' || format_type(atttypid, atttypmod)
        || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
        FROM ours JOIN pg_attribute ON attrelid = ours.oid AND attnum > 0 AND NOT attisdropped AND relkind <> 'S'
    UNION ALL SELECT 'function ' || name FROM functions
""")
# One for each of the others: its kind, the table or function that it belongs to, and what it is. Without indexes of
# spaces, which come and go, and the backup's rights, which `db roles` gives.
_OTHERS = text(rf"""
    {_OURS} SELECT 'constraint ' || name || ' ' || pg_get_constraintdef(k.oid)
        FROM ours JOIN pg_constraint k ON conrelid = ours.oid AND contype <> 'n' AND conparentid = 0
            -- partitioning gives messages another key
            AND confrelid <> to_regclass('messages') AND NOT (contype = 'p' AND name = 'messages')
    UNION ALL SELECT 'index ' || name || ' ' || pg_get_indexdef(indexrelid)
        FROM ours JOIN pg_index ON indrelid = ours.oid
        WHERE NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)
            AND NOT starts_with(indexrelid::regclass::text, name || '_space_')
    UNION ALL SELECT 'policy ' || name || ' ' || polname || ' ' || polcmd::text || ' '
        || array_to_string(polroles::regrole[], ' ') || ' ' || coalesce(pg_get_expr(polqual, ours.oid), '') || ' '
        || coalesce(pg_get_expr(polwithcheck, ours.oid), '') FROM ours JOIN pg_policy ON polrelid = ours.oid
    UNION ALL SELECT 'trigger ' || name || ' ' || pg_get_triggerdef(t.oid)
        FROM ours JOIN pg_trigger t ON tgrelid = ours.oid AND NOT tgisinternal
    UNION ALL SELECT 'body ' || name || ' ' || md5(pg_get_functiondef(oid)) FROM functions
    UNION ALL SELECT 'grant ' || name || ' ' || privilege_type || ' ' || grantee::regrole
        FROM (SELECT name, relacl AS acl FROM ours
            UNION ALL SELECT name || '(' || attname || ')', attacl FROM ours JOIN pg_attribute ON attrelid = ours.oid
            UNION ALL SELECT name, proacl FROM functions) given, aclexplode(acl)
        WHERE grantee <> 0
            AND grantee::regrole::text IN ('backscroll_app', 'backscroll_maintenance', 'backscroll_search')
""")


def lines(connection: Connection) -> list[str]:
    """Return a line for each thing that the catalog holds of our tables, sorted, each once."""
    return sorted(_read(connection, _NEEDED) | _read(connection, _OTHERS))


def _read(connection: Connection, statement: TextClause) -> frozenset[str]:
    schema = connection.scalar(text("SELECT current_schema() || '.'"))
    return frozenset(
        " ".join(line.replace(" ON ONLY ", " ON ").replace(schema, "").split())
        for line in column(connection, statement)
    )


@cache
def expected() -> frozenset[str]:
    """Return the lines that the newest migration makes, with pgvector."""
    return frozenset((files("migrations") / "schema.txt").read_text(encoding="utf-8").splitlines())


def require(connection: Connection) -> None:
    """Raise `SchemaOutdated` for a database that is at the newest migration and lacks what it makes."""
    needed = frozenset(line for line in expected() if line.partition(" ")[0] in NEEDED)
    lacking = [what for _, what in _lacking(connection, needed - _read(connection, _NEEDED))]
    if lacking:
        raise SchemaOutdated(
            f"the database is at migration {REVISION} and not as that makes it: {'; '.join(lacking[:SHOWN])}"
            f"{' …' if len(lacking) > SHOWN else ''}. A version under development made it: begin with another data "
            "folder or an empty database, and import again"
        )


def differences(connection: Connection) -> Iterator[tuple[bool, str]]:
    """Yield `(whether statements fail by it, what differs)` of a database that is at the newest migration."""
    present = frozenset(lines(connection))
    yield from _lacking(connection, expected() - present)
    for line in sorted(present - expected()):
        kind, table = line.split(" ", 2)[:2]
        if kind in _HARMFUL and f"table {table}" in expected():
            yield False, f"with {line}"


def _lacking(connection: Connection, missing: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Describe missing lines: tables first, nothing inside a missing table, nor vectors without pgvector."""
    is_there = vectors.exist(connection)
    vector_tables = {owner.table for owner in vectors.OWNERS.values()}
    parts = sorted((line.partition(" ") for line in missing), key=lambda line: (line[0] != "table", line))
    gone = {what for kind, _, what in parts if kind == "table"}
    for kind, _, what in parts:
        table = what.partition(" ")[0].partition("(")[0]
        if (is_there or table not in vector_tables) and (kind == "table" or table not in gone):
            yield kind in NEEDED, f"without {kind} {what}"
