"""Client of Backscroll, the conversation memory for chat bots."""

from backscroll_client.client import AsyncBackscroll, Backscroll
from backscroll_client.errors import (
    ApiFailed,
    BackscrollError,
    BufferUnusable,
    Forbidden,
    KeyRefused,
    NoAnswer,
    NotFound,
    Refused,
    Unavailable,
)
from backscroll_client.values import Chat, Context, Digest, Message, ModelMessage, SetAside

__all__ = [
    "ApiFailed",
    "AsyncBackscroll",
    "Backscroll",
    "BackscrollError",
    "BufferUnusable",
    "Chat",
    "Context",
    "Digest",
    "Forbidden",
    "KeyRefused",
    "Message",
    "ModelMessage",
    "NoAnswer",
    "NotFound",
    "Refused",
    "SetAside",
    "Unavailable",
]
