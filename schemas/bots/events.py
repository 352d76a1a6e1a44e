"""What became of a platform's payload."""

from pydantic import BaseModel, ConfigDict

from schemas.base import Frozen

MAX_NAMED = 20
"""Broken items that an answer names."""


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
    """What is not kept, by the platform's name of its kind."""
    broken: list[BrokenEvent] = []
    """What could not be read, the first 20."""
    request_id: str = ""

    def leave_out(self, where: str, reason: str) -> None:
        """Name an item that could not be read or was refused."""
        if len(self.broken) < MAX_NAMED:
            self.broken.append(BrokenEvent(where=where, reason=reason))
