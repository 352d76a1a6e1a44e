"""What is wrong in a database after a run, found by SQL."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

import psycopg
from psycopg.rows import dict_row

from pipeline.ingest import sessionize
from pipeline.ingest.policy import SessionPolicy
from schemas.messages import MessageIn
from schemas.sessions import key_of

Key = tuple[str, str, str]
"""(tenant, chat, external id)"""

# Each finds rows that must not be there; `what` names one of them.
CHECKS = {
    "jobs still due or leased": """
        SELECT tenant_id || ' ' || kind || ' ' || key || ' attempts ' || attempts || ' '
            || coalesce(last_error, '') AS what
        FROM jobs WHERE due_at IS NOT NULL OR claimed IS NOT NULL
    """,
    "arrivals not placed": "SELECT chat_id || ' ' || message_id AS what FROM arrivals",
    "placing given up": "SELECT key || ': ' || coalesce(last_error, '') AS what FROM jobs "
    "WHERE dead_at IS NOT NULL AND kind = 'ingest'",
    "dead without a reason": "SELECT kind || ' ' || key AS what FROM jobs WHERE dead_at IS NOT NULL "
    "AND coalesce(last_error, '') = ''",
    "messages stored twice": """
        SELECT chat_id || ' ' || external_id AS what FROM messages
        GROUP BY tenant_id, chat_id, external_id HAVING count(*) > 1
    """,
    "sessions without an end": """
        SELECT s.id || ' ' || s.status AS what FROM conversation_sessions s
        WHERE s.status = 'open' OR s.status = 'closed' AND NOT EXISTS (SELECT 1 FROM jobs w
            WHERE w.tenant_id = s.tenant_id AND w.kind = 'summarize' AND w.key = 'session:' || s.id
                AND w.dead_at IS NOT NULL)
    """,
    "summaries of an earlier revision": """
        SELECT id || ' of ' || coalesce(summary_revision, 0) || ' at ' || revision AS what
        FROM conversation_sessions WHERE status = 'summarized' AND summary_revision IS DISTINCT FROM revision
    """,
    "failed without a reason": "SELECT id::text AS what FROM conversation_sessions WHERE status = 'failed' "
    "AND coalesce(failure_reason, '') = ''",
    "messages without exactly one vector": """
        SELECT m.chat_id || ' ' || m.external_id AS what FROM messages m
        CROSS JOIN embedding_spaces space WHERE space.status = 'active' AND m.content <> ''
            AND (SELECT count(*) FROM message_vectors v WHERE v.tenant_id = m.tenant_id AND v.message_id = m.id
                AND v.space_id = space.id AND v.chunk_index = 0) <> 1
            AND NOT EXISTS (SELECT 1 FROM jobs w WHERE w.tenant_id = m.tenant_id AND w.kind = 'embed'
                AND w.key = 'message:' || m.id AND w.dead_at IS NOT NULL)
    """,
    "sessions without exactly one vector": """
        SELECT s.id::text AS what FROM conversation_sessions s
        CROSS JOIN embedding_spaces space WHERE space.status = 'active' AND s.status IN ('summarized', 'merged')
            AND (SELECT count(*) FROM session_vectors v WHERE v.tenant_id = s.tenant_id AND v.session_id = s.id
                AND v.space_id = space.id AND v.chunk_index = 0) <> CASE s.status WHEN 'merged' THEN 0 ELSE 1 END
            AND NOT EXISTS (SELECT 1 FROM jobs w WHERE w.tenant_id = s.tenant_id AND w.kind = 'embed'
                AND w.key = 'session:' || s.id AND w.dead_at IS NOT NULL)
    """,
    "vectors that are none": """
        SELECT v.id || ' has ' || vector_dims(v.embedding) || ' dimensions and length '
            || l2_norm(v.embedding) AS what
        FROM (SELECT 'message ' || message_id AS id, space_id, embedding FROM message_vectors
            UNION ALL SELECT 'session ' || session_id, space_id, embedding FROM session_vectors) v
        JOIN embedding_spaces space ON space.id = v.space_id
        WHERE vector_dims(v.embedding) <> space.dimensions OR abs(l2_norm(v.embedding) - 1) > 0.01
    """,
    "chats whose counters drifted": """
        SELECT c.chat_id || ' counts ' || c.message_count || ' and holds ' || count(m.id) AS what
        FROM chats c LEFT JOIN messages m USING (tenant_id, chat_id)
        GROUP BY c.tenant_id, c.chat_id
        HAVING c.message_count <> count(m.id) OR c.lexeme_count <> coalesce(sum(length(m.tsv)), 0)
    """,
    "tenants whose count of accepted messages drifted": """
        SELECT t.tenant_id || ' counts ' || counted || ' and holds ' || held AS what FROM (SELECT tenant_id,
            (SELECT coalesce(sum(value), 0) FROM daily_counters d
                WHERE d.tenant_id = tenants.tenant_id AND d.name = 'messages_accepted') AS counted,
            (SELECT count(*) FROM messages m WHERE m.tenant_id = tenants.tenant_id) AS held
            FROM tenants) t WHERE counted < held OR counted > held AND NOT EXISTS (
                SELECT 1 FROM suppression_list s WHERE s.tenant_id = t.tenant_id)
    """,
    "sessions learned from at an earlier revision": """
        SELECT s.id || ' of ' || coalesce(s.facts_revision, 0) || ' at ' || s.revision AS what
        FROM conversation_sessions s
        WHERE s.status IN ('summarized', 'skipped') AND s.facts_revision IS DISTINCT FROM s.revision
            AND NOT EXISTS (SELECT 1 FROM jobs w WHERE w.tenant_id = s.tenant_id AND w.kind = 'extract'
                AND w.key = 'session:' || s.id AND w.dead_at IS NOT NULL)
    """,
    "learned memories without any evidence": """
        SELECT m.id::text AS what FROM memories m WHERE m.learned_by <> '' AND NOT EXISTS (
            SELECT 1 FROM memory_evidence e WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.id)
    """,
    "pieces of evidence of a message that is gone": """
        SELECT e.memory_id || ' of message ' || e.message_id AS what FROM memory_evidence e
        WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.tenant_id = e.tenant_id AND m.id = e.message_id)
    """,
    # a backfill may fail where a provider's rubbish has made dead letters
    "backfills not completed": """
        SELECT id || ' is ' || state || coalesce(': ' || error, '') AS what FROM backfills b
        WHERE state <> 'completed' AND NOT (state = 'failed' AND EXISTS (SELECT 1 FROM jobs w
            WHERE w.tenant_id = b.tenant_id AND w.kind = b.kind AND w.dead_at IS NOT NULL))
    """,
    "forgetting not finished, or something found again": """
        SELECT id || ' ' || kind || ' ' || counts::text AS what FROM forget_receipts
        WHERE finished_at IS NULL OR EXISTS (SELECT 1 FROM jsonb_each_text(counts::jsonb) c
            WHERE c.key LIKE 'found_again%' AND c.value <> '0')
    """,
}
DOUBLED = "messages stored twice"
STUCK = ("jobs still due or leased", "arrivals not placed", "sessions without an end")
_STORED = "SELECT tenant_id, chat_id, external_id, content, sent_at, session_key FROM messages"
_TALK = """
    SELECT tenant_id, chat_id, session_key, sent_at, position, external_id, token_count,
        coalesce(nullif(sender_name, ''), sender_id) AS speaker
    FROM messages ORDER BY tenant_id, chat_id, session_key
