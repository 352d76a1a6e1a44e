"""Weekly rollups are written by a language model only and found by their time; a backfill makes those of stored weeks.

Revision: 0018
"""

from importlib import import_module

from alembic import op

from migrations.first_schema.columns import LANGUAGE

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DROP TRIGGER note_words ON rollups")
    op.execute("ALTER TABLE rollups DROP COLUMN tsv, DROP COLUMN search_text, DROP COLUMN language")
    _delete("rollups", "model = 'extractive-v1'")
    _allow_backfills("embed", "summarize", "rollup", "extract", "sessionize", "answers")


def downgrade() -> None:
    _delete("backfills", "kind = 'rollup'")
    _allow_backfills("embed", "summarize", "extract", "sessionize", "answers")
    # each is made again when one of its sessions is summarized
    _delete("rollups", "true")
    op.execute(
        f"ALTER TABLE rollups ADD COLUMN search_text text NOT NULL, ADD COLUMN {LANGUAGE}, ADD COLUMN tsv tsvector"
    )
    import_module("migrations.versions.0009_languages")._permit("rollups")
    op.execute("ALTER TABLE rollups VALIDATE CONSTRAINT rollups_language_check")
    op.execute("""
        CREATE TRIGGER note_words BEFORE INSERT OR UPDATE OF search_text, language ON rollups
        FOR EACH ROW EXECUTE FUNCTION note_search_words()
    """)


def _allow_backfills(*kinds: str) -> None:
    known = ", ".join(f"'{kind}'" for kind in kinds)
    op.execute(f"""
        ALTER TABLE backfills DROP CONSTRAINT backfills_kind_check,
            ADD CONSTRAINT backfills_kind_check CHECK (kind IN ({known}))
    """)


def _delete(table: str, which: str) -> None:
    # row-level security hides the rows from the owner, too
    op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    op.execute(f"DELETE FROM {table} WHERE {which}")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
