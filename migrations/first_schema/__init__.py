"""The first schema as SQL, a file for what it serves; like a committed migration it is never edited."""

import re
from importlib.resources import files

from alembic import op
from sqlalchemy import text

from migrations.first_schema import words
from migrations.policies import isolate_tenants

_FOLDER = files(__name__)


def _read(name: str) -> str:
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


_TABLES = "".join(map(_read, ("people", "messages", "sessions", "memories", "jobs", "models", "records")))
_VECTORS = _read("vectors")
_FUNCTIONS = words.SQL + _read("keys") + _read("searches")
_RIGHTS = _read("rights")
_TABLE = re.compile(r"^CREATE TABLE (\w+) \(\n    (\w+)", re.MULTILINE)
_FUNCTION = re.compile(r"^CREATE FUNCTION (\w+)\(", re.MULTILINE)


def create() -> None:
    """Create all tables with their indexes, functions, policies and grants; vectors where pgvector is installed."""
    _create_tables(_TABLES)
    op.get_bind().exec_driver_sql(_FUNCTIONS)
    op.get_bind().exec_driver_sql(_RIGHTS)
    if op.get_bind().scalar(text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")):
        create_vectors()


def create_vectors() -> None:
    """Create the tables of vectors; also for `db upgrade`, when pgvector is installed after the first migration."""
    _create_tables(_VECTORS)


def drop() -> None:
    """Drop everything, and what is in it."""
    tables = [name for name, _ in _TABLE.findall(_TABLES + _VECTORS)]
    op.execute(f"DROP TABLE IF EXISTS {', '.join(tables)} CASCADE")
    op.execute(f"DROP FUNCTION {', '.join(_FUNCTION.findall(_TABLES + _FUNCTIONS))} CASCADE")
    op.execute("DROP SEQUENCE job_token")


def _create_tables(sql: str) -> None:
    op.get_bind().exec_driver_sql(sql)
    for table, column in _TABLE.findall(sql):
        if column == "tenant_id":
            isolate_tenants(table)
