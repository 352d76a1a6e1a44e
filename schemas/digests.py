"""Digests: what somebody missed in a chat, asked for or sent to a webhook every day."""

import re
from datetime import datetime
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from schemas.base import Closed, Frozen
from schemas.context import Block
from schemas.messages import Id, IdOrEmpty, SaidAt, TimeZone, cleaned
from schemas.server_urls import http_url
from schemas.settings import MAX_BUDGET_TOKENS

BUDGET_TOKENS = 1000
"""Of a digest by default: what a person reads in a minute, and most messengers take in one message."""
MAX_URL_CHARS = 2000

Budget = Annotated[int, Field(ge=50, le=MAX_BUDGET_TOKENS)]


class DigestQuery(Closed):
    """What to tell of a chat, and to whom: the body of `POST /v1/digest`."""

    chat_id: Id
    user_id: IdOrEmpty | None = None
    """The person it is for: from their last message on, with what was asked of them. Null: for everybody; `since` is
    needed then."""
    since: Annotated[SaidAt | None, Field(validate_default=True)] = None
    """From this time on. Null: from the person's last message, which is no command to a bot; of who never wrote, the
    last 7 days."""
    until: SaidAt | None = None
    """Before this time. Null: until now."""
    budget_tokens: Budget = BUDGET_TOKENS
    model: Annotated[str, BeforeValidator(cleaned), Field(max_length=200)] | None = None
    """The model whose tokenizer counts, as in a context."""

    @field_validator("since")
    @classmethod
    def _begins(cls, since: datetime | None, info: ValidationInfo) -> datetime | None:
        if since is None and not info.data.get("user_id"):
            raise ValueError("is needed without user_id, as nobody's last message says where to begin")
        return since


class Digest(Frozen):
    """What happened in a chat."""

    chat_id: str
    user_id: str | None
    since: datetime
    until: datetime
    messages: int
    """What other people wrote in that time."""
    has_written: bool | None
    """Whether the person ever wrote there. Null: nobody is named."""
    text: str
    """All of it, for a person to read, in the chat's language."""
    blocks: list[Block]
    """`asked`: what was asked of the person and is open; `decided`; `exchanges`: the sessions in order."""
    joined: list[str]
    """Names, or ids of who never wrote; as the platform's events say."""
    left: list[str]
    used_tokens: int
    budget: int
    counted_by: str
    degraded: list[str] = Field(default_factory=list)
    """What could not be done, such as sessions that did not fit."""


def _daily(value: str) -> str:
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
        raise ValueError("must be a time of day from 00:00 to 23:59, such as 08:00")
    return value


def _webhook(url: str) -> str:
    if "@" in urlsplit(http_url(url)).netloc:
        raise ValueError("must not hold a user or a password: whoever lists digests would read it")
    return url


class DailyDigestIn(Closed):
    """A digest that is sent every day: the body of `POST /v1/digests`."""

    chat_id: Id
    daily: Annotated[str, AfterValidator(_daily)]
    """At this time of day, as in 08:00."""
    time_zone: TimeZone | None = None
    """The clock of `daily`, as in Europe/Lisbon. Null: the chat's."""
    url: Annotated[str, Field(max_length=MAX_URL_CHARS), AfterValidator(_webhook)]
    """Where it is sent: a host that BACKSCROLL_DIGEST_HOSTS allows."""
    budget_tokens: Budget = BUDGET_TOKENS


class DailyDigest(Frozen):
    """A digest that is sent every day, without its secret."""

    digest_id: int
    chat_id: str
    daily: str
    time_zone: str | None
    url: str
    budget_tokens: int
    made_by: int | None
    """The API key that made it, and with which it ends. Null: the key of the settings."""
    has_ended: bool = False
    """Whether that key has ended, so that nothing is sent any more."""
    created_at: datetime
    sent_until: datetime
    """Where the last one that arrived ended, and the next begins."""
    next_at: datetime
    last_error: str | None
    """Why the last try failed. Null: it arrived."""


class NewDailyDigest(DailyDigest):
    """A digest as it is made, with what is never shown again."""

    secret: str
    """What its webhooks are signed with, by Standard Webhooks."""


class DailyDigestList(Frozen):
    """All daily digests of a tenant."""

    digests: list[DailyDigest]
