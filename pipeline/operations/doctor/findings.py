"""Diagnose facts: what is wrong, why it matters and what to do."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from pipeline.clients.model_languages import knows
from pipeline.operations.doctor.facts import Broker, Facts, LateJobs, Login, Server, Spaces, TenantData
from schemas.languages import spoken

Severity = Literal["warning", "error"]

NAMES_SHOWN = 3
SKEW_WARNING_SECONDS = 2.0
SKEW_ERROR_SECONDS = 60.0
OLDEST_POSTGRES = 15
# Of the messages whose language is known; fewer are found by their words.
FOREIGN_SHARE, FOREIGN_MESSAGES = 0.1, 100
# Below it a search inside a chat may find too little (iterative scans came with 0.8).
OLDEST_PGVECTOR = (0, 8)
FULL_SHARE = 0.9
# The sweep wakes workers every few seconds: a job due for so long has no worker.
LATE_WARNING_SECONDS = 300.0
LATE_ERROR_SECONDS = 3600.0


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    severity: Severity
    check: str
    what: str
    why: str
    remedy: str
    # whether `--fix` mends it
    fixable: bool = False


error = partial(Finding, "error")
warning = partial(Finding, "warning")


def diagnose(facts: Facts) -> list[Finding]:
    """Return all findings, errors first."""
    found = [
        *_logins(facts.logins),
        *(_server(facts.server) if facts.server else ()),
        *(_spaces(facts.spaces) if facts.spaces else ()),
        *(_languages(facts.spaces) if facts.spaces else ()),
        *(_broker(facts.broker) if facts.broker else ()),
        *_summaries(facts.summary_problem),
        *_clock(facts.skew_seconds or 0.0),
        *(finding for jobs in facts.jobs for finding in _jobs(jobs)),
        *_providers(facts.stopped_providers),
        *(finding for tenant in facts.tenants for finding in _tenant(tenant)),
    ]
    return sorted(found, key=lambda finding: finding.severity != "error")


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity; None if all is well.

    >>> worst([])
    """
    severities = {finding.severity for finding in findings}
    return "error" if "error" in severities else "warning" if severities else None


def not_running(problem: str) -> Finding:
    """Report that neither configured nor embedded servers run."""
    return error(
        "connection",
        problem.partition(": ")[0],
        "Nothing is accepted, done or found, and there is nothing to look at.",
        "Start it with `backscroll up`, name its folder by --data-dir, or set BACKSCROLL_DATABASE_URL and "
        "BACKSCROLL_REDIS_URL to servers of your own.",
    )


def _logins(logins: Sequence[Login]) -> Iterator[Finding]:
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
    if not any(login.setting == "BACKSCROLL_MAINTENANCE_DATABASE_URL" for login in logins):
        yield warning(
            "role",
            "BACKSCROLL_MAINTENANCE_DATABASE_URL is not set",
            "Workers and beat claim jobs with it; here only one tenant was looked at.",
            "Set it to the URL that `backscroll db roles` printed.",
        )


def _server(server: Server) -> Iterator[Finding]:
    if server.version < OLDEST_POSTGRES:
        why = f"Backscroll needs {OLDEST_POSTGRES} or later."
        yield error("version", f"Postgres is of version {server.version}", why, "Upgrade Postgres.")
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
    if server.unprotected:
        yield error(
            "isolation",
            f"row-level security is not forced on {', '.join(server.unprotected)}",
            "One tenant may see another's rows.",
            "As owner: ALTER TABLE … ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY.",
        )
    no_vectors = "Search goes only by keywords, and embedding stays pending."
    if server.pgvector is None:
        remedy = "As superuser: CREATE EXTENSION vector; then `backscroll db upgrade`."
        yield warning("extension", "the extension pgvector is not in this database", no_vectors, remedy)
    elif tuple(int(part) for part in server.pgvector.split(".")[:2]) < OLDEST_PGVECTOR:
        yield warning(
            "extension",
            f"pgvector is of version {server.pgvector}",
            "Before 0.8 a search inside a large chat finds too little.",
            "Install a newer pgvector, and ALTER EXTENSION vector UPDATE.",
        )
    if server.pgvector is not None and not server.vector_tables:
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


def _spaces(spaces: Spaces) -> Iterator[Finding]:
    if spaces.active is None:
        why = "Nothing is embedded or found by meaning."
        remedy = "Run `backscroll db upgrade` with the settings of the embedder."
        yield error("space", "no embedding space is active", why, remedy)
    elif spaces.embedder_status == "other":
        yield error(
            "space",
            f"the settings embed into a space {spaces.embedder} that is not the one of the database",
            "Its model was made with other prefixes: new messages are not embedded, questions find nothing by meaning.",
            "Use the model as it was, or make a space of another name by `backscroll spaces add`.",
        )
    elif spaces.embedder_status != "building" and spaces.embedder != spaces.active:
        yield warning(
            "space",
            f"the settings name the embedder {spaces.embedder}, and searches compare in {spaces.active}",
            "Messages and questions are embedded by the model of the active space; the settings change nothing.",
            "Set BACKSCROLL_EMBEDDING_PROVIDER and _MODEL to that, or change the model by `backscroll spaces add`.",
        )
    if spaces.model_problem:
        yield error(
            "model",
            f"the embedding model cannot be used: {spaces.model_problem}",
            "Messages wait for their vectors, and search goes by keywords.",
            "Check that the model is installed or its provider answers, and that its settings are right; one "
            "of the hub is fetched at its first use, not by the doctor.",
        )
    fix = "Run `backscroll doctor --fix` with BACKSCROLL_OWNER_DATABASE_URL set: "
    if spaces.missing_indexes:
        yield warning(
            "index",
            f"a chat is large enough for an index of vectors: {', '.join(spaces.missing_indexes)} is missing",
            "Searches in this chat compare with all of its vectors, which takes longer the more it has.",
            fix + "it is built beside running work.",
            fixable=True,
        )
    if spaces.unread_indexes:
        yield warning(
            "index",
            f"no chat is large enough for the index {', '.join(spaces.unread_indexes)}",
            "It slows down embedding, and no search reads it.",
            fix + "it is dropped.",
            fixable=True,
        )
    for name, count in spaces.retired_vectors.items():
        if count:
            yield warning(
                "retired",
                f"the retired space {name} has {count:,} vectors",
                "They take room, and no search reads them.",
                f"Run `backscroll spaces retire {name}`, which deletes them.",
            )


