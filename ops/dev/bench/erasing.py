"""Editing and forgetting: in a chat with many logged questions, and one user of many.

The query log, memories and sessions are made up by SQL. While a message is edited or a user forgotten, another
connection asks again and again for the lock that accepting a message takes: its longest wait is how long the chat was
locked.
"""

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import psycopg

from ops.dev import shipped
from ops.dev.bench.talk import VOCABULARY, conversation, numbered
from ops.dev.figures import Figure
from ops.dev.observe import Say, beside, timed
from ops.dev.shipped import Shipped
from pipeline.erasure import edits as changes
from pipeline.erasure import forget
from schemas.messages import ChatIn
from schemas.people.forgetting import Subject
from schemas.settings import Settings

SETTINGS = Settings(_env_file=None, embedding_provider="deterministic", tenant="bench")
CHAT = "bench:1"
MESSAGES = 20_000
QUESTIONS, MEMORIES, SESSIONS = 50_000, 200_000, 20_000
PEOPLE = 200
"""So that one person has a hundred messages in a hundred sessions, one batch of forgetting."""
EDITS = 9
LOCKED_MS, PROBE_PAUSE = 300.0, 0.0005
USERS, CHATS, MESSAGES_PER_CHAT, IN_SESSION = 50, 10, 5_000, 5
"""For forgetting one of many; `IN_SESSION` of them talk in one session."""


def measure(say: Say) -> list[Figure]:
    """Edit and forget beside a full query log; then forget one user of many."""
    with shipped.temporary(SETTINGS, durable=True) as backscroll, backscroll.superuser() as superuser:
        say("filling a chat")
        backscroll.accept(ChatIn(chat_id=CHAT), numbered(range(MESSAGES), people=PEOPLE))
        backscroll.run_all("ingest")
        say("filling the query log")
        _add_memories_and_sessions(superuser)
        _add_questions(superuser)
        say(f"editing and forgetting beside {QUESTIONS:,} logged questions")
        figures = list(_edited_and_forgotten(backscroll))
    return [*figures, *_one_of_many(say)]


def _one_of_many(say: Say) -> list[Figure]:
    """Forget one user of many, verified, and make again what then is missing."""
    people = [f"User{number}" for number in range(USERS)]
    talk = partial(conversation, people=people, in_session=IN_SESSION)
    with shipped.temporary(SETTINGS) as backscroll:
        backscroll.fill_chats(talk, CHATS * MESSAGES_PER_CHAT, CHATS, say)
        say("forgetting one user")
        forgotten_ms, messages = timed(_started_forgetting(backscroll, people[1]))
        again_ms, _ = timed(backscroll.run_all, "summarize", "embed")
    case = f"one user of {USERS} in {CHATS * MESSAGES_PER_CHAT:,} messages"
    return [
        Figure(f"{case}: {messages} messages forgotten and verified", forgotten_ms / 1000, "s"),
        Figure(f"{case}: the rest summarized and embedded again", again_ms / 1000, "s"),
    ]


# A question is five to twelve words, or what a message said; it showed twelve messages in a row, two sessions and a
# memory.
_ASKED = """
    SELECT 'ctx_' || n AS id, start, n,
        CASE WHEN n % 50 = 0
            THEN (SELECT content FROM messages m WHERE m.tenant_id = 'bench' AND m.id = messages[start])
            ELSE (SELECT string_agg(words[floor(power(cardinality(words), random()))::int + 0 * g], ' ')
                FROM generate_series(1, 5 + (n % 8)) AS g) || '?' END AS query,
        (SELECT array_agg('message:' || messages[start + k]) FROM generate_series(0, 11) AS k)
            || ('session:' || sessions[1 + n % cardinality(sessions)])
            || ('session:' || sessions[1 + (7 * n) % cardinality(sessions)])
            || ('memory:' || memories[1 + n % cardinality(memories)]) AS items
    FROM (SELECT n, 1 + floor(random() * (cardinality(messages) - 12))::int AS start, messages, sessions, memories
        FROM generate_series(1, {count}) AS n, (SELECT
            (SELECT array_agg(id ORDER BY id) FROM messages WHERE tenant_id = 'bench') AS messages,
            (SELECT array_agg(id ORDER BY id) FROM conversation_sessions WHERE chat_id = 'bench:1') AS sessions,
            (SELECT array_agg(id) FROM (SELECT id FROM memories LIMIT 5000) few) AS memories) AS ids) AS drawn,
        (SELECT string_to_array('{words}', ' ') AS words) AS vocabulary
"""


