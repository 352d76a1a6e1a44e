"""One chaos run: traffic and faults side by side, then quiet, then the"""

import json
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from redis.exceptions import RedisError

from ops.dev import deployment as deployments
from ops.dev.chaos import faults, traffic
from ops.dev.chaos.faults import Fault, Faults
from ops.dev.chaos.traffic import FORGOTTEN_CHAT, FORGOTTEN_SENDER, Driver, Key
from ops.dev.deployment import API_TENANT, PAYLOAD_TENANT, OwnDeployment
from ops.dev.figures import Report, Say, count_rows, wait
from pipeline.erasure import forget
from pipeline.ingest import sessionize
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.jobs.failures import OUTAGE_SECONDS
from pipeline.operations import backfill
from pipeline.operations.backfill_kinds import Current
from pipeline.store.connections.database import Database
from schemas.backfills import BackfillRequest
from schemas.errors import Retryable
from schemas.messages import MessageIn
from schemas.people import Subject
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
    with suppress(psycopg.OperationalError, RedisError), deployment.connect() as connection:
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


# In which one fault's share of the messages is sent, or the fault comes anyway.
SHARE_SECONDS = 20.0
RECOVERY_SECONDS = 60.0
# Time for everything to be done after the last fault, and number of consecutive looks that must find it done.
QUIET_SECONDS, LOOKS = 180.0, 3
# Slow enough to go on through many faults.
BACKFILL = {"missing_only": False, "rate_per_second": 100.0}
ERRAND_SECONDS = 30.0
FORGOTTEN = {
    "user": Subject(kind="user", sender_id=FORGOTTEN_SENDER),
    "chat": Subject(kind="chat", chat_id=FORGOTTEN_CHAT),
}
ERRANDS = (
    (0.15, "backfill", API_TENANT, "embed"),
    (0.3, "forget", API_TENANT, "user"),
    (0.45, "backfill", PAYLOAD_TENANT, "sessionize"),
    (0.6, "forget", API_TENANT, "chat"),
    (0.75, "backfill", API_TENANT, "summarize"),
)
"""What an operator does meanwhile, each with its turn among the faults."""


def run(messages: int, kills: int, seed: int, lease_seconds: float, say: Say) -> Report:
    """Drive messages through `kills` kills and half as many other faults.

    To be called by the main thread. The logs are kept, in the folder that the outcome names, if something was found.
    """
    say("starting Postgres, Redis, the workers, the clock and the HTTP API")
    with deployments.running(lease_seconds=lease_seconds, own_disk=True) as deployment:
        # what cannot be made here, with the reason
        skipped = {} if deployment.without_disk is None else {"disk-full": deployment.without_disk}
        played = ChaosRun(deployment, traffic.make_traffic(messages, seed), seed, say)
        played.play(faults.draw(kills, seed, skipped))
        found = {"seed": seed, "messages": messages, "skipped": skipped} | played.judged()
        if played.violations:
            found["logs"] = deployment.keep_logs()
    found["violations"] = played.violations
    return Report(found=found, violations=played.violations, only_in_json=("recovered", "violations"))