def _languages(spaces: Spaces) -> Iterator[Finding]:
    known = {
        language: count
        for language, count in spaces.languages.items()
        if knows(spaces.model, language) is not None
    }
    foreign = Counter({each: count for each, count in known.items() if not knows(spaces.model, each)})
    if foreign.total() >= max(FOREIGN_MESSAGES, FOREIGN_SHARE * sum(known.values())):
        share = foreign.total() / sum(known.values())
        named = [spoken(language) for language, _ in foreign.most_common(NAMES_SHOWN)]
        yield warning(
            "languages",
            f"{share:.0%} of the messages are in chats in {'; '.join(named)}, which {spaces.model} does not know",
            "They are found by their words, and hardly by their meaning.",
            "Change to a model of many languages, as in `backscroll spaces add ollama/bge-m3`; if a chat is in another "
            "language than that, `backscroll chats language CHAT LANGUAGE` says so.",
        )


def _summaries(problem: str | None) -> Iterator[Finding]:
    if problem is not None:
        yield error(
            "summaries",
            f"the language model that is to summarize cannot be asked: {problem}",
            "Sessions wait for it, and are found by their messages only.",
            "Correct BACKSCROLL_SESSION_SUMMARY_MODEL and BACKSCROLL_OPENAI_…, or set the model to extractive-v1.",
        )


def _broker(broker: Broker) -> Iterator[Finding]:
    if broker.problem is not None:
        yield error(
            "redis",
            f"Redis does not answer: {broker.problem}",
            "Messages are accepted over HTTP, and nothing is made of them until it is back.",
            "Start Redis, or correct BACKSCROLL_REDIS_URL.",
        )
        return
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
    for queue, tasks in broker.unserved.items():
        yield Finding(
            "error" if tasks else "warning",
            "worker",
            f"no worker serves the queue {queue}, where {tasks:,} tasks wait",
            "Its jobs are not done.",
            f"Start one: `backscroll worker {queue}`. One that is busy with a long task may not have answered.",
        )


def _clock(skew: float) -> Iterator[Finding]:
    """Yield a finding if the database's clock minus this machine's, in seconds, is large."""
    if abs(skew) > SKEW_WARNING_SECONDS:
        yield Finding(
            "error" if abs(skew) > SKEW_ERROR_SECONDS else "warning",
            "clock",
            f"this machine's clock is {abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} the database's",
            "Times of senders more than 5 minutes ahead are not believed, and sessions are cut by them.",
            "Let both keep time by NTP.",
        )


def _jobs(jobs: LateJobs) -> Iterator[Finding]:
    if jobs.late_seconds > LATE_WARNING_SECONDS:
        yield Finding(
            "error" if jobs.late_seconds > LATE_ERROR_SECONDS else "warning",
            "late",
            f"{jobs.late:,} jobs of {jobs.kind} are due, the oldest for {jobs.late_seconds / 60:,.0f} min",
            "No worker does them, or not fast enough: memory lags behind the chats.",
            "Check that `backscroll beat` and the queue's workers run, and their logs; add workers.",
        )
    if jobs.dead:
        yield warning(
            "dead",
            f"{jobs.dead:,} jobs of {jobs.kind} were given up",
            "What they should have made is missing from memory.",
            f"See why: `backscroll jobs list --kind {jobs.kind}`; then `jobs replay` or `jobs drop`.",
        )


def _providers(stopped: Sequence[str]) -> Iterator[Finding]:
    for provider in stopped:
        yield warning(
            "provider",
            f"{provider} did not answer the last calls to a language model",
            "No worker calls it until one call has tried whether it does again; what needs it waits.",
            "See `backscroll status` for when that is, and the provider's own status and limits.",
        )


def _tenant(tenant: TenantData) -> Iterator[Finding]:
    of, fix = f"of tenant {tenant.tenant_id}", "Run `backscroll doctor --fix`"
    fixable_error = partial(Finding, "error", fixable=True)
    if tenant.differing:
        yield fixable_error(
            "sessions",
            f"the sessions of {len(tenant.differing)} chats {of} differ from what their messages say"
            f" ({_some(tenant.differing)})",
            "Messages belong to no session or to a wrong one, and summaries miss them.",
            f"{fix}, or `backscroll backfills start sessionize --chat …`.",
        )
    if tenant.drifted:
        what = f"the counters of {len(tenant.drifted)} chats {of} have drifted ({_some(tenant.drifted)})"
        yield warning("counters", what, "Keyword ranking weighs words by them.", f"{fix}.", fixable=True)
    for kind, count in tenant.without_job.items():
        if count:
            what = f"{count:,} rows {of} lack what {kind} makes, and have no job"
            yield fixable_error("missing", what, "They would never be in memory.", f"{fix}.")
    if tenant.orphans:
        what = f"{tenant.orphans:,} vectors {of} have no row, or one that was merged into another"
        yield fixable_error("orphans", what, "Deleted text could still be found.", f"{fix}.")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (" …" if len(names) > NAMES_SHOWN else "")
