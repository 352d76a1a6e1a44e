"""People: users, the senders linked to them, and the members of chats."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Frozen, at_most
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
