"""The session policy: how sessions are split and when they are summarized."""

from dataclasses import dataclass, replace
from datetime import timedelta

from pipeline.store.chats.chats import Chat
from schemas.kinds import EXTRACT, SUMMARIZE
from schemas.sessions import is_named
from schemas.settings import Settings


@dataclass(frozen=True, kw_only=True)
class SessionPolicy:
    """How sessions are split and when they are summarized."""

    # the longest pause between two messages of a session
    gap: timedelta
    # the same for sessions that an agent named
    ttl: timedelta
    # how long a closed session's summary waits for late messages
    debounce_seconds: float
    # messages or tokens after which an open session is summarized again
    rolling_messages: int
    rolling_tokens: int
    # the same for sessions that an agent named
    named_rolling_messages: int
    summaries: bool
    # whether facts are learned from sessions
    facts: bool
    # off: the chat's messages are kept, and nothing is derived from them
    memory: bool = True

    @classmethod
    def of(cls, settings: Settings) -> "SessionPolicy":
        """Return the policy of the settings."""
        return cls(
            gap=timedelta(minutes=settings.session_gap_minutes),
            ttl=timedelta(minutes=settings.memory_session_ttl_minutes),
            debounce_seconds=settings.summarize_debounce_seconds,
            rolling_messages=settings.session_rolling_messages,
            rolling_tokens=settings.session_rolling_tokens,
            named_rolling_messages=settings.named_rolling_messages(),
            summaries=settings.switched_off(SUMMARIZE.name) is None,
            facts=settings.switched_off(EXTRACT.name) is None,
        )

    def for_chat(self, chat: Chat) -> "SessionPolicy":
        """Return the policy of one chat, whose memory may be off."""
        return self if chat.memory else replace(self, memory=False)

    def gap_of(self, session_key: str) -> timedelta:
        """Return the longest pause inside a session of this key."""
        return self.ttl if is_named(session_key) else self.gap
