"""Editing and forgetting in a chat with many logged questions: how long that takes, and how long the chat is locked.

On a database of its own, with a query log, memories and sessions made up by SQL. The same is measured beside an
empty log. While a message is edited or a user forgotten, somebody else asks again and again for the lock that
accepting a message takes: the longest wait is how long the chat was locked.
"""

import random
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import psycopg

from ops import migrate
from ops.bench.cases import Case, Say
from ops.bench.talk import VOCABULARY
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.roles import DATABASE
from pipeline.erasure import edits, forget
from pipeline.ingest import accept
from pipeline.ingest.policy import Rules
from pipeline.jobs import runner
from pipeline.jobs.runner import Policy
from pipeline.store.database import Database
from schemas.forgetting import Subject
from schemas.messages import MAX_BATCH, ChatIn, MessageIn
from schemas.settings import Settings

TENANT, CHAT = "bench", "bench:1"
MESSAGES, SESSIONS_OF = 20_000, 20
QUESTIONS, MEMORIES, SESSIONS = 50_000, 200_000, 20_000
FORGOTTEN = 200
"""Each so many messages are of one person: a hundred in a hundred sessions, one batch of forgetting."""
EDITS = 9
RECORDED = 1_000
LOCKED_MS = 300.0
START = datetime(2025, 1, 6, 8, 0, tzinfo=UTC)
# as frequent as in talk: one over the rank
WEIGHTS = [1 / rank for rank in range(1, len(VOCABULARY) + 1)]


@dataclass(frozen=True, kw_only=True)
class Took:
    """How long something took, and for how long of that the chat was locked, in milliseconds."""

    total: float
    locked: float


def measure(say: Say) -> list[Case]:
    """Edit and forget beside an empty log and beside a full one. Some 60 s; nothing is kept."""
    with (
        tempfile.TemporaryDirectory(prefix="backscroll-bench-") as folder,
        EmbeddedPostgres(Path(folder), durable=True) as server,
    ):
        migrate.upgrade(server.dsn("owner"), None)
        database = Database(server.dsn("app"), server.dsn("maintenance"))
        try:
            with psycopg.connect(server.superuser_dsn(DATABASE), autocommit=True) as root:
                return _measure(database, root, server.superuser_dsn(DATABASE), say)
        finally:
            database.close()


def _measure(database: Database, root: psycopg.Connection, probe_url: str, say: Say) -> list[Case]:
    rules = Rules.of(Settings(_env_file=None))
    say("filling a chat")
    _talk(database, rules)
    _more(root)
    root.execute("VACUUM ANALYZE")
    cases: list[Case] = []
    found: dict[str, dict[str, Took]] = {}
    for number, beside in enumerate(("an empty log", f"{QUESTIONS:,} logged questions")):
        if number:
            say("filling the query log")
            _ask(root)
            root.execute("VACUUM ANALYZE")
        say(f"editing and forgetting beside {beside}")
        found[beside] = {
            "an edit": _edited(database, rules, probe_url, 11 + number),
            "100 forgotten messages": _forgotten(database, rules, probe_url, 7 + number),
        }
    empty, full = found.values()
    beside = list(found)[1]
    for what, took in full.items():
        alone = empty[what]
        cases += [
            Case(case=f"{what}, an empty log: in all", value=alone.total, unit="ms"),
            Case(case=f"{what}, an empty log: chat locked", value=alone.locked, unit="ms"),
            Case(
                case=f"{what}, {beside}: in all",
                value=took.total,
                unit="ms",
                ratio=took.total / alone.total,
            ),
            Case(case=f"{what}, {beside}: chat locked", value=took.locked, unit="ms", limit=LOCKED_MS),
        ]
    say("recording contexts")
    return [*cases, *_recorded(root)]


def _talk(database: Database, rules: Rules) -> None:
    """One chat with sessions of twenty messages, placed; two of the people in it are to be forgotten."""
    rng = random.Random(1)  # noqa: S311
    said = []
    for number in range(MESSAGES):
        session, place = divmod(number, SESSIONS_OF)
        said.append(
            MessageIn(
                external_id=f"m{number}",
                sender_id=f"bench:{number % FORGOTTEN}",
                sender_name=f"User{number % FORGOTTEN}",
                content=" ".join(rng.choices(VOCABULARY, WEIGHTS, k=rng.randint(4, 30))),
                sent_at=START + timedelta(hours=6 * session, minutes=place),
            )
        )
    for start in range(0, MESSAGES, MAX_BATCH):
        accept.accept(database, TENANT, ChatIn(chat_id=CHAT), said[start : start + MAX_BATCH])
    _work(database, "ingest", accept.placer(database, rules))


def _work(database: Database, kind: str, handler: runner.Handler) -> None:
    while runner.run(database, kind, handler, Policy(batch=10, lease_seconds=600, max_attempts=3)).claimed:
        pass


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


