"""API keys over HTTP: what is asked for, shown once, and listed."""

from datetime import datetime
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from schemas.base import Closed, Frozen
from schemas.messages import NOT_BLANK, Id, Time, cleaned
from schemas.payloads import TenantId

Scope = Literal["ingest", "context", "read", "write", "erase", "operate"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
MAX_CHATS = 1000
MAX_KEEP_HOURS = 24 * 30


def _in_order(scopes: list[Scope]) -> list[Scope]:
    return [scope for scope in SCOPES if scope in scopes]


Label = Annotated[str, BeforeValidator(cleaned), Field(min_length=1, max_length=200), NOT_BLANK]


class KeyIn(Closed):
    """A new API key: the body of `POST /v1/keys`."""

    label: Label
    """What it is for, such as the bot's name."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=100), AfterValidator(_in_order)]
    """`ingest`: hand over messages, edits, deletions and members; `context`: ask for contexts; `read`: search, list and
    export; `write`: documents, memories, users and switches; `erase`: delete and forget; `operate`: keys and status."""
    chats: Annotated[list[Id], Field(min_length=1, max_length=MAX_CHATS)] | None = None
    """The only chats that it may name. Null: all of the tenant, and what belongs to none."""
    requests_per_second: Annotated[float, Field(ge=0.1, le=100_000)] | None = None
    """Null: no limit."""
    messages_per_day: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    """Messages handed over in a day (UTC), also those that were there already. Each edit, deletion, list of members,
    memory, document and answer counts as one. Null: no limit."""
    expires_at: Time | None = None
    """Null: it does not expire."""


class Rotation(Closed):
    """A new secret for a key: the body of `POST /v1/keys/{key_id}/rotate`."""

    keep_hours: Annotated[float, Field(ge=0, le=MAX_KEEP_HOURS)] = 24
    """How long the secret until now goes on working; an earlier one ends at once."""


class CurrentKey(Frozen):
    """The key of a request."""

    id: int | None
    """Null: the key of the settings (BACKSCROLL_API_KEY)."""
    tenant: TenantId
    label: str
    scopes: list[Scope]
    chats: list[str] | None
    """The only chats that it may name. Null: all."""
    requests_per_second: float | None = None
    messages_per_day: int | None = None
    expires_at: datetime | None = None
    """When this secret ends."""


class ListedKey(CurrentKey):
    """A key without its secret, which nobody can read."""

    id: int
    created_at: datetime
    former_until: datetime | None
    """Until when the secret before the last rotation works; null: it does not."""
    last_used_at: datetime | None
    """Within a minute. Null: never."""
    revoked_at: datetime | None


class NewKey(ListedKey):
    """A key with its secret, which is shown this once."""

    key: str
    """What callers send as `Authorization: Bearer …`."""


class KeyList(Frozen):
    """Keys, newest first."""

    keys: list[ListedKey]
