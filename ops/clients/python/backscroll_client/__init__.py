"""Client of Backscroll, the conversation memory for chat bots."""

from backscroll_client.client import AsyncBackscroll, Backscroll
from backscroll_client.errors import (
    ApiFailed,
    BackscrollError,
    BufferUnusable,
    KeyRefused,
    NotFound,
    Refused,
    Unavailable,
)
from backscroll_client.values import Chat, Context, Message, ModelMessage

__all__ = [
    "ApiFailed",
    "AsyncBackscroll",
    "Backscroll",
    "BackscrollError",
    "BufferUnusable",
    "Chat",
    "Context",
    "KeyRefused",
    "Message",
    "ModelMessage",
    "NotFound",
    "Refused",
    "Unavailable",
]
