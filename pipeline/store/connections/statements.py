"""Run statements with named parameters: mappings are sent as JSON, other collections as arrays."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import psycopg
from pgvector import HalfVector
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg.types import TypeInfo
from psycopg.types.array import ListBinaryDumper
from psycopg.types.json import Jsonb
from sqlalchemy import Connection, CursorResult, TextClause, text

from pipeline.store.connections.trips import Statement

# A parameter in SQLAlchemy's form: a colon and a name, but not a cast.
_PARAMETER = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")
_AS_THEY_ARE = (str, bytes, list)
_parsed = cache(text)

Sql = TextClause | str


class HalfVectors(list[HalfVector]):
    """Vectors as a parameter: psycopg writes other lists as text, which takes a hundred times as long."""


psycopg.adapters.register_dumper(HalfVectors, ListBinaryDumper)


def run(connection: Connection, statement: Sql, /, **values: Any) -> CursorResult[*tuple[Any, ...]]:
    """Execute a statement."""
    parsed = _parsed(statement) if isinstance(statement, str) else statement
    if any(isinstance(value, HalfVector | HalfVectors) for value in values.values()):
        knowing_vectors(connection)
    return connection.execute(parsed, {name: _bound(value) for name, value in values.items()})


def run_in_binary(connection: Connection, statement: TextClause, /, **values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a statement with vectors, read in binary: as text it takes five times as long."""
    with knowing_vectors(connection).cursor(binary=True) as cursor:
        return cursor.execute(*in_trip(statement, **values)).fetchall()


def knowing_vectors(connection: Connection) -> "psycopg.Connection[Any]":
    """Return psycopg's connection with pgvector's type, which is registered when the first vector passes.

    The type's number is the database's own, and the extension may be younger than the connection. It is the only one in
    the tables: `register_vector` would ask for four, in twelve round trips.
    """
    driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
    if "vectors" not in connection.info and (info := TypeInfo.fetch(driver, "halfvec")):
        register_halfvec_info(driver, info)
        connection.info["vectors"] = True
    return driver


def column(connection: Connection, statement: Sql, /, **values: Any) -> list[Any]:
    """Return the first column of all rows."""
    return list(run(connection, statement, **values).scalars())


def number(connection: Connection, statement: Sql, /, **values: Any) -> int:
    """Return the first column of the first row as a number; 0 without a row or if null."""
    return int(run(connection, statement, **values).scalar() or 0)


def holds(connection: Connection, statement: Sql, /, **values: Any) -> bool:
    """Tell whether the first column of the first row is true."""
    return bool(run(connection, statement, **values).scalar())


def in_trip(statement: TextClause, /, **values: Any) -> Statement:
    """Return a statement as `Database.one_trip` takes it."""
    return _for_psycopg(statement.text), {name: _bound(value) for name, value in values.items()}


@cache
def _for_psycopg(sql: str) -> str:
    return _PARAMETER.sub(r"%(\1)s", sql)


def arrays(names: str, rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return rows as parallel arrays by name, which `unnest` makes rows again.

    >>> arrays("keys places", [("a", 1), ("b", 2)])
    {'keys': ['a', 'b'], 'places': [1, 2]}
    """
    table = list(rows)
    return {name: [row[place] for row in table] for place, name in enumerate(names.split())}


def _bound(value: Any) -> Any:
    """Return a parameter in a form that psycopg takes: it sends a tuple as a composite, and knows no set or dict."""
    if isinstance(value, Mapping):
        return Jsonb(dict(value))
    return list(value) if isinstance(value, Collection) and not isinstance(value, _AS_THEY_ARE) else value
