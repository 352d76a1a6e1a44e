"""Where a search looks, and how its statements say so."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Where to look: one chat, all of it or one session key."""

    chat_id: str
    language: str
    session_key: str | None = None

    def given(self) -> dict[str, Any]:
        """As the parameters of the statements below."""
        return {"chat": self.chat_id, "key": self.session_key, "language": self.language}


IN_SCOPE = "chat_id = :chat AND (CAST(:key AS text) IS NULL OR session_key = :key)"
