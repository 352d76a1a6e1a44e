"""The tables that the migrations create, by name."""

from importlib import import_module

from migrations import vector_tables

# its name begins with a figure
TABLES: dict[str, str] = import_module("migrations.versions.0001_first_schema").TABLES | vector_tables.TABLES
OF_TENANTS = sorted(name for name, definition in TABLES.items() if "tenant_id text" in definition)