class ChaosRun:
    """What happens to a deployment under faults."""

    def __init__(self, deployment: OwnDeployment, made: traffic.Traffic, seed: int, say: Say) -> None:
        self._on, self._made, self._say = deployment, made, say
        self._driver = Driver(deployment, made, seed)
        self._total = len(made.originals) + made.duplicates
        self._faults: Counter[str] = Counter()
        # for each recovery its `fault`, the seconds until all that was due was `taken` up, and the most that may be
        self._recovered: list[dict[str, Any]] = []
        self.violations: list[str] = []

    def play(self, drawn: list[Fault]) -> None:
        """Send the messages, make the faults, and wait until everything is done."""
        with self._driver:
            self._afflict(drawn)
            self._driver.allow(self._total)
            self._say("waiting until all is done")
            self._settle()

    def judged(self) -> dict[str, Any]:
        """Return the figures, from the database of the deployment, and note what is wrong."""
        made, driver = self._made, self._driver
        with self._on.connect() as connection:
            rules = SessionPolicy.of(self._on.settings)
            accepted = driver.accepted | driver.handed_over
            judged = judge(connection, rules, made.originals, accepted, made.gone)
        self.violations += judged.violations + driver.unexpected[:5]
        stored = sum(key[0] != PAYLOAD_TENANT for key in judged.stored)
        return {
            "kills": {kind: n for kind, n in self._faults.items() if kind in faults.KILLS},
            "faults": {kind: n for kind, n in self._faults.items() if kind in faults.OTHERS},
            # over HTTP: answered 202, or handed over to the client; of these stored, and deleted or forgotten since
            "accepted": len(accepted),
            "stored": stored,
            "gone": len(accepted.intersection(made.gone)),
            "lost": judged.count(LOST),
            "doubled": judged.count(DOUBLED),
            "stuck": judged.count(*STUCK),
            # work given up with a reason
            "dead": judged.dead,
            # of the accepted: through the client's buffer; and the answers on its way, by what they were turned into
            "by_client": len(driver.handed_over),
            "turned": dict(sorted(driver.turned.items())),
            # taken by Redis, and stored: the rest went with Redis' data, or with a process that had just taken it
            "payloads": {"queued": len(driver.queued), "stored": len(judged.stored) - stored},
            "seconds_to_recover": {
                "taken": max((recovered["taken"] for recovered in self._recovered), default=None)
            },
            "recovered": self._recovered,
        }

    def _bound(self, *, outage: bool) -> float:
        """Return the seconds within which all that is due must have been taken up: a lease and two sweeps.

        After an `outage` of the model provider the pause until it is asked again counts instead, if that is longer.
        """
        lease = self._on.settings.lease_seconds
        return (max(lease, OUTAGE_SECONDS) if outage else lease) + 2 * self._on.settings.sweep_seconds

    def _settle(self) -> None:
        """Wait until everything was sent and is done."""
        calm = 0

        def is_calm() -> bool:
            nonlocal calm
            self._on.tend()
            calm = calm + 1 if self._driver.is_done() and not left_to_do(self._on) else 0
            return calm == LOOKS

        if wait(is_calm, QUIET_SECONDS, pause=0.1) is None:
            left = left_to_do(self._on)
            self.violations.append(f"not quiet within {QUIET_SECONDS:.0f} s: {left} left to do")

    def _afflict(self, drawn: list[Fault]) -> None:
        """Make the faults while messages come in."""
        maker, driver = Faults(self._on), self._driver
        share = self._total / (len(drawn) + 1)
        errands = list(ERRANDS)
        outage = False
        for number, fault in enumerate(drawn):
            while errands and errands[0][0] * len(drawn) <= number:
                self._run_errand(*errands.pop(0)[1:])
            due = int(share * (number + 0.5))
            driver.allow(due)
            wait(lambda due=due: driver.sent >= due, SHARE_SECONDS, pause=0.02)  # type: ignore[misc]
            self._say(f"{number + 1}/{len(drawn)} {fault.kind}, {driver.sent} of {self._total} messages sent")
            # the other half comes while it happens
            driver.allow(int(share * (number + 1)))
            maker.make(fault)
            self._faults[fault.kind] += 1
            self._on.tend()
            outage |= fault.kind.startswith("provider-")
            if fault.alone or number == len(drawn) - 1:
                self._recover(fault.kind, self._bound(outage=outage))
                outage = False
        # where there were few faults some have not had their turn
        for _, *errand in errands:
            self._run_errand(*errand)

    def _recover(self, kind: str, bound: float) -> None:
        """Wait until processes are up and what is due was taken up and done; note how long it took."""
        up = wait(self._on.is_ready, deployments.READY_SECONDS, meanwhile=self._on.tend)
        taken = wait_recovered(self._on, RECOVERY_SECONDS)
        if up is None or taken is None:
            self.violations.append(f"nothing recovered for {RECOVERY_SECONDS:.0f} s after {kind}")
            return
        self._recovered.append({"fault": kind, "taken": round(taken, 2), "bound": bound})
        if taken > bound:
            self.violations.append(
                f"what {kind} interrupted was taken up after {taken:.2f} s, not {bound:.0f} s"
            )

    def _run_errand(self, act: str, tenant: str, what: str) -> None:
        """Try to start what an operator would until it is taken."""

        def is_taken() -> bool:
            with suppress(Retryable), closing(Database.from_settings(self._on.settings)) as database:
                if act == "forget":
                    forget.start(database, tenant, FORGOTTEN[what])
                else:
                    request = BackfillRequest.model_validate({"kind": what, **BACKFILL})
                    backfill.start(database, tenant, request, Current.of(self._on.settings))
                return True
            return False

        if wait(is_taken, ERRAND_SECONDS, pause=0.2) is None:
            raise TimeoutError("an operator's errand was not taken")
