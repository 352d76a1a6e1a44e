"""The entity graph rests on memories: what a language model's facts name, and how that is related.

Revision: 0017
"""

from importlib import import_module

from alembic import op

from migrations.policies import isolate_tenants

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TABLES = {
    # Each memory names one subject, under one or two names, and what its attribute relates to that.
    "memory_entities": """(
        tenant_id text NOT NULL,
        memory_id uuid NOT NULL,
        -- the sender's id of somebody who writes; empty: nobody who does, who is known by the normalized name instead
        user_id text NOT NULL,
        entity text NOT NULL,
        -- a name of it, as it is written, normalized, and its first word where that may stand for it
        name text NOT NULL,
        alias text NOT NULL,
        short text NOT NULL,
        kind text NOT NULL CHECK (kind IN ('person', 'place', 'organization', 'thing', 'unknown')),
        -- what it is to the subject, such as `partner`; empty: it is the subject
        relation text NOT NULL,
        PRIMARY KEY (tenant_id, memory_id, user_id, entity, alias),
        FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
    )""",
}
INDEXES = [
    "memory_entities_entity ON memory_entities (tenant_id, user_id, entity, memory_id)",
    "memory_entities_alias ON memory_entities (tenant_id, alias)",
    "memory_entities_short ON memory_entities (tenant_id, short) WHERE short <> ''",
]
_BEFORE = import_module("migrations.versions.0006_entity_graph")


def upgrade() -> None:
    _BEFORE.downgrade()
    for table, definition in TABLES.items():
        op.execute(f"CREATE TABLE {table} {definition}")
        isolate_tenants(table)
    for definition in INDEXES:
        op.execute(f"CREATE INDEX {definition}")


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"DROP TABLE {table}")
    _BEFORE.upgrade()
