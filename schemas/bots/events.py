"""What became of a platform's payload, and why something of it is not kept."""

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from schemas.base import Frozen

MAX_NAMED = 20
"""Broken items, and kinds, that an answer names."""
PLATFORMS = (
    "baileys discord instagram jsonl matrix messenger other signal slack standard telegram whatsapp".split()
)
"""Where events and exports come from, by the names that counters have for them."""
Reason = Literal[
    "unreadable", "refused", "not_allowed", "cut", "unread", "unknown_kind", "kind", "no_text", "kept_out"
]
"""Why something handed over is not stored, or not whole."""
REASONS: tuple[Reason, ...] = get_args(Reason)
LOST = REASONS[:6]
"""Words of people are missing; the others are meant to be left out."""


class BrokenEvent(Frozen):
    """An item that could not be read or was refused; the others are stored."""

    where: str
    """Its place in the body; `body`: all of it."""
    reason: str


class EventsReceipt(BaseModel):
    """What became of a platform's payload."""

    model_config = ConfigDict(use_attribute_docstrings=True, json_schema_serialization_defaults_required=True)

    accepted: int = 0
    """The number of messages stored."""
    duplicates: int = 0
    """Those that were there already, by their platform's id."""
    kept_out: int = 0
    """Those that were not stored: forgotten, pruned, or of a sender who is not to be remembered."""
    edits: int = 0
    """Edits that were applied, wait for their message, or changed nothing."""
    deletions: int = 0
    """Deleted messages, which are kept out if they come later."""
    members: int = 0
    """People who came into a chat or left it."""
    moves: int = 0
    """Chats that got another id."""
    not_kept: dict[str, int] = {}
    """What is not kept, by the platform's name of its kind; of more than 20 kinds the others as `other`."""
    left_out: dict[Reason, int] = {}
    """Everything that is not stored, or not whole, by reason."""
    broken: list[BrokenEvent] = []
    """What could not be read, the first 20."""
    request_id: str = ""

    def leave_out(self, where: str, sentence: str, reason: Reason = "unreadable") -> None:
        """Name and count an item that could not be read or was refused."""
        self.count(reason)
        if len(self.broken) < MAX_NAMED:
            self.broken.append(BrokenEvent(where=where, reason=sentence))

    def count(self, reason: Reason, items: int = 1) -> None:
        """Count items that are not stored, or not whole."""
        if items:
            self.left_out[reason] = self.left_out.get(reason, 0) + items
