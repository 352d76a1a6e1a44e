"""Facts about a deployment, as the doctor collects them in one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.operations.status import JobCounts


@dataclass(frozen=True, kw_only=True)
class Login:
    """One of the URLs to Postgres, tried."""

    # the variable that names it
    setting: str
    # None: it could not be used, because of the problem
    role: str | None = None
    problem: str | None = None
    # row-level security does not bind it
    unbound: bool = False
    # a pooler is between
    pooled: bool = False


@dataclass(frozen=True, kw_only=True)
class Server:
    """Postgres and the tables in it."""

    version: int
    pgvector: str | None
    # its schema, if the role does not search it
    hidden_vectors: str | None = None
    migration: str | None
    needed: str
    vector_tables: bool = False
    # transactions that have waited for their client for long
    held_up: int = 0
    # a standby, or set to be so
    read_only: bool = False
    # what is not as the newest migration makes it
    differences: Sequence[str] = ()
    # statements fail by some of it
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
    # the embedder's space as stored; `other` where only the name fits
    embedder_status: str | None
    # of vectors: missing where searches compare many, and unread where none does
    missing_indexes: Sequence[str] = ()
    unread_indexes: Sequence[str] = ()
    # rows in retired spaces, by the space's name
    retired_vectors: Mapping[str, int] = field(default_factory=dict)
    # the model of the active space, and messages by the language of their chat
    model: str = ""
    languages: Mapping[str, int] = field(default_factory=dict)
    # why the model of the active space cannot be used; None: it can, or was not tried
    model_problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Broker:
    """Redis and the queues."""

    # why it cannot be used, as a sentence
    problem: str | None = None
    # None: Redis does not say
    appendonly: str | None = None
    policy: str | None = None
    used_bytes: int = 0
    # 0: no limit
    max_bytes: int = 0
    # how long the oldest payload task has waited
    accept_seconds: float = 0.0
    # waiting tasks by queue, of the queues that no worker serves
    unserved: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TenantData:
    """What is wrong with one tenant's data, on a sample of its chats where checking takes long."""

    tenant_id: str
    # chats whose sessions are not those of the pure function
    differing: Sequence[str] = ()
    # chats whose counters are not what is stored
    drifted: Sequence[str] = ()
    # rows that lack what a job makes, and have no job, by its kind
    without_job: Mapping[str, int] = field(default_factory=dict)
    # vectors whose row is gone or was merged into another
    orphans: int = 0
    # ids derived from a name alone, used in several chats and linked to nobody
    by_name: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All facts of one moment; what could not be looked at is None."""

    logins: Sequence[Login]
    server: Server | None = None
    spaces: Spaces | None = None
    broker: Broker | None = None
    # the database's clock minus this machine's
    skew_seconds: float | None = None
    jobs: Sequence[JobCounts] = ()
    # providers of language models that nobody calls at present
    stopped_providers: Sequence[str] = ()
    tenants: Sequence[TenantData] = ()
    # why the language model that is to summarize cannot be asked; None: it can, was not tried, or there is none
    summary_problem: str | None = None
