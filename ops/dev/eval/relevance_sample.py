"""What the judge of relevance is fitted on and judged by, beside the questions of the chats: written before any run."""

from importlib.resources.abc import Traversable
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ops.dev.eval.samples import CHATS, Part


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AbsentQuestion(_Written):
    """A question that nobody in the chat ever answered."""

    question: str
    # `written` for this chat, or the chat that it was asked in, of which only the names are others here
    by: str


class Told(_Written):
    """A memory or a passage of a document, and three questions about it."""

    chat: str
    type: Literal["memory", "passage"]
    # the sender whom a memory is about; None: the organization
    about: str | None
    text: str
    # in its words, in others, and one that only shares its person or its topic
    literal: str
    reworded: str
    shared: str


class Statement(_Written):
    """A statement of an organization that a search of memories should find, or not."""

    id: str
    about: str
    text: str


class StatementQuestion(_Written):
    """A question with the statements that help to answer it."""

    query: str
    right: tuple[str, ...]


class RelevanceSample(_Written):
    """All of a part."""

    # by chat
    absent: dict[str, tuple[AbsentQuestion, ...]]
    told: tuple[Told, ...]
    statements: tuple[Statement, ...]
    searches: tuple[StatementQuestion, ...]


def read(part: Part, folder: Traversable = CHATS) -> RelevanceSample:
    """Read what was written for a part."""
    return RelevanceSample.model_validate_json((folder / f"{part}_relevance.json").read_text("utf-8"))
