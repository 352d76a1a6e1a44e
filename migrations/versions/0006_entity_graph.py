"""The entity graph: who and what sessions speak of, where it is mentioned, and what is mentioned together.

Revision: 0006
"""

from alembic import op

from migrations.first_schema.columns import TENANT
from migrations.policies import isolate_tenants

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Everything that is said of an entity belongs to a session, and is written anew with it.
_OF_SESSION = """
        tenant_id text NOT NULL,
        session_id bigint NOT NULL,
        chat_id text NOT NULL,
        entity_id bigint NOT NULL,"""
_REFERENCES = """
        FOREIGN KEY (tenant_id, session_id) REFERENCES conversation_sessions ON DELETE CASCADE,
        FOREIGN KEY (tenant_id, entity_id) REFERENCES entities ON DELETE CASCADE"""
TABLES = {
    "entities": f"""(
        {TENANT},
        id bigint GENERATED ALWAYS AS IDENTITY,
        -- normalized; how it is written, the aliases know
        name text NOT NULL CHECK (name <> ''),
        kind text NOT NULL CHECK (kind IN ('person', 'place', 'organization', 'thing', 'unknown')),
        -- the sender's id of a person who has written; empty: nobody who has
        user_id text NOT NULL DEFAULT '',
        PRIMARY KEY (tenant_id, id),
        UNIQUE (tenant_id, name, user_id)
    )""",
    "entity_aliases": f"""({_OF_SESSION}
        -- normalized
        alias text NOT NULL,
        -- as the session writes it; empty: a short form
        display text NOT NULL,
        PRIMARY KEY (tenant_id, session_id, entity_id, alias),{_REFERENCES}
    )""",
    "entity_links": f"""({_OF_SESSION}
        -- of both none: the session as a whole
        message_id bigint,
        memory_id uuid,
        linked_at timestamptz NOT NULL,{_REFERENCES},
        FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
    )""",
    # a row for both directions
    "entity_relations": f"""({_OF_SESSION}
        other_id bigint NOT NULL CHECK (entity_id < other_id),
        weight real NOT NULL,
        first_at timestamptz NOT NULL,
        last_at timestamptz NOT NULL,
        PRIMARY KEY (tenant_id, session_id, entity_id, other_id),{_REFERENCES},
        FOREIGN KEY (tenant_id, other_id) REFERENCES entities ON DELETE CASCADE
    )""",
}
INDEXES = [
    "entities_user ON entities (tenant_id, user_id) WHERE user_id <> ''",
    "entity_aliases_alias ON entity_aliases (tenant_id, alias)",
    "entity_aliases_entity ON entity_aliases (tenant_id, entity_id)",
    "entity_aliases_chat ON entity_aliases (tenant_id, chat_id, entity_id, alias)",
    "entity_links_session ON entity_links (tenant_id, session_id)",
    "entity_links_entity ON entity_links (tenant_id, entity_id, linked_at)",
    "entity_links_memory ON entity_links (tenant_id, memory_id) WHERE memory_id IS NOT NULL",
    "entity_relations_entity ON entity_relations (tenant_id, entity_id)",
    "entity_relations_other ON entity_relations (tenant_id, other_id)",
]


def upgrade() -> None:
    for table, definition in TABLES.items():
        op.execute(f"CREATE TABLE {table} {definition}")
        isolate_tenants(table)
    for definition in INDEXES:
        op.execute(f"CREATE INDEX {definition}")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.execute(f"DROP TABLE {table}")
