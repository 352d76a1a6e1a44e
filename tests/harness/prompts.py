"""What a language model is asked about a chat, and what it knows of it."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

from pipeline.clients.protocols import Prompt
from pipeline.enrich.protocols import People
from schemas.facts import KnownFact
from schemas.sessions import Message
from tests.text import builders


def message(number: int, speaker: str, content: str) -> Message:
    at = datetime(2026, 3, 2, 23, 30, tzinfo=UTC) + timedelta(minutes=number)
    return builders.message(content, speaker, id=number)._replace(sent_at=at)


def fence_of(prompt: Prompt) -> str:
    """The name of the marks around the transcript."""
    found = re.search(r"<(transcript-[0-9a-f]{16})>", prompt.system)
    assert found
    return found[1]


PEOPLE = People(
    kind="group",
    names={"Ann": "test:Ann", "Ben": "test:Ben", "Tom Reis": "test:Tom", "Mallory": "test:Mallory"},
    agent="Harbour",
)

GOOD = {
    "content": "Ann lives in Porto, in a flat with a terrace.",
    "category": "fact",
    "about": "speaker",
    "subject": "Ann",
    "attribute": "home",
    "value": "porto",
    "confidence": 0.9,
    "importance": 7,
    "messages": [1],
    "holds_from": None,
    "holds_until": None,
    "replaces": [],
}

KNOWN = [
    KnownFact(
        id=UUID(int=number),
        content=content,
        subject=subject,
        attribute="home",
        value=value,
        said_at=datetime(2026, 1, 5, 23, 30, tzinfo=UTC),
    )
    for number, (content, subject, value) in enumerate(
        (("Ann lives in Lisbon.", "Ann", "lisbon"), ("Ben lives in Faro.", "Ben", "faro")), start=1
    )
]
