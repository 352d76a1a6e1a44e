"""The one table of the access that each route requires of a key; a route missing in it cannot be built."""

from dataclasses import dataclass
from typing import Literal

from schemas.bots import Scope

ChatPlace = Literal["path", "query", "body", "nowhere"]


@dataclass(frozen=True)
class Access:
    """The access that a route requires of a key."""

    scope: Scope | None
    # where a request with a key for some chats must name one of them; None: such a key is refused;
    # `nowhere`: the route neither shows nor changes anything of a chat
    chat: ChatPlace | None = None
    # whether it needs no key
    is_open: bool = False
    # whether it stores what people wrote, which counts as one of the key's messages a day
    counts: bool = False


OPEN = Access(None, is_open=True)
ANY_KEY = Access(None, "nowhere")
# pages show the whole tenant: a key for some chats is refused
READ_PAGE = Access("read")
OPERATE_PAGE = Access("operate")

ACCESS = {
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "POST /v1/messages": Access("ingest", "body"),
    "POST /v1/events/{platform}": Access("ingest", "body"),
    # the platform proves itself
    "POST /v1/events/{platform}/{source_id}": OPEN,
    "GET /v1/events/{platform}/{source_id}": OPEN,
    "PUT /v1/events/matrix/{source_id}/_matrix/app/v1/transactions/{transaction}": OPEN,
    "PATCH /v1/messages/{chat_id}/{external_id:path}": Access("ingest", "path", counts=True),
    "DELETE /v1/messages/{chat_id}/{external_id:path}": Access("ingest", "path", counts=True),
    "PUT /v1/chats/{chat_id}/members": Access("ingest", "path", counts=True),
    "POST /v1/context": Access("context", "body"),
    "POST /v1/contexts/{context_id}/answer": Access("context", counts=True),
    "POST /v1/digest": Access("context", "body"),
    "POST /v1/search": Access("read", "body"),
    "POST /v1/more": Access("read", "body"),
    "GET /v1/chats": Access("read"),
    "GET /v1/chats/{chat_id}": Access("read", "path"),
    "GET /v1/chats/{chat_id}/messages": Access("read", "path"),
    "GET /v1/chats/{chat_id}/sessions": Access("read", "path"),
    "GET /v1/chats/{chat_id}/topics": Access("read", "path"),
    "GET /v1/chats/{chat_id}/members": Access("read", "path"),
    "GET /v1/sessions": Access("read", "query"),
    "GET /v1/queries": Access("read", "query"),
    "GET /v1/memories": Access("read", "query"),
    "POST /v1/memories/search": Access("read", "body"),
    "GET /v1/entities": Access("read", "query"),
    "GET /v1/entities/{name:path}": Access("read", "query"),
    "GET /v1/documents": Access("read"),
    "GET /v1/documents/{document_id:path}": Access("read"),
    "GET /v1/users/{user_id}": Access("read"),
    "GET /v1/users/{user_id}/export": Access("read"),
    "POST /v1/memories": Access("write", counts=True),
    "PATCH /v1/memories/{memory_id}": Access("write", counts=True),
    "POST /v1/memories/{memory_id}/promote": Access("write"),
    "POST /v1/memories/{memory_id}/correct": Access("write", counts=True),
    "POST /v1/documents": Access("write", counts=True),
    "PUT /v1/users/{user_id}/senders/{sender_id:path}": Access("write"),
    "DELETE /v1/users/{user_id}/senders/{sender_id:path}": Access("write"),
    "POST /v1/users/{user_id}/merge": Access("write"),
    "PUT /v1/users/{user_id}/memory": Access("write"),
    "PUT /v1/chats/{chat_id}/memory": Access("write", "path"),
    "PUT /v1/chats/{chat_id}/language": Access("write", "path"),
    # names a second chat
    "POST /v1/chats/{chat_id}/rename": Access("write"),
    # with the chat goes who is in it, whom a key for some chats may not change
    "DELETE /v1/chats/{chat_id}": Access("erase"),
    "DELETE /v1/memories/{memory_id}": Access("erase"),
    "DELETE /v1/documents/{document_id:path}": Access("erase"),
    "POST /v1/forget": Access("erase"),
    "GET /v1/forget/{receipt}": Access("erase"),
    "GET /v1/status": Access("operate"),
    # with the list of what was forgotten goes its key
    "GET /v1/export": Access("operate"),
    "POST /v1/sources": Access("operate"),
    "GET /v1/sources": Access("operate"),
    "DELETE /v1/sources/{source_id}": Access("operate"),
    # what is sent leaves the deployment
    "POST /v1/digests": Access("operate"),
    "GET /v1/digests": Access("operate"),
    "DELETE /v1/digests/{digest_id}": Access("operate"),
    "POST /v1/keys": Access("operate"),
    "GET /v1/keys": Access("operate"),
    "GET /v1/keys/current": ANY_KEY,
    "POST /v1/keys/{key_id}/rotate": Access("operate"),
    "DELETE /v1/keys/{key_id}": Access("operate"),
    # its tools call the routes above with the same key
    "POST /mcp": ANY_KEY,
    "POST /mcp/": ANY_KEY,
    "GET /inspect/login": OPEN,
    "POST /inspect/login": OPEN,
    "POST /inspect/logout": OPEN,
    "GET /inspect/assets/{name}": OPEN,
    "GET /inspect": READ_PAGE,
    "GET /inspect/chats": READ_PAGE,
    "GET /inspect/chats/{chat_id}": READ_PAGE,
    "GET /inspect/sessions/{session_id}": READ_PAGE,
    "GET /inspect/messages/{message_id}": READ_PAGE,
    "GET /inspect/said": READ_PAGE,
    "GET /inspect/memories/{memory_id}": READ_PAGE,
    "GET /inspect/people": READ_PAGE,
    "GET /inspect/people/{user_id}": READ_PAGE,
    "GET /inspect/ask": READ_PAGE,
    "POST /inspect/ask": READ_PAGE,
    "GET /inspect/queries": READ_PAGE,
    "GET /inspect/queries/{context_id}": READ_PAGE,
    "GET /inspect/jobs": READ_PAGE,
    "POST /inspect/jobs/replay": OPERATE_PAGE,
    "POST /inspect/jobs/drop": OPERATE_PAGE,
    "GET /inspect/backfills": READ_PAGE,
    "POST /inspect/backfills": OPERATE_PAGE,
    "POST /inspect/backfills/{backfill_id}/state": OPERATE_PAGE,
    "GET /inspect/spaces": READ_PAGE,
    "GET /inspect/cost": READ_PAGE,
}
"""By method and path."""
METHODS = sorted({route.split()[0] for route in ACCESS})


def access_of(method: str, path: str) -> Access:
    """Return the access that a route requires. Raises `LookupError` for one missing in the table."""
    try:
        return ACCESS[f"{method} {path}"]
    except KeyError:
        raise LookupError(
            f"{method} {path} is not in ACCESS (workers/api/scopes.py): say its scope"
        ) from None
