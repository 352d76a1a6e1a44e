"""What connects bots and platforms: API keys, sources, and what became of the events that came in."""

from datetime import datetime
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from schemas.base import Closed, Frozen
from schemas.messages import NOT_BLANK, Id, Name, Time, cleaned
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


SourcePlatform = Literal["telegram", "slack", "discord", "whatsapp", "matrix", "line", "standard"]


class SourceIn(Closed):
    """A new source: the body of `POST /v1/sources`."""

    platform: SourcePlatform
    """Baileys proves nothing: its events need an API key."""
    label: Annotated[Name, Field(max_length=100)] = ""
    """What it is for, in lists."""
    secret: Annotated[str, BeforeValidator(cleaned), Field(min_length=16, max_length=512)] | None = None
    """Slack's signing secret, Discord's public key, the secret of WhatsApp's app or of LINE's channel. Null: one is
    made, for the platforms that take ours."""
    chats: Annotated[list[Id], Field(min_length=1, max_length=MAX_CHATS)] | None = None
    """The only chats that it may write to; what it says of others is not kept. Null: all of the tenant."""


class Source(Frozen):
    """A source without its secret."""

    source_id: str
    platform: str
    label: str
    chats: list[str] | None
    """The only chats that it may write to. Null: all."""
    made_by: int | None
    """The API key that made it, and with which it ends. Null: the key of the settings."""
    has_ended: bool = False
    """Whether that key has ended, so that what the platform sends is refused."""
    created_at: datetime


class NewSource(Source):
    """A source as it is made, with what is never shown again."""

    path: str
    """Where the platform sends to, behind the public URL of this API."""
    secret: str | None
    """The one that was made. Null: yours."""
    verify_token: str | None
    """For WhatsApp: what its settings ask for beside the URL."""


class SourceList(Frozen):
    """All sources of a tenant."""

    sources: list[Source]


MAX_NAMED = 20
"""Broken items, and kinds, that an answer names."""
PLATFORMS = (
    "baileys chatgpt claude discord element googlechat instagram jsonl kakaotalk line matrix mattermost messenger "
    "other rocketchat signal slack standard telegram whatsapp".split()
)
"""Where events and exports come from, by the names that counters have for them."""


def platform_of(source: str) -> str:
    """Return the platform of a chat's id, or of a name, as counters name it.

    >>> platform_of("telegram:-100"), platform_of("matrix"), platform_of("app:7")
    ('telegram', 'matrix', 'other')
    """
    platform = source.partition(":")[0]
    return platform if platform in PLATFORMS else "other"


Reason = Literal[
    "unreadable",
    "refused",
    "not_allowed",
    "not_theirs",
    "cut",
    "unread",
    "unknown_kind",
    "kind",
    "no_text",
    "kept_out",
]
"""Why something handed over is not stored, or not whole."""
REASONS: tuple[Reason, ...] = get_args(Reason)
LOST = REASONS[:7]
"""Words of people are missing; the others are meant to be left out."""


class BrokenEvent(Frozen):
    """An item that could not be read or was refused; the others are stored."""

    where: str
    """Its place in the body; `body`: all of it."""
    reason: str


class EventsReceipt(BaseModel):
    """What became of a platform's payload."""

    model_config = ConfigDict(use_attribute_docstrings=True, json_schema_serialization_defaults_required=True)

    accepted: int = 0
    """The number of messages stored."""
    duplicates: int = 0
    """Those that were there already, by their platform's id."""
    kept_out: int = 0
    """Those that were not stored: forgotten, pruned, or of a sender who is not to be remembered."""
    edits: int = 0
    """Edits that were applied, wait for their message, or changed nothing."""
    deletions: int = 0
    """Deleted messages, which are kept out if they come later."""
    members: int = 0
    """People who came into a chat or left it."""
    moves: int = 0
    """Chats that got another id."""
    not_kept: dict[str, int] = {}
    """What is not kept, by the platform's name of its kind; of more than 20 kinds the others as `other`."""
    left_out: dict[Reason, int] = {}
    """Everything that is not stored, or not whole, by reason."""
    broken: list[BrokenEvent] = []
    """What could not be read, the first 20."""
    request_id: str = ""

    def leave_out(self, where: str, sentence: str, reason: Reason = "unreadable") -> None:
        """Name and count an item that could not be read or was refused."""
        self.count(reason)
        if len(self.broken) < MAX_NAMED:
            self.broken.append(BrokenEvent(where=where, reason=sentence))

    def count(self, reason: Reason, items: int = 1) -> None:
        """Count items that are not stored, or not whole."""
        if items:
            self.left_out[reason] = self.left_out.get(reason, 0) + items