def _ask(root: psycopg.Connection) -> None:
    """The query log, and memories of a part of the answers."""
    words = " ".join(VOCABULARY)

    def asked(count: int) -> str:
        return _ASKED.format(count=count, words=words)

    root.execute("SELECT setseed(0.5)")
    root.execute(
        f"""
        INSERT INTO query_log (tenant_id, context_id, chat_id, user_id, profile, asked_at, query, shown, tokens, chars,
            used_tokens, budget, latency_ms, degraded, answer, answered_at)
        SELECT 'bench', id, 'bench:1', 'bench:1', 'default', now() - n * interval '1 minute', query,
            (SELECT jsonb_object_agg(item, 'history') FROM unnest(items) AS item), '{{}}', '{{}}', 100, 2000, 30,
            '{{}}',
            CASE WHEN n % 3 = 0 THEN 'Yes.' END, CASE WHEN n % 3 = 0 THEN now() END
        FROM ({asked(QUESTIONS)}) AS asked
        """  # noqa: S608
    )
    root.execute(
        f"""
        INSERT INTO memories (tenant_id, id, scope, type, user_id, learned_in, content, content_hash, metadata)
        SELECT 'bench', gen_random_uuid(), 'user', 'qa_turn', 'bench:1', 'bench:1', query || chr(10) || 'Yes.',
            sha256(id::bytea), jsonb_build_object('context_id', id, 'question_chars', length(query), 'recalled', items)
        FROM ({asked(MEMORIES // 10)}) AS asked
        """  # noqa: S608
    )


def _more(root: psycopg.Connection) -> None:
    """Memories that were made of nothing, and sessions of other chats."""
    root.execute(
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


def _edited(database: Database, rules: Rules, probe_url: str, start: int) -> Took:
    """The median of some edits, and their longest lock."""
    took = []
    for number in range(EDITS):
        external = f"m{start + 500 * number}"

        def edit(external: str = external) -> None:
            changed = edits.edit(database, TENANT, CHAT, external, "something else altogether", None, rules)
            if changed.outcome != "edited":
                raise AssertionError(changed)

        took.append(_probed(probe_url, edit))
    return Took(total=median(each.total for each in took), locked=max(each.locked for each in took))


def _forgotten(database: Database, rules: Rules, probe_url: str, person: int) -> Took:
    """One person's hundred messages."""
    receipt = forget.start(database, TENANT, Subject(kind="user", sender_id=f"bench:{person}"))
    took = _probed(probe_url, lambda: _work(database, "forget", forget.forgetter(database, rules)))
    counts = forget.get(database, TENANT, receipt.id).counts
    if counts["messages"] != MESSAGES // FORGOTTEN or counts["found_again_texts"]:
        raise AssertionError(counts)
    return took


def _probed(probe_url: str, act: Callable[[], None]) -> Took:
    """Do something while another connection asks for the lock that accepting takes, again and again."""
    waits, over, ready = [0.0], threading.Event(), threading.Event()

    def probe() -> None:
        with psycopg.connect(probe_url, autocommit=True) as connection:
            ready.set()
            while not over.is_set():
                began = time.monotonic()
                connection.execute("SELECT 1 FROM chats WHERE chat_id = 'bench:1' FOR KEY SHARE")
                waits.append(time.monotonic() - began)
                time.sleep(0.0005)

    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    ready.wait()
    began = time.monotonic()
    try:
        act()
    finally:
        took = time.monotonic() - began
        over.set()
        thread.join()
    return Took(total=took * 1000, locked=max(waits) * 1000)


def _recorded(root: psycopg.Connection) -> list[Case]:
    """What one row of the log costs with the index that erasing finds it by, and without."""
    with_index = _record(root, "a")
    root.execute("DROP INDEX IF EXISTS query_log_keys")
    without = _record(root, "b")
    return [
        Case(case="a row of the query log without its index", value=without, unit="ms"),
        Case(case="a row of the query log", value=with_index, unit="ms", ratio=with_index / without),
    ]


def _record(root: psycopg.Connection, prefix: str) -> float:
    """Milliseconds of an insert, one of many; rows as they were logged."""
    rows = root.execute(
        "SELECT context_id FROM query_log ORDER BY context_id LIMIT %s", [RECORDED]
    ).fetchall()
    began = time.monotonic()
    with root.transaction():
        for (context_id,) in rows:
            root.execute(
                """
                INSERT INTO query_log (tenant_id, context_id, chat_id, profile, asked_at, query, shown, tokens, chars,
                    used_tokens, budget, latency_ms, degraded)
                SELECT tenant_id, %s || context_id, chat_id, profile, now(), query, shown, tokens, chars, used_tokens,
                    budget, latency_ms, degraded
                FROM query_log WHERE tenant_id = 'bench' AND context_id = %s
                """,
                [prefix, context_id],
            )
    return (time.monotonic() - began) * 1000 / len(rows)
