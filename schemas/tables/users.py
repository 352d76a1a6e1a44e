"""People, and the senders that are linked to them."""

from sqlalchemy import PrimaryKeyConstraint, Table

from schemas.tables.columns import TIME, metadata, need, refers

# people; a sender that is linked to nobody is a user of its own, by its own id
users = Table(
    "users",
    metadata,
    need("tenant_id"),
    need("user_id"),
    need("created_at", TIME),
    PrimaryKeyConstraint("tenant_id", "user_id"),
    refers("tenant_id", "tenants(tenant_id)", ondelete="CASCADE"),
)

# senders, and users that were merged into others; a `user_id` is never linked itself
user_senders = Table(
    "user_senders",
    metadata,
    need("tenant_id"),
    need("sender_id"),
    need("user_id"),
    need("linked_at", TIME),
    PrimaryKeyConstraint("tenant_id", "sender_id"),
    refers("tenant_id user_id", "users(tenant_id user_id)", ondelete="CASCADE"),
)
