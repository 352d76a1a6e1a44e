"""A language model for tests, which reads facts as they are written out for it."""

from collections.abc import Sequence
from typing import Any

from pipeline.enrich.protocols import People
from schemas.facts import Fact
from schemas.sessions import Message


def fact(content: str, subject: str, attribute: str, value: str, **fields: Any) -> Fact:
    """A fact that the speaker of message 1 says of themselves."""
    given: dict[str, Any] = {"about": "speaker", "confidence": 0.9, "importance": 5, "message_ids": (1,)}
    return Fact(
        content=content, category="fact", subject=subject, attribute=attribute, value=value, **given | fields
    )


class ToldModel:
    """Learns from messages of the form `sentence | subject | attribute | value`; `we` are all who talk there."""

    model = "a-model"

    def extract(self, messages: Sequence[Message], *, people: People, **given: Any) -> list[Fact]:
        return [self._fact(each, people) for each in messages if "|" in each.content]

    def _fact(self, said: Message, people: People) -> Fact:
        content, subject, attribute, value = (part.strip() for part in said.content.split("|"))
        about = "organization" if subject == "we" else "person" if subject in people.names else "speaker"
        subject = "" if subject == "we" else subject
        return fact(content, subject, attribute, value, about=about, message_ids=(said.id,))
