"""An HTTP API for stories of events, and the payloads written for them."""

import copy
import json
from pathlib import Path
from typing import Any

from sqlalchemy import text

from pipeline.store.connections.database import Database
from tests.api.conftest import client, serve, standing_client
from tests.conftest import TENANT
from tests.harness.pipeline import forget_all, place

__all__ = ["client", "serve", "standing_client"]

PAYLOADS = Path(__file__).parent / "payloads"
COUNTS = ("accepted", "duplicates", "kept_out", "edits", "deletions", "members", "moves")


def cases(platform: str) -> list[dict[str, Any]]:
    """The cases of a platform: what is sent, and what is to be stored."""
    found: list[dict[str, Any]] = json.loads((PAYLOADS / f"{platform}.json").read_bytes())
    return found


def expected(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages that a case is to leave, with all their fields."""
    default = {"role": "user", "name": "", "position": 0, "reply_to": None, "thread": None, "metadata": {}}
    return [default | message for message in case.get("stored", [])]


def stored(database: Database, case: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a case's chats, with all their fields."""
    columns = (
        "chat_id AS chat, external_id AS id, sender_id AS sender, sender_name AS name, role, content AS text, "
        "extract(epoch FROM sent_at)::float8 AS at, position, reply_to, thread, metadata"
    )
    with database.tenant(TENANT) as connection:
        found = connection.execute(
            text(
                f"SELECT {columns} FROM messages WHERE chat_id = ANY(:chats) ORDER BY chat_id, sent_at, external_id"
            ),
            {"chats": chats_of(case)},
        )
        return [dict(row._mapping) for row in found]


def chats_of(case: dict[str, Any]) -> list[str]:
    named = [message["chat"] for message in case.get("stored", [])]
    named += [chat[0] for chat in [*case.get("chats", []), *case.get("moved", [])]]
    return sorted({*named, *([case["chat"]] if "chat" in case else [])})


def told(database: Database, case: dict[str, Any]) -> list[list[Any]]:
    """What is known of a case's chats: their kind, title and present id."""
    with database.tenant(TENANT) as connection:
        found = connection.execute(
            text(
                "SELECT chat_id, kind, title, moved_to FROM chats WHERE chat_id = ANY(:chats) ORDER BY chat_id"
            ),
            {"chats": chats_of(case)},
        )
        return [list(row) for row in found]


def members(database: Database, chat_id: str) -> list[str]:
    with database.tenant(TENANT) as connection:
        found = connection.scalars(
            text("SELECT sender_id FROM chat_members WHERE chat_id = :chat ORDER BY 1"), {"chat": chat_id}
        )
        return list(found)


def require(database: Database, case: dict[str, Any]) -> None:
    """Everything that a case says is stored, once a worker has done its part, and nothing else in its chats."""
    if case.get("works"):
        forget_all(database)
    if "stored" in case:
        assert stored(database, case) == expected(case), case["name"]
    if "chats" in case:
        assert told(database, case) == case["chats"]
    for former, new in case.get("moved", ()):
        assert [former, new] in [[chat[0], chat[3]] for chat in told(database, case)]
    if "members" in case:
        assert members(database, case["chat"]) == case["members"]


AT = 1_790_000_000


def work(database: Database) -> None:
    forget_all(database)
    place(database)


def telegram(**change: Any) -> dict[str, Any]:
    message = copy.deepcopy(cases("telegram")[0]["send"][0]["message"])
    return {"update_id": 1, "message": message | {"chat": {"id": -1999, "type": "group"}} | change}
