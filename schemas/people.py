"""People: users, the senders linked to them, members of chats, a person's page, and forgetting."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from schemas.base import Closed, Frozen, at_most, depending_on
from schemas.memories import MAX_PAGE, PAGE, MemoryType
from schemas.messages import Id

MAX_MEMBERS = 10_000
"""The members of one chat that a request may name."""


class User(Frozen):
    """A person, with their counts."""

    user_id: str
    senders: list[str]
    """Linked senders and merged users, besides the user's own id."""
    chats: int
    """The number of chats where they are a member."""
    memories: int
    """The number of memories of the scope `user`, documents aside."""
    remembered: bool
    """Whether their new messages are stored."""


class UserAddress(Frozen):
    """A user and perhaps a sender, by id."""

    user_id: Id
    sender_id: Id | None = None


class MergePayload(Frozen):
    """The body of `POST /v1/users/{user_id}/merge`."""

    v: Literal[1] = 1
    into: Id
    """The user that both become."""


class MembersPayload(Frozen):
    """All members of a chat: the body of `PUT /v1/chats/{chat_id}/members`."""

    v: Literal[1] = 1
    members: Annotated[list[Id], at_most(MAX_MEMBERS), Field(max_length=MAX_MEMBERS)]
    """Senders, without bots; those who speak later are added."""


class Members(Frozen):
    """The known members of a chat."""

    chat_id: str
    members: list[str]
    names: dict[str, list[str]]
    """The latest names of those who have written, by id; of at most 500."""
    unnamed: bool
    """Whether there are members whose id is not stored. Then nothing learned in other chats is shown here, until
    all members are named again."""
    apart: bool
    """Whether an API key for some chats has said who is here. Then nothing learned in other chats is shown here, nor
    there what was learned here, until a key for all chats sets the members."""


MAX_MESSAGES = 20
"""Messages that are named for one memory, the latest."""


class UserFilter(Closed):
    """What of a person's page is asked for: the parameters of `GET /v1/users/{user_id}`."""

    chat_id: Id | None = None
    """Only what may be shown in this chat when the person asks there."""
    after: UUID | None = None
    """The last `id` of the previous page."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = PAGE
    """Memories at most."""


class NamedChat(Frozen):
    """A chat where something was said."""

    chat_id: str
    title: str


class NamedMessage(Frozen):
    """A message that says something."""

    chat_id: str
    external_id: str
    sender_id: str
    said_at: datetime


class Superseder(Frozen):
    """A memory that has taken the place of another one."""

    id: UUID
    content: str
    since: datetime


class KnownMemory(Frozen):
    """A memory of a person, with where it comes from and what became of it."""

    id: UUID
    type: MemoryType
    content: str
    about: str
    """The name of whom it is about; empty: it names nobody."""
    since: datetime
    """When it was said first, or else written."""
    holds_from: datetime | None
    holds_until: datetime | None
    learned_in: NamedChat | None
    """The chat where it was learned first; null: in none."""
    also_in: list[NamedChat]
    """Other chats where it was said."""
    messages: list[NamedMessage]
    """Messages that say it, the latest last; none: it was written by hand or by a bot."""
    confidence: float
    importance: float
    access_count: int
    last_accessed_at: datetime | None
    expires_at: datetime | None
    learned_by: str
    """The model or the rules that learned it; empty: written by hand or by a bot."""
    source: str
    edited_at: datetime | None
    """Since when its words are those of somebody who edited it; null: they are the first ones."""
    retracted_at: datetime | None
    """Since when it is known to be wrong; null: it is not."""
    superseded_by: list[Superseder]
    """What has taken its place, the earliest first."""


class UserPage(User):
    """A person, and what is known of them: first what holds, then what was believed earlier, each the latest first."""

    current: list[KnownMemory]
    earlier: list[KnownMemory]


ForgetKind = Literal["message", "user", "chat", "tenant"]

_NEEDED: dict[str, tuple[str, ...]] = {
    "message": ("chat_id", "external_id"),
    "user": ("sender_id",),
    "chat": ("chat_id",),
    "tenant": (),
}
_NAMES = ("chat_id", "external_id", "sender_id")
_REFUSED = {
    kind: [name for name in (*_NAMES, *(["confirm"] if kind != "tenant" else [])) if name not in needed]
    for kind, needed in _NEEDED.items()
}


class Subject(Closed):
    """What to forget: a message, everything a user said, a chat, or all of a tenant's data."""

    model_config = ConfigDict(json_schema_extra=depending_on("kind", needed=_NEEDED, refused=_REFUSED))

    kind: ForgetKind
    chat_id: Id | None = None
    external_id: Id | None = None
    sender_id: Id | None = None
    confirm: str | None = None
    """The tenant's name once more; required to forget a tenant."""

    @model_validator(mode="after")
    def _named(self) -> "Subject":
        if {name for name in _NAMES if getattr(self, name) is not None} != set(_NEEDED[self.kind]):
            wanted = " and ".join(_NEEDED[self.kind]) or "nothing else"
            raise ValueError(f"to forget a {self.kind} give {wanted}")
        if self.confirm is not None and self.kind != "tenant":
            raise ValueError("confirm is only for a tenant")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The ids from which its entry in the suppression list is made."""
        return tuple(str(getattr(self, name)) for name in _NEEDED[self.kind])


class Receipt(Frozen):
    """What was forgotten, without naming the subject."""

    id: int
    kind: ForgetKind | Literal["removal", "move"]
    """`removal`: a chat that may be imported again; `move`: a chat that got another id."""
    subject_hash: str
    """The subject, hashed with the tenant's key: receipts can be found only by those who know the subject."""
    until: datetime
    """Everything sent or received until then is forgotten."""
    counts: dict[str, int]
    """The number of rows removed, by kind; `found_again_…` is what verification found, and should be 0."""
    created_at: datetime
    finished_at: datetime | None
    """Null: not finished yet."""


class ExportFilter(Closed):
    """What to export: the parameters of `GET /v1/export`."""

    chat_id: Id | None = None
    """Only this chat. Null: all of the tenant."""
    after: Annotated[str, Field(max_length=2000)] | None = None
    """The `at` of the last line that was received."""


class ForgottenEntry(Closed):
    """An entry of a suppression list."""

    hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """Of what is forgotten, with the tenant's key."""
    kind: ForgetKind | Literal["unremembered", "memory", "key", "left", "apart"]
    until: datetime | None
    """What was sent until then is kept out; null: all. An API key's secret ends then; null: it was revoked."""


class Forgotten(Closed):
    """The suppression list of a tenant, to be taken to another database of the same tenant."""

    tenant: str
    key: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """With it a guess can be checked: keep the list as secret as the database."""
    entries: list[ForgottenEntry]
