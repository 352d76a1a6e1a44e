"""What a key for some chats states of them shows nobody more, and a source ends with the key that made it.

Revision: 0106
"""

from alembic import op

revision = "0106"
down_revision = "0105"
branch_labels = None
depends_on = None

# `app.chats` names the chats of a transaction's API key, as a JSON array; unset for a key of all chats.
_CONFINED = "nullif(current_setting('app.chats', true), '') IS NOT NULL"
_APART = f"""
-- such a key has named who is there, or made the chat: `pipeline/people/visibility.py` says what follows
ALTER TABLE chats ADD COLUMN apart boolean NOT NULL DEFAULT false;

CREATE FUNCTION keep_apart() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.apart := true;
    ELSE
        NEW.kind := OLD.kind;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER keep_apart BEFORE INSERT OR UPDATE OF kind ON chats
    FOR EACH ROW WHEN ({_CONFINED}) EXECUTE FUNCTION keep_apart();

CREATE FUNCTION set_apart() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.chats c SET apart = true FROM (SELECT DISTINCT tenant_id, chat_id FROM changed) m
    WHERE c.tenant_id = m.tenant_id AND c.chat_id = m.chat_id AND NOT c.apart;
    RETURN NULL;
END $$;
CREATE TRIGGER set_apart_by_adding AFTER INSERT ON chat_members REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT WHEN ({_CONFINED}) EXECUTE FUNCTION set_apart();
CREATE TRIGGER set_apart_by_removing AFTER DELETE ON chat_members REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT WHEN ({_CONFINED}) EXECUTE FUNCTION set_apart();
"""
_NOT_APART = """
DROP TRIGGER set_apart_by_removing ON chat_members;
DROP TRIGGER set_apart_by_adding ON chat_members;
DROP FUNCTION set_apart;
DROP TRIGGER keep_apart ON chats;
DROP FUNCTION keep_apart;
ALTER TABLE chats DROP COLUMN apart;
"""
_MAKERS = """
ALTER TABLE sources ADD COLUMN made_by bigint, ADD COLUMN chats text[];
COMMENT ON COLUMN sources.made_by IS 'the API key; none: that of the settings';
COMMENT ON COLUMN sources.chats IS 'none: all';
DROP FUNCTION source_with;
"""
_SOURCE_WITH = """
CREATE FUNCTION source_with(id text, OUT tenant text, OUT platform text, OUT secret text, OUT label text,
    OUT chats text[], OUT made_by bigint, OUT messages_per_day integer)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.tenant_id, s.platform, s.secret, s.label, s.chats, s.made_by, k.messages_per_day
    FROM public.sources s LEFT JOIN public.api_keys k ON k.tenant_id = s.tenant_id AND k.id = s.made_by
    WHERE s.source_id = source_with.id AND (s.made_by IS NULL
        OR k.id IS NOT NULL AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now()))
$$;
GRANT SELECT (label, chats, made_by) ON sources TO backscroll_search;
"""
_FORMER_SOURCE_WITH = """
DROP FUNCTION source_with;
CREATE FUNCTION source_with(id text, OUT tenant text, OUT platform text, OUT secret text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT s.tenant_id, s.platform, s.secret FROM public.sources s WHERE s.source_id = id $$;
ALTER TABLE sources DROP COLUMN made_by, DROP COLUMN chats;
"""
_MAY_FIND = """
REVOKE ALL ON FUNCTION source_with FROM PUBLIC;
GRANT EXECUTE ON FUNCTION source_with TO backscroll_app;
ALTER FUNCTION source_with OWNER TO backscroll_search;
"""


def upgrade() -> None:
    for statements in (_APART, _MAKERS, _SOURCE_WITH, _MAY_FIND):
        op.get_bind().exec_driver_sql(statements)


def downgrade() -> None:
    for statements in (_FORMER_SOURCE_WITH, _MAY_FIND, _NOT_APART):
        op.get_bind().exec_driver_sql(statements)
