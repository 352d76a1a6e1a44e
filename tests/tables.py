"""The tables that the migrations create, by name."""

from importlib import import_module

from migrations import vector_tables

# their names begin with a figure
TABLES: dict[str, str] = (
    import_module("migrations.versions.0001_first_schema").TABLES
    | import_module("migrations.versions.0002_llm_calls").TABLES
    | import_module("migrations.versions.0005_learned_memories").TABLES
    | import_module("migrations.versions.0017_named_in_memories").TABLES
    | import_module("migrations.versions.0007_weekly_rollups").TABLES
    | import_module("migrations.versions.0010_message_cues").TABLES
    | import_module("migrations.versions.0013_pruned_senders").TABLES
    | vector_tables.TABLES
)
OF_TENANTS = sorted(name for name, definition in TABLES.items() if "tenant_id text" in definition)
