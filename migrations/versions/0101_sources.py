"""Sources: the platforms' own hooks, each with the secret by which the platform proves itself.

Revision: 0101
"""

from alembic import op

from migrations.policies import isolate_tenants

revision = "0101"
down_revision = "0100"
branch_labels = None
depends_on = None

_TABLE = """
CREATE TABLE sources (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    source_id text NOT NULL UNIQUE CHECK (source_id <> ''),
    platform text NOT NULL,
    label text NOT NULL DEFAULT '',
    -- as it is: what is signed is checked with it
    secret text NOT NULL CHECK (secret <> ''),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, source_id)
)
"""
# Whoever calls a source's URL is of no tenant yet; an id that cannot be guessed finds one row, and the proof follows.
_FUNCTION = """
CREATE FUNCTION source_with(id text, OUT tenant text, OUT platform text, OUT secret text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT s.tenant_id, s.platform, s.secret FROM public.sources s WHERE s.source_id = id $$;
GRANT SELECT (tenant_id, source_id, platform, secret) ON sources TO backscroll_search;
REVOKE ALL ON FUNCTION source_with FROM PUBLIC;
GRANT EXECUTE ON FUNCTION source_with TO backscroll_app;
ALTER FUNCTION source_with OWNER TO backscroll_search;
"""


def upgrade() -> None:
    op.execute(_TABLE)
    isolate_tenants("sources")
    op.get_bind().exec_driver_sql(_FUNCTION)


def downgrade() -> None:
    op.execute("DROP FUNCTION source_with")
    op.execute("DROP TABLE sources")
