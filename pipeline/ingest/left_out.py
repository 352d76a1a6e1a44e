"""Count and log what was handed over and is not stored, or not whole, by platform and reason."""

import re
from collections.abc import Mapping

from pipeline.platforms.records import NO_TEXT, OTHER_CHAT, Broken, Skipped, Unread
from pipeline.store.chats import chats
from pipeline.store.connections import committed
from pipeline.store.connections.database import Database
from pipeline.store.operations import counters
from schemas.bots.events import PLATFORMS, REASONS, Reason

Items = Mapping[Reason, int] | Mapping[str, int]
"""Numbers of items by reason, or by the platform's name of their kind."""
_REASONS: dict[str, Reason] = {NO_TEXT: "no_text", OTHER_CHAT: "not_allowed"}


def reason_of(item: Broken | Skipped | Unread) -> Reason:
    """Return why an item is left out, or all of it but its text."""
    if isinstance(item, Unread):
        return "unread" if item.known else "unknown_kind"
    return "unreadable" if isinstance(item, Broken) else _REASONS.get(item.reason, "kind")


def report(database: Database, tenant_id: str, source: str, reasons: Items, kinds: Items) -> None:
    """Add what was left out to the day's counters and to the log; `source` is a platform's name, or a chat's id.

    Of `kinds` only those are logged that are names, not words. Raises `DatabaseUnavailable`.
    """
    platform = source.partition(":")[0]
    platform = platform if platform in PLATFORMS else "other"
    if found := {reason: items for reason, items in reasons.items() if items}:
        named = {kind: n for kind, n in kinds.items() if re.fullmatch(r"[\w.-]+", kind, re.ASCII)}
        with database.tenant(tenant_id) as connection:
            chats.ensure_tenant(connection, tenant_id)
            counters.add(connection, tenant_id, {f"left_out:{platform}:{r}": n for r, n in found.items()})
            told = {"tenant": tenant_id, "platform": platform, "reasons": found, "kinds": named or None}
            committed.tell(connection, "left_out", **told)


def counts(figures: Mapping[str, float]) -> dict[tuple[str, str], int]:
    """Pick what was left out from daily counters, by platform and reason."""
    return {(p, r): int(figures.get(f"left_out:{p}:{r}", 0)) for p in PLATFORMS for r in REASONS}
