"""Messages for the tests of this folder, with what a test does not care about filled in."""

import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from schemas.sessions import Message

START = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)  # a Monday


def message(
    content: str,
    sender: str = "Ann",
    *,
    minute: float = 0,
    role: str = "user",
    id: int = 1,  # noqa: A002 -- the field's own name
    reply_to: str = "",
) -> Message:
    """One message, `minute` minutes after `START`."""
    return Message(
        id=id,
        chat_id="telegram:-1",
        external_id=str(1000 + id),
        sender_id=f"telegram:{sender}",
        sender_name=sender,
        role=role,
        content=content,
        sent_at=START + timedelta(minutes=minute),
        position=0,
        session_key="",
        agent_id=None,
        metadata={"reply_to": reply_to} if reply_to else {},
    )


def conversation(*lines: str) -> list[Message]:
    """`"Ann: hello"` lines as messages, a minute apart."""
    spoken = (line.partition(": ") for line in lines)
    return [
        message(content, sender, minute=index, id=index) for index, (sender, _, content) in enumerate(spoken)
    ]


def listed(texts: str) -> list[str]:
    """Texts on lines of their own or with ` | ` in between."""
    return re.split(r"\s*\n\s*| \| ", texts.strip())


EXAMPLES = tomllib.loads((Path(__file__).parent / "cue_examples.toml").read_text(encoding="utf-8"))
