"""What is owed and what was counted: the ledger, backfills, daily figures."""

from sqlalchemy import REAL, BigInteger, Date, Double, Integer, PrimaryKeyConstraint, SmallInteger, Table
from sqlalchemy.dialects.postgresql import JSONB

from schemas.tables.columns import TIME, may, metadata, need, refers

# what is owed: see pipeline/jobs/runner.py
jobs = Table(
    "jobs",
    metadata,
    need("tenant_id"),
    need("kind"),
    need("key"),
    # counts the changes that ask for this work
    need("wanted", BigInteger),
    # what `wanted` was when somebody claimed the row; none: nobody has it
    may("claimed", BigInteger),
    need("attempts", Integer),
    # when it may be claimed, or when the claim's lease ends; none: nothing is owed
    may("due_at", TIME),
    # the newest claim's number; a result is saved only under it
    may("token", BigInteger),
    # since when it is owed without a break
    need("pending_since", TIME),
    may("last_error"),
    # the request that asked first
    may("trace_id"),
    # given up: a dead letter
    may("dead_at", TIME),
    # 0: live, 1: of an import or a backfill; the lower one is claimed first
    need("priority", SmallInteger),
    # whose turn it is within a tenant: a hash of the chat, 0 where there is none
    need("lane", Integer),
    PrimaryKeyConstraint("tenant_id", "kind", "key"),
    refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

backfills = Table(
    "backfills",
    metadata,
    need("tenant_id"),
    need("id", BigInteger),
    need("kind"),
    need("filter", JSONB),
    # the last key seen: progress only
    may("cursor", JSONB),
    need("batch_size", Integer),
    may("rate_per_second", REAL),
    may("total", BigInteger),
    need("seen", BigInteger),
    need("raised", BigInteger),
    need("state"),
    may("error"),
    need("created_at", TIME),
    need("updated_at", TIME),
    may("finished_at", TIME),
    PrimaryKeyConstraint("tenant_id", "id"),
    refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

daily_counters = Table(
    "daily_counters",
    metadata,
    need("tenant_id"),
    need("day", Date),
    need("name"),
    need("slot", SmallInteger),
    need("value", Double),
    PrimaryKeyConstraint("tenant_id", "day", "name", "slot"),
    refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)