"""
_SESSIONS = """
    SELECT tenant_id, chat_id, session_key, started_at, ended_at, message_count, token_count, participants
    FROM conversation_sessions WHERE status <> 'merged'
"""


@dataclass(kw_only=True)
class Verdict:
    """What was found; without violations everything is as it must be."""

    # keys that are stored
    stored: Collection[Key]
    # accepted and not there
    lost: int = 0
    # stored or summarized more than once
    doubled: int = 0
    # due, leased or unplaced for good
    stuck: int = 0
    # rows of work given up, with a reason
    dead: int = 0
    # a sentence each, at most a few of a kind
    violations: list[str] = field(default_factory=list)


def judge(
    connection: psycopg.Connection,
    rules: SessionPolicy,
    originals: Mapping[Key, MessageIn],
    accepted: Collection[Key],
    gone: Collection[Key] = (),
) -> Verdict:
    """Judge all tenants of a database, read by a role that sees them all.

    `originals`: what was sent; `accepted`: what must be there, but for what is `gone`: deleted or forgotten.
    """
    rows = _rows(connection, _STORED)
    stored = {(row["tenant_id"], row["chat_id"], row["external_id"]): row for row in rows}
    verdict = Verdict(stored=stored.keys())
    lost = [key for key in accepted if key not in stored and key not in gone]
    verdict.lost = len(lost)
    _note(verdict, "messages accepted and not stored", (" ".join(key) for key in lost))
    _note(verdict, "messages that are back", [" ".join(key) for key in gone if key in stored])
    changed = [" ".join(key) for key, row in stored.items() if not _is_original(row, originals.get(key))]
    _note(verdict, "messages that nobody sent so", changed)
    for what, statement in CHECKS.items():
        wrong = [str(row["what"]) for row in _rows(connection, statement)]
        _note(verdict, what, wrong)
        verdict.doubled += len(wrong) if what == DOUBLED else 0
        verdict.stuck += len(wrong) if what in STUCK else 0
    _note(verdict, "sessions that differ from the pure function", _differing(connection, rules))
    verdict.dead = len(_rows(connection, "SELECT 1 FROM jobs WHERE dead_at IS NOT NULL"))
    return verdict


def _is_original(row: Mapping[str, Any], message: MessageIn | None) -> bool:
    return message is not None and (row["content"], row["sent_at"], row["session_key"]) == (
        message.content,
        message.sent_at,
        key_of(message.session_key, message.thread),
    )


def _differing(connection: psycopg.Connection, rules: SessionPolicy) -> list[str]:
    """Return sessions that are stored and should not be, or the other way round, according to `split`."""
    closes: dict[tuple[str, str, str], list[datetime]] = {}
    for row in _rows(connection, "SELECT * FROM session_closes ORDER BY closed_at"):
        closes.setdefault((row["tenant_id"], row["chat_id"], row["session_key"]), []).append(row["closed_at"])
    expected = set(_expected(_rows(connection, _TALK), closes, rules))
    stored = {
        tuple(tuple(value) if isinstance(value, list) else value for value in row.values())
        for row in _rows(connection, _SESSIONS)
    }
    missing = [f"not stored: {session}" for session in sorted(expected - stored)]
    return missing + [f"stored: {session}" for session in sorted(stored - expected)]


def _expected(
    talk: list[dict[str, Any]], closes: Mapping[Key, list[datetime]], rules: SessionPolicy
) -> Iterator[tuple[Any, ...]]:
    for key, group in groupby(talk, lambda row: (row["tenant_id"], row["chat_id"], row["session_key"])):
        rows = list(group)
        times = [row["sent_at"] for row in rows]
        for part in sessionize.split(times, rules.gap_of(key[2]), closes.get(key, ())):
            inside = [row for row in rows if part.started_at <= row["sent_at"] <= part.ended_at]
            speakers = tuple(sorted({row["speaker"] for row in inside}))
            tokens = sum(row["token_count"] for row in inside)
            yield (*key, part.started_at, part.ended_at, part.count, tokens, speakers)


def _note(verdict: Verdict, what: str, wrong: Collection[str] | Iterator[str]) -> None:
    named = list(wrong)
    if named:
        more = ", …" if len(named) > 3 else ""
        verdict.violations.append(f"{len(named)} {what}: {'; '.join(named[:3])}{more}")


def _rows(connection: psycopg.Connection, statement: str) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement).fetchall()
