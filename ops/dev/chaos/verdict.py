"""Whether a deployment has caught up after a run, and what is wrong in its database."""

import contextlib
import json
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from redis.exceptions import RedisError

from ops.dev.chaos.traffic import Key
from ops.dev.deployment import OwnDeployment
from ops.dev.figures import count_rows, wait
from pipeline.ingest import sessionize
from pipeline.ingest.sessionize import SessionPolicy
from schemas.messages import MessageIn
from schemas.sessions import key_of
from workers.queues import ACCEPT

CHECKS: Mapping[str, str] = tomllib.loads((Path(__file__).parent / "checks.toml").read_text("utf-8"))
"""Statements by what they find: rows that must not be there."""
LOST, DOUBLED = "messages accepted and not stored", "messages stored twice"
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


@dataclass(frozen=True)
class Verdict:
    """The findings of a run, which passes if nothing is `wrong`."""

    # keys that are stored
    stored: Collection[Key]
    # the names of rows by what is wrong with them
    wrong: Mapping[str, Sequence[str]]
    # work given up, with a reason
    dead: int

    def count(self, *kinds: str) -> int:
        """Count the rows that are wrong in one of these ways."""
        return sum(len(self.wrong.get(kind, ())) for kind in kinds)

    @property
    def violations(self) -> list[str]:
        """A sentence for each way, with at most three rows."""
        return [
            f"{len(rows)} {what}: {'; '.join(rows[:3])}{', …' if len(rows) > 3 else ''}"
            for what, rows in self.wrong.items()
        ]


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
    stored: dict[Any, Any] = {row[:3]: row[3:] for row in connection.execute(_STORED)}
    sent = {key: (m.content, m.sent_at, key_of(m.session_key, m.thread)) for key, m in originals.items()}
    keys = {
        LOST: [key for key in accepted if key not in stored and key not in gone],
        "messages that are back": [key for key in gone if key in stored],
        "messages that nobody sent so": [key for key, row in stored.items() if row != sent.get(key)],
    }
    wrong = {what: list(map(" ".join, found)) for what, found in keys.items()}
    wrong |= {what: [str(row["what"]) for row in _rows(connection, check)] for what, check in CHECKS.items()}
    wrong["sessions that differ from the pure function"] = _differing(connection, rules)
    dead = len(_rows(connection, "SELECT 1 FROM jobs WHERE dead_at IS NOT NULL"))
    return Verdict(stored.keys(), {what: rows for what, rows in wrong.items() if rows}, dead)


def _differing(connection: psycopg.Connection, rules: SessionPolicy) -> list[str]:
    """Return sessions that are stored and should not be, or the other way round, according to `split`."""
    closes: dict[Key, list[datetime]] = {}
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


def _rows(connection: psycopg.Connection, statement: str) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement).fetchall()


_TO_DO = """
    SELECT (SELECT count(*) FROM jobs WHERE due_at IS NOT NULL OR claimed IS NOT NULL)
        + (SELECT count(*) FROM arrivals)
        + (SELECT count(*) FROM conversation_sessions WHERE status IN ('open', 'closed'))
"""
# This moment by the database's clock, and the number of the last claim before it.
_MARK = "SELECT now(), (SELECT last_value FROM job_token)"
# Not done since then.
_LEFT = (
    "SELECT count(*) FROM jobs WHERE (due_at IS NOT NULL OR claimed IS NOT NULL) AND pending_since < %(at)s"
)
_FREE = "due_at IS NOT NULL AND claimed IS NULL"
_WAITING = f"SELECT kind, count(*) FROM jobs WHERE {_FREE} GROUP BY kind"  # noqa: S608 - our own words
# Still held by the one who held it then, or of a kind of which nothing was claimed since: every claim has its own
# number, and where the row went when it was done, fewer wait.
_NOT_TAKEN_UP = f"""
    WITH before AS (
        SELECT kind, claimed, due_at FROM jobs WHERE (due_at IS NOT NULL OR claimed IS NOT NULL)
            AND pending_since < %(at)s AND coalesce(token, 0) <= %(token)s
    )
    SELECT count(*) FROM before WHERE claimed IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM jobs later WHERE later.kind = before.kind AND later.token > %(token)s)
        AND (SELECT count(*) FROM before other WHERE other.kind = before.kind AND {_FREE})
            >= coalesce((%(waiting)s::jsonb ->> kind)::bigint, 0)
"""  # noqa: S608


def payloads_waiting(deployment: OwnDeployment) -> int:
    """Count payload tasks that are queued, or taken and not acknowledged."""
    with deployment.redis_client() as client:
        taken = sum(ACCEPT.full_name.encode() in value for value in client.hvals("unacked"))
        return int(client.llen(ACCEPT.full_name)) + taken


def left_to_do(deployment: OwnDeployment) -> int:
    """Count due jobs, arrivals, sessions without an end, and payloads; -1 while the servers do not answer."""
    with contextlib.suppress(psycopg.OperationalError, RedisError), deployment.connect() as connection:
        return count_rows(connection, _TO_DO) + payloads_waiting(deployment)
    return -1


def wait_recovered(deployment: OwnDeployment, seconds: float) -> float | None:
    """Wait until all that is due now is taken up, and then until it is done; return the seconds until the former.

    Taken up: every kind that was due is being claimed again, and all that dead processes held, too. None if it is not
    taken up within `seconds`, or if none of it is done for as long.
    """
    with deployment.connect() as connection:
        ((at, token),) = connection.execute(_MARK).fetchall()
        waiting: dict[str, int] = dict(connection.execute(_WAITING).fetchall())
        mark = {"at": at, "token": token, "waiting": json.dumps(waiting)}
        taken = wait(
            lambda: not count_rows(connection, _NOT_TAKEN_UP, mark), seconds, meanwhile=deployment.tend
        )
        while left := count_rows(connection, _LEFT, mark):
            # how long all of it takes depends on how much was sent
            if wait(partial(_has_fallen, connection, mark, left), seconds, meanwhile=deployment.tend) is None:
                return None
    return taken


def _has_fallen(connection: psycopg.Connection, mark: dict[str, Any], left: int) -> bool:
    return count_rows(connection, _LEFT, mark) < left
