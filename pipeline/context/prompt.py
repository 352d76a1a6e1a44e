"""A question as it is put to a model: with what its asker is called, and today's date. Pure."""

from dataclasses import dataclass
from datetime import datetime

from pipeline.context.blocks import called, clock, date_of

TODAY = "Today: "


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A question as it is put to a model."""

    # as it was asked
    query: str
    # what to call whoever asks; empty where nobody is named
    asker: str = ""
    # the date and the time on the chat's clock, as a line; empty where there is no room for it
    today: str = ""

    @property
    def question(self) -> str:
        """The question, with whoever asks it.

        >>> Prompt(query="How much did I pay?", asker="Ben").question
        'Question, from Ben: How much did I pay?'
        """
        return f"Question, from {self.asker}: {self.query}" if self.asker else f"Question: {self.query}"

    @property
    def text(self) -> str:
        """The question under today's date."""
        return f"{self.today}\n{self.question}" if self.today else self.question


def prompt(query: str, asker: str | None, now: datetime) -> Prompt:
    """A question as it is put by somebody, at a time on the chat's clock."""
    return Prompt(query=query, asker=called(asker or ""), today=f"{TODAY}{date_of(now)}, {clock(now)}")
