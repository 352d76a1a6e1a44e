"""What there is: chats, and the sessions of one, as the API lists them."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

SESSIONS = 100
MAX_SESSIONS = 2000


class ChatSummary(BaseModel):
    """A chat."""

    model_config = ConfigDict(frozen=True)

    chat_id: str
    title: str
    kind: str
    # times of the chat are shown in it
    time_zone: str
    # of its keyword search
    language: str
    # off: its messages are kept, and nothing is made of them
    memory: bool


class ChatPage(BaseModel):
    """Chats, as `GET /v1/chats` lists them."""

    model_config = ConfigDict(frozen=True)

    chats: list[ChatSummary]
    # how many there are in all
    total: int


class SessionSpan(BaseModel):
    """When a session was, and how much was said in it."""

    model_config = ConfigDict(frozen=True)

    id: int
    started_at: datetime
    ended_at: datetime
    message_count: int


class SessionPage(BaseModel):
    """Sessions of a chat, the latest first."""

    model_config = ConfigDict(frozen=True)

    sessions: list[SessionSpan]


class SessionPageQuery(BaseModel):
    """How many sessions are asked for."""

    model_config = ConfigDict(frozen=True)

    limit: Annotated[int, Field(ge=1, le=MAX_SESSIONS)] = SESSIONS
