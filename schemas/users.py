"""People: a user and the senders, of one platform or of several, that are linked to them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.limits import at_most
from schemas.messages import MAX_ID_CHARS, Id

MAX_MEMBERS = 10_000
"""Of one chat, told at once."""

UserId = Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]


class User(BaseModel):
    """A person, and how much there is of them."""

    model_config = ConfigDict(frozen=True)

    user_id: str
    # linked senders, and users that were merged into this one; the user's own id is one of theirs as well
    senders: list[str]
    # in which they are
    chats: int
    # of the scope `user`
    memories: int
    # off: nothing new of theirs is kept
    remembered: bool


class UserAddress(BaseModel):
    """A user, and perhaps a sender, as they stand in a path."""

    model_config = ConfigDict(frozen=True)

    user_id: UserId
    sender_id: UserId | None = None


class MergePayload(BaseModel):
    """The body of `POST /v1/users/{user_id}/merge`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: Literal[1] = 1
    # the user that both are from now on
    into: UserId


class MembersPayload(BaseModel):
    """Everybody who is in a chat: the body of `PUT /v1/chats/{chat_id}/members`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: Literal[1] = 1
    # senders, without the bots; whoever speaks later is added
    members: Annotated[list[UserId], at_most(MAX_MEMBERS), Field(max_length=MAX_MEMBERS)]


class Members(BaseModel):
    """Who is in a chat, as far as it is known."""

    model_config = ConfigDict(frozen=True)

    chat_id: str
    # senders
    members: list[str]
    # somebody is there whose name is not kept: until all are named anew, nothing of other chats is shown there
    unnamed: bool
