"""All tables with their indexes, functions, policies and grants; the vector tables where pgvector is installed.

Revision: 0001, the first
"""

from alembic import op
from sqlalchemy import text

from migrations import vector_tables
from migrations.first_schema import functions, records, searches, tables
from migrations.policies import isolate_tenants

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = tables.TABLES | records.TABLES
# What the role that serves all tenants at once may do: look at what is due, and claim it. It reads no text.
MAINTENANCE = {
    "tenants": "SELECT",
    "arrivals": "SELECT",
    "backfills": "SELECT",
    "daily_counters": "SELECT",
    "jobs": "SELECT, UPDATE",
    "refused_payloads": "SELECT (tenant_id, key, error, trace_id, refused_at)",
    "chats": "SELECT (tenant_id, chat_id, kind, platform, message_count, settling_until, memory)",
    "conversation_sessions": (
        "SELECT (tenant_id, id, chat_id, session_key, started_at, ended_at, message_count, status, revision, "
        "summary_revision, summary_version, summary_created_at, created_at)"
    ),
    "memories": "SELECT (tenant_id, id, scope, expires_at)",
}
OF_THE_DEPLOYMENT = ("embedding_spaces", "alembic_version")


def upgrade() -> None:
    op.execute("CREATE SEQUENCE job_token")
    for table, definition in TABLES.items():
        op.execute(f"CREATE TABLE {table} {definition}")
        _index(table)
    for signature, statement in functions.FUNCTIONS.items():
        op.execute(statement)
        # the role that writes a row computes its keys
        op.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO backscroll_app, backscroll_search")
    for definition in functions.INDEXES:
        op.execute(f"CREATE INDEX {definition}")
    op.execute(searches.NOTE_SPEAKERS)
    op.execute(searches.TRIGGER)
    for signature, statement in searches.SEARCHES.items():
        op.execute(statement)
        op.execute(f"REVOKE ALL ON FUNCTION {signature} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO backscroll_app")
        op.execute(f"ALTER FUNCTION {signature} OWNER TO backscroll_search")
    for table in TABLES:
        if table not in OF_THE_DEPLOYMENT:
            isolate_tenants(table)
    _grant()
    if op.get_bind().scalar(text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")):
        vector_tables.create()


def _index(table: str) -> None:
    """Create the indexes of a table, which must exist; of `messages` the primary key last.

    Before the first ANALYZE the indexes of a table tie, and the planner takes the newest: by any other the foreign key
    of an arrival would read all messages of the tenant.
    """
    for unique, definitions in (
        ("", (*tables.INDEXES, *records.INDEXES)),
        ("UNIQUE ", (*tables.UNIQUE_INDEXES, *records.UNIQUE_INDEXES)),
    ):
        for definition in definitions:
            if f" ON {table} (" in definition:
                op.execute(f"CREATE {unique}INDEX {definition}")
    if table == "messages":
        op.execute("ALTER TABLE messages ADD PRIMARY KEY (tenant_id, id)")


def _grant() -> None:
    for table, columns in searches.READABLE.items():
        op.execute(f"GRANT SELECT ({columns}) ON {table} TO backscroll_search")
    for table, rights in MAINTENANCE.items():
        op.execute(f"CREATE POLICY all_tenants ON {table} TO backscroll_maintenance USING (true)")
        op.execute(f"GRANT {rights} ON {table} TO backscroll_maintenance")
    op.execute("GRANT USAGE ON SEQUENCE job_token TO backscroll_app, backscroll_maintenance")
    op.execute("GRANT SELECT ON SEQUENCE job_token TO backscroll_backup")
    for table in OF_THE_DEPLOYMENT:
        op.execute(f"GRANT SELECT ON {table} TO backscroll_app, backscroll_backup, backscroll_maintenance")


def downgrade() -> None:
    for table in reversed([*TABLES, *vector_tables.TABLES]):
        op.execute(f"DROP TABLE IF EXISTS {table} CASCADE")
    for signature in ("note_speakers()", *searches.SEARCHES, *reversed(functions.FUNCTIONS)):
        op.execute(f"DROP FUNCTION {signature}")
    op.execute("DROP SEQUENCE job_token")
