"""What an import brings that is there already: what of it is moved, and what has another name by now.

A derived id holds a message's local time. Read in another date order a message has another id, by which nothing is
found; but its aliases, the ids of the other readings, are. A stored message of such an id is the same one, unless the
source has another message whose id that is, which is known when the source has been read whole.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pipeline import redating, tombstones
from pipeline.platforms.records import Record
from pipeline.redating import Move
from pipeline.store import redating as store
from pipeline.store.database import Database


@dataclass(frozen=True, kw_only=True)
class SortedOut:
    """What is to be done with messages that an import brings."""

    # to be accepted: new ones, and those that are there by their ids
    records: Sequence[Record]
    # of the latter, what is there at another time
    moves: Sequence[Move] = ()
    # there by an alias, it seems: for `renamed` at the end
    renamed: Sequence[Record] = ()
    # how many were deleted for good, by an alias
    deleted: int = 0


def sort_out(database: Database, tenant_id: str, chat_id: str, records: Sequence[Record]) -> SortedOut:
    """Look for messages of one chat by their ids and aliases."""
    by_clock = [record for record in records if record.by_clock]
    if not by_clock:
        return SortedOut(records=records)
    aliases = [alias for record in by_clock for alias in record.aliases]
    ids = [record.message.external_id for record in by_clock]
    with database.tenant(tenant_id) as connection:
        known = store.known(connection, chat_id, [*ids, *aliases])
        gone = tombstones.deleted(connection, chat_id, [alias for alias in aliases if alias not in known])
    accepted: list[Record] = []
    moves: list[Move] = []
    renamed: list[Record] = []
    deleted = 0
    for record in records:
        there = known.get(record.message.external_id)
        if there is None and not known.keys().isdisjoint(record.aliases):
            renamed.append(record)
        elif there is None and not gone.isdisjoint(record.aliases):
            deleted += 1
        else:
            accepted.append(record)
            if there and record.by_clock and redating.is_misread(there.sent_at, record.message.sent_at):
                moves.append(Move(id=there.id, message=record.message))
    return SortedOut(records=accepted, moves=moves, renamed=renamed, deleted=deleted)


def find_renamed(
    database: Database, tenant_id: str, chat_id: str, records: Sequence[Record], names: Collection[str]
) -> SortedOut:
    """Tell messages that are there by an alias from new ones; `names` are the ids that the source has itself."""
    with database.tenant(tenant_id) as connection:
        known = store.known(connection, chat_id, [alias for record in records for alias in record.aliases])
    new, moves = [], []
    for record in records:
        there = next((known.pop(a) for a in record.aliases if a in known and a not in names), None)
        if there is None:
            new.append(record)
        else:
            moves.append(Move(id=there.id, message=record.message))
    return SortedOut(records=new, moves=moves)
