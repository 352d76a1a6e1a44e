"""What is to be forgotten, and the receipt for it."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.limits import Closed
from schemas.messages import MAX_ID_CHARS, Id

ForgetKind = Literal["message", "user", "chat", "tenant"]
_Name = Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)] | None

_NEEDED: dict[ForgetKind, tuple[str, ...]] = {
    "message": ("chat_id", "external_id"),
    "user": ("sender_id",),
    "chat": ("chat_id",),
    "tenant": (),
}


class Subject(Closed):
    """What is to be forgotten: one message, all that a user said, a chat, or all that a tenant has."""

    kind: ForgetKind
    chat_id: _Name = None
    external_id: _Name = None
    sender_id: _Name = None
    # of a tenant: its name once more, as all that it has goes
    confirm: str | None = None

    @model_validator(mode="after")
    def _named(self) -> "Subject":
        given = {n for n in ("chat_id", "external_id", "sender_id") if getattr(self, n) is not None}
        if given != set(_NEEDED[self.kind]):
            wanted = " and ".join(_NEEDED[self.kind]) or "nothing else"
            raise ValueError(f"to forget a {self.kind} give {wanted}")
        if self.confirm is not None and self.kind != "tenant":
            raise ValueError("confirm is for a tenant alone")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """What it is called, as its tombstone is made of it."""
        return tuple(str(getattr(self, name)) for name in _NEEDED[self.kind])


class Receipt(BaseModel):
    """What was forgotten, without saying who or what it was."""

    model_config = ConfigDict(frozen=True)

    id: int
    # `removal`: of a chat that may be imported again; `move`: of a chat to another id
    kind: ForgetKind | Literal["removal", "move"]
    # of the subject, under the tenant's own key: whoever knows the subject can find its receipts
    subject_hash: str
    # what was sent or came until then
    until: datetime
    # how much went, by what it was; `found_again_…` is what the verification found, 0 as it should be
    counts: dict[str, int]
    created_at: datetime
    # none: it is still being done
    finished_at: datetime | None
