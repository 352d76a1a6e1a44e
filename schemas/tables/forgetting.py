"""What was forgotten: keys, tombstones and receipts."""

from sqlalchemy import BigInteger, LargeBinary, PrimaryKeyConstraint, Table
from sqlalchemy.dialects.postgresql import JSONB

from schemas.tables.columns import TIME, may, metadata, need, refers

# what a tenant's tombstones are hashed with
tenant_keys = Table(
    "tenant_keys",
    metadata,
    need("tenant_id"),
    need("key", LargeBinary),
    PrimaryKeyConstraint("tenant_id"),
    refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

# what must not come back: see pipeline/people/suppression.py
tombstones = Table(
    "tombstones",
    metadata,
    need("tenant_id"),
    # keyed, of the kind and the name: who reads the table learns neither
    need("hash", LargeBinary),
    need("kind"),
    # stops what was sent until then; none: for good
    may("until", TIME),
    need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id", "hash"),
    refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

# what was forgotten, and how much of it there was
forget_receipts = Table(
    "forget_receipts",
    metadata,
    need("tenant_id"),
    need("id", BigInteger),
    need("kind"),
    # what is to be forgotten, by name; gone when it is
    may("subject", JSONB),
    need("subject_hash", LargeBinary),
    # what was sent or came until then
    need("until", TIME),
    need("counts", JSONB),
    need("created_at", TIME),
    may("finished_at", TIME),
    PrimaryKeyConstraint("tenant_id", "id"),
    refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)
