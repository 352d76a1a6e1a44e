"""Keyword search finds the best sessions, too: by BM25 over all that was said in each.

Revision: 0011
"""

from alembic import op

from migrations.first_schema import searches

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_BEFORE = "keyword_search(text, text, text[], float8, float8, integer, integer)"
_NOW = "keyword_search(text, text, text[], float8, float8, integer, integer, integer)"
_READABLE = "tenant_id, chat_id, session_key, id, started_at, message_count, status"

# As in the first schema, two chats may share a number, so tenant and chat are looked at again, behind OFFSET 0.
_HITS = """(
    SELECT hit.id, hit.tsv, hit.session_key, hit.sent_at FROM (
        SELECT m.tenant_id, m.chat_id, m.session_key, m.id, m.tsv, m.sent_at FROM public.messages m
        WHERE public.lexeme_keys(m.tenant_id, m.chat_id, m.tsv) && {keys} OFFSET 0) AS hit
    WHERE hit.tenant_id = tenant AND hit.chat_id = in_chat AND (in_key IS NULL OR hit.session_key = in_key)
    LIMIT most + 1)"""
_TIMES, _NORM = searches.TIMES, searches.NORM

# A message is in the last session of its key that began before it. These are found in a sorted array of their
# beginnings, as to look each up in an index takes ten times as long.
_KEYWORD_SEARCH = f"""
    CREATE FUNCTION keyword_search(
        in_chat text, in_key text, words text[], total float8, mean_size float8, most integer, best integer,
        best_sessions integer DEFAULT 0,
        OUT frequencies jsonb, OUT scores jsonb, OUT exact boolean, OUT sessions jsonb)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
    AS $function$
    DECLARE
        tenant CONSTANT text := nullif(current_setting('app.tenant_id', true), '');
    BEGIN
        IF tenant IS NULL THEN
            RETURN;
        END IF;
{searches.weighed_lexemes(_HITS)}        ), rare AS MATERIALIZED (
            SELECT hit.*, lexeme, weight, {_NORM.format(tsv="hit.tsv")} AS norm,
                {_TIMES.format(tsv="hit.tsv", query="query")} AS times
            FROM weighed CROSS JOIN LATERAL {_HITS.format(keys="weighed.keys")} AS hit
            WHERE weighed.rare OR weighed.place = 1
        ), part AS MATERIALIZED (
            SELECT id, session_key, sent_at, lexeme, weight, norm, times FROM rare
            UNION ALL
            SELECT id, session_key, sent_at, weighed.lexeme, weighed.weight, norm,
                {_TIMES.format(tsv="tsv", query="weighed.query")}
            FROM (SELECT DISTINCT ON (id) id, tsv, session_key, sent_at, norm FROM rare) AS candidate
            JOIN weighed ON candidate.tsv @@ weighed.query
            WHERE NOT weighed.rare AND weighed.place > 1
        ), scored AS (
            SELECT id, sum(weight * times / (times + norm)) AS score FROM part
            GROUP BY id ORDER BY score DESC, id DESC LIMIT best
        ), began AS MATERIALIZED (
            SELECT session_key, array_agg(id ORDER BY started_at, id) AS ids,
                array_agg(started_at ORDER BY started_at, id) AS times,
                array_agg(message_count ORDER BY started_at, id) AS sizes
            FROM public.conversation_sessions
            WHERE best_sessions > 0 AND tenant_id = tenant AND chat_id = in_chat AND status <> 'merged'
                AND (in_key IS NULL OR session_key = in_key)
            GROUP BY session_key
        ), inside AS MATERIALIZED (
            SELECT session_key, width_bucket(part.sent_at, began.times) AS place, lexeme, weight,
                sum(part.times) AS times
            FROM part JOIN began USING (session_key) GROUP BY 1, 2, 3, 4
        ), held AS (
            SELECT ids[place] AS id, sum(weight * inside.times / (inside.times + 1.2 * (0.25 + 0.75 * sizes[place]
                / (SELECT greatest(total / sum(cardinality(ids)), 1) FROM began)))) AS score
            FROM inside JOIN began USING (session_key) WHERE place > 0
            GROUP BY 1 ORDER BY score DESC, id DESC LIMIT best_sessions
        )
        SELECT (SELECT jsonb_object_agg(lexeme, df) FROM weighed), (SELECT jsonb_object_agg(id, score) FROM scored),
            (SELECT bool_and(weighed.rare) FROM weighed), (SELECT jsonb_object_agg(id, score) FROM held)
        INTO frequencies, scores, exact, sessions;
    END
    $function$
"""


def upgrade() -> None:
    # a process of the version before calls it without the last argument, and reads what it knows by name
    op.execute(f"DROP FUNCTION {_BEFORE}")
    _create(_NOW, _KEYWORD_SEARCH)
    op.execute(f"GRANT SELECT ({_READABLE}) ON conversation_sessions TO backscroll_search")


def downgrade() -> None:
    op.execute(f"REVOKE SELECT ({_READABLE}) ON conversation_sessions FROM backscroll_search")
    op.execute(f"DROP FUNCTION {_NOW}")
    _create(_BEFORE, searches.SEARCHES[_BEFORE])


def _create(signature: str, statement: str) -> None:
    op.execute(statement)
    op.execute(f"REVOKE ALL ON FUNCTION {signature} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO backscroll_app")
    op.execute(f"ALTER FUNCTION {signature} OWNER TO backscroll_search")
