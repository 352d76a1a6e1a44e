"""Facts about a deployment, as the doctor collects them in one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All facts of one moment; those that could not be collected are None."""

    logins: Sequence[Login]
    server: Server | None = None
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
