"""API keys of tenants, by their digests, and the function that finds one before its tenant is known.

Revision: 0101.
"""

from alembic import op

from migrations.policies import isolate_tenants

revision = "0101"
down_revision = "0100"
branch_labels = None
depends_on = None

_TABLE = """
-- Whoever reads this table cannot call the HTTP API: a digest of 256 random bits cannot be turned back.
CREATE TABLE api_keys (
    tenant_id text NOT NULL REFERENCES tenants ON DELETE CASCADE,
    id bigint GENERATED ALWAYS AS IDENTITY,
    label text NOT NULL,
    digest bytea NOT NULL UNIQUE CHECK (octet_length(digest) = 32),
    -- of the secret before the last rotation, which goes on working for a while
    former_digest bytea UNIQUE CHECK (octet_length(former_digest) = 32),
    former_until timestamptz,
    scopes text[] NOT NULL,
    -- none: all chats
    chats text[],
    -- none: no limit
    requests_per_second double precision,
    messages_per_day integer,
    -- the day (UTC) on which messages were counted last, and how many
    counted_on date,
    counted bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    -- within a minute
    last_used_at timestamptz,
    revoked_at timestamptz,
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 70);
"""
# A request comes with a key and without a tenant, so row-level security cannot find it.
_FUNCTION = """
CREATE FUNCTION api_keys_of(digests bytea[])
RETURNS TABLE (found bytea, tenant text, id bigint, label text, scopes text[], chats text[],
    requests_per_second double precision, messages_per_day integer, expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT given, k.tenant_id, k.id, k.label, k.scopes, k.chats, k.requests_per_second, k.messages_per_day,
        CASE WHEN k.digest = given THEN k.expires_at ELSE least(k.expires_at, k.former_until) END
    FROM unnest(digests) AS given JOIN public.api_keys k ON k.digest = given OR k.former_digest = given
    WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
        AND (k.digest = given OR k.former_until > now())
$$;
GRANT SELECT (tenant_id, id, label, digest, former_digest, former_until, scopes, chats, requests_per_second,
    messages_per_day, expires_at, revoked_at) ON api_keys TO backscroll_search;
REVOKE ALL ON FUNCTION api_keys_of FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api_keys_of TO backscroll_app;
ALTER FUNCTION api_keys_of OWNER TO backscroll_search;
"""


def upgrade() -> None:
    op.get_bind().exec_driver_sql(_TABLE)
    isolate_tenants("api_keys")
    op.get_bind().exec_driver_sql(_FUNCTION)


def downgrade() -> None:
    op.execute("DROP FUNCTION api_keys_of")
    op.execute("DROP TABLE api_keys")