def _add_questions(superuser: psycopg.Connection) -> None:
    """Add the query log, and memories of a part of the answers."""

    def logged(count: int) -> str:
        return _ASKED.format(count=count, words=" ".join(VOCABULARY))

    superuser.execute("SELECT setseed(0.5)")
    superuser.execute(
        f"""
        INSERT INTO query_log (tenant_id, context_id, chat_id, user_id, profile, asked_at, query, shown, tokens, chars,
            used_tokens, budget, latency_ms, degraded, answer, answered_at)
        SELECT 'bench', id, 'bench:1', 'bench:1', 'default', now() - n * interval '1 minute', query,
            (SELECT jsonb_object_agg(item, 'history') FROM unnest(items) AS item), '{{}}', '{{}}', 100, 2000, 30,
            '{{}}',
            CASE WHEN n % 3 = 0 THEN 'Yes.' END, CASE WHEN n % 3 = 0 THEN now() END
        FROM ({logged(QUESTIONS)}) AS asked
        """  # noqa: S608
    )
    superuser.execute(
        f"""
        INSERT INTO memories (tenant_id, id, scope, type, user_id, learned_in, content, content_hash, metadata)
        SELECT 'bench', gen_random_uuid(), 'user', 'qa_turn', 'bench:1', 'bench:1', query || chr(10) || 'Yes.',
            sha256(id::bytea), jsonb_build_object('context_id', id, 'question_chars', length(query), 'recalled', items)
        FROM ({logged(MEMORIES // 10)}) AS asked
        """  # noqa: S608
    )
    superuser.execute("VACUUM ANALYZE")


def _add_memories_and_sessions(superuser: psycopg.Connection) -> None:
    """Add memories that were made of nothing, and sessions of other chats."""
    superuser.execute(
        f"""
        INSERT INTO chats (tenant_id, chat_id) SELECT 'bench', 'other:' || n FROM generate_series(1, 20) AS n;
        INSERT INTO memories (tenant_id, id, scope, type, user_id, content, content_hash)
        SELECT 'bench', gen_random_uuid(), 'user', 'fact', 'other:' || n % 500, 'likes number ' || n,
            sha256(n::text::bytea)
        FROM generate_series(1, {MEMORIES - MEMORIES // 10}) AS n;
        INSERT INTO conversation_sessions (tenant_id, chat_id, session_key, started_at, ended_at, message_count,
            token_count, participants, status)
        SELECT 'bench', 'other:' || 1 + n % 20, '', at, at + interval '10 minutes', 10, 100, '{{Ann}}', 'closed'
        FROM (SELECT n, timestamptz '2024-01-01' + n * interval '1 hour' AS at
            FROM generate_series(1, {SESSIONS}) AS n) AS times
        """  # noqa: S608
    )
    superuser.execute("VACUUM ANALYZE")


def _edited_and_forgotten(backscroll: Shipped) -> Iterator[Figure]:
    """Edit some messages, and forget one person's hundred messages."""
    edits = [_probed(backscroll, partial(_edit, backscroll, f"b{11 + 500 * n}")) for n in range(EDITS)]
    forgotten = _probed(backscroll, _started_forgetting(backscroll, "7"))
    for what, took in (("an edit", edits), (f"{MESSAGES // PEOPLE} forgotten messages", [forgotten])):
        totals, locks = zip(*took, strict=True)
        yield Figure(f"{what}, {QUESTIONS:,} logged questions: in all", median(totals), "ms")
        yield Figure(f"{what}: chat locked, longest", max(locks), "ms", most=LOCKED_MS)


def _started_forgetting(backscroll: Shipped, user: str) -> Callable[[], int]:
    """Start to forget a user; call the result to do the rest, which returns how many messages they had."""
    subject = Subject(kind="user", sender_id=f"bench:{user}")
    receipt = forget.start(backscroll.database, backscroll.tenant, subject)

    def finish() -> int:
        backscroll.run_all("forget")
        counts = forget.get(backscroll.database, backscroll.tenant, receipt.id).counts
        if not counts["messages"] or counts["found_again_texts"]:
            raise AssertionError(counts)
        return counts["messages"]

    return finish


def _edit(backscroll: Shipped, external_id: str) -> None:
    text, rules = "something else altogether", backscroll.resources.rules
    changed = changes.edit(backscroll.database, backscroll.tenant, CHAT, external_id, text, None, rules)
    if changed.outcome != "edited":
        raise AssertionError(changed)


def _probed(backscroll: Shipped, act: Callable[[], object]) -> tuple[float, float]:
    """Return how long something took, and the longest that the lock which accepting takes was waited for meanwhile."""
    waits: list[float] = []
    lock = "SELECT 1 FROM chats WHERE chat_id = 'bench:1' FOR KEY SHARE"
    with backscroll.superuser() as connection:

        def probe() -> None:
            waits.append(timed(connection.execute, lock)[0])

        with beside(probe, PROBE_PAUSE):
            total, _ = timed(act)
    return total, max(waits)
