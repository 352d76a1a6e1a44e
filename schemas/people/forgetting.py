"""What to forget, and the receipt for it."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from schemas.base import Closed, Frozen, depending_on
from schemas.messages import Id

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


class ForgottenEntry(Closed):
    """An entry of a suppression list."""

    hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """Of what is forgotten, with the tenant's key."""
    kind: ForgetKind | Literal["unremembered", "memory", "key"]
    until: datetime | None
    """What was sent until then is kept out; null: all. An API key's secret ends then; null: it was revoked."""


class Forgotten(Closed):
    """The suppression list of a tenant, to be taken to another database of the same tenant."""

    tenant: str
    key: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """With it a guess can be checked: keep the list as secret as the database."""
    entries: list[ForgottenEntry]
