"""What is wrong in a database after a run, found by SQL."""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from pipeline.ingest import sessionize
from pipeline.ingest.policy import SessionPolicy
from schemas.messages import MessageIn
from schemas.sessions import key_of

Key = tuple[str, str, str]
"""(tenant, chat, external id)"""

CHECKS: Mapping[str, str] = tomllib.loads((Path(__file__).parent / "checks.toml").read_text("utf-8"))
"""Statements by what they find: rows that must not be there."""
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
