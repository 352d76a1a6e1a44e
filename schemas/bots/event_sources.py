"""Sources: a platform's own hook on Backscroll, and the secret by which the platform proves itself."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from schemas.base import Closed, Frozen
from schemas.bots.keys import MAX_CHATS
from schemas.messages import Id, Name, cleaned

SourcePlatform = Literal["telegram", "slack", "discord", "whatsapp", "matrix", "standard"]


class SourceIn(Closed):
    """A new source: the body of `POST /v1/sources`."""

    platform: SourcePlatform
    """Baileys proves nothing: its events need an API key."""
    label: Annotated[Name, Field(max_length=100)] = ""
    """What it is for, in lists."""
    secret: Annotated[str, BeforeValidator(cleaned), Field(min_length=16, max_length=512)] | None = None
    """Slack's signing secret, Discord's public key, or the secret of WhatsApp's app. Null: one is made, for the
    platforms that take ours."""
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
