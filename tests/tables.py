"""The tables that the migrations create, by name."""

from pipeline.store.operations import checks

_LINES = [line.split() for line in sorted(checks.expected_catalog())]
TABLES = sorted(line[1] for line in _LINES if line[0] == "table" and line[1] != "alembic_version")
OF_TENANTS = sorted(line[1] for line in _LINES if line[0] == "column" and line[2] == "tenant_id")
