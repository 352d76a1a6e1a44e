"""The doctor's facts about a deployment, collected in one moment, and its findings: what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pipeline.operations.status import JobCounts


@dataclass(frozen=True, kw_only=True)
class Login:
    """One of the URLs to Postgres, after trying it."""

    # the variable that names it
    setting: str
    # None: the URL could not be used, for the reason in `problem`
    role: str | None = None
    problem: str | None = None
    # whether row-level security does not bind it
    unbound: bool = False
    # whether a pooler is in between
    pooled: bool = False


@dataclass(frozen=True, kw_only=True)
class Server:
    """Postgres and the tables in it."""

    version: int
    # such as 18.1
    release: str = ""
    pgvector: str | None
    # its schema, if the role does not search it
    hidden_vectors: str | None = None
    migration: str | None
    needed: str
    vector_tables: bool = False
    # transactions that have waited for their client for long
    held_up: int = 0
    # connections that the running processes may open, and that Postgres leaves them; 0: not known, behind a pooler
    may_open: int = 0
    allowed: int = 0
    # a standby, or set to read-only
    read_only: bool = False
    # deviations from the schema of the newest migration
    differences: Sequence[str] = ()
    # whether some of them make statements fail
    is_lacking: bool = False
    # tables with a tenant whose row-level security is off, or does not bind their owner
    unprotected: Sequence[str] = ()
    # left by an interrupted build
    invalid_indexes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Spaces:
    """The embedding spaces, and the embedder that the settings name."""

    active: str | None
    embedder: str
    # the status of the embedder's space; `other` if only the name matches
    embedder_status: str | None
    # vector indexes: missing where searches compare many vectors, unread where none does
    missing_indexes: Sequence[str] = ()
    unread_indexes: Sequence[str] = ()
    # rows in retired spaces, by the space's name
    retired_vectors: Mapping[str, int] = field(default_factory=dict)
    # the model of the active space, and messages by the language of their chat
    model: str = ""
    languages: Mapping[str, int] = field(default_factory=dict)
    # whether the cosines of that space were measured, without which they say nothing about relevance
    is_calibrated: bool = True
    # why the model of the active space cannot be used; None: it can, or was not tried
    model_problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Broker:
    """Redis and the queues."""

    # why it cannot be used, as a sentence
    problem: str | None = None
    # such as `Redis 7.4.11`; like what follows, None if it does not say
    release: str | None = None
    appendonly: str | None = None
    policy: str | None = None
    used_bytes: int = 0
    # 0: no limit
    max_bytes: int = 0
    # how long the oldest payload task has waited
    accept_seconds: float = 0.0
    # waiting tasks by queue, of the queues that no worker serves
    unserved: Mapping[str, int] = field(default_factory=dict)
    # tasks by the name of a list that no worker reads
    unread: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TenantData:
    """Problems in one tenant's data, in a sample of its chats where checking takes long."""

    tenant_id: str
    # chats whose sessions differ from those of `sessionize.split`
    differing: Sequence[str] = ()
    # chats whose counters differ from the stored messages
    drifted: Sequence[str] = ()
    # rows that lack derived data and have no job for it, by the job's kind
    without_job: Mapping[str, int] = field(default_factory=dict)
    # vectors whose row is gone or was merged into another
    orphans: int = 0
    # of yesterday and today, by platform and reason
    left_out: Mapping[tuple[str, str], int] = field(default_factory=dict)
    # texts with credentials that would be masked today, among the oldest of each kind
    unmasked: int = 0


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All facts of one moment; those that could not be collected are None."""

    logins: Sequence[Login]
    server: Server | None = None
    # why the standby of BACKSCROLL_DATABASE_READ_URL is not used; None: it is, or there is none
    replica_problem: str | None = None
    spaces: Spaces | None = None
    broker: Broker | None = None
    # the database's clock minus this machine's
    skew_seconds: float | None = None
    jobs: Sequence[JobCounts] = ()
    # paused providers of language models
    stopped_providers: Sequence[str] = ()
    tenants: Sequence[TenantData] = ()
    # why the language model for summaries cannot be used; None: it can, was not tried, or there is none
    summary_problem: str | None = None


Severity = Literal["warning", "error"]

GUIDE = "ops/guide/operating.md"
DEFAULT_PAGE = f"{GUIDE}#the-doctor"
# Where to read on, by check: a page of the HTTP API's inspector, or of the guide.
PAGES = {
    "late": "/inspect/jobs",
    "dead": "/inspect/jobs",
    "left-out": "/inspect/jobs",
    "missing": "/inspect/backfills",
    "sessions": "/inspect/chats",
    "counters": "/inspect/chats",
    "languages": "/inspect/spaces",
    "calibration": "/inspect/spaces",
    "retired": "/inspect/spaces",
    "space": "/inspect/spaces",
    "provider": "/inspect/cost",
    "names": "/inspect/people",
    "summaries": f"{GUIDE}#summaries-by-a-language-model",
    "model": f"{GUIDE}#embedding-models",
    "migration": f"{GUIDE}#upgrades",
    "worker": f"{GUIDE}#queues-and-scaling",
    "unread": f"{GUIDE}#dead-letters",
    "accept": f"{GUIDE}#queues-and-scaling",
    "clock": f"{GUIDE}#queues-and-scaling",
    "held-up": f"{GUIDE}#when-something-is-down",
    "connections": "ops/guide/large.md#connections",
    "replica": "ops/guide/large.md#a-read-replica",
    "read-only": f"{GUIDE}#when-something-is-down",
} | dict.fromkeys(
    ("connection", "role", "pooler", "version", "isolation", "extension", "redis"), f"{GUIDE}#deploying"
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    severity: Severity
    check: str
    what: str
    why: str
    remedy: str
    # whether `--fix` repairs it
    fixable: bool = False
    # where to read on
    page: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "page", PAGES.get(self.check, DEFAULT_PAGE))


error = partial(Finding, "error")
warning = partial(Finding, "warning")


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity; None if all is well.

    >>> worst([])
    """
    severities = {finding.severity for finding in findings}
    return "error" if "error" in severities else "warning" if severities else None
