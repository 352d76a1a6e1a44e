"""Dead letters of the queue: payloads that could not be accepted, to be seen, put back as they came, or dropped.

They wait in `backscroll.dead` as the messages that Celery would deliver, with the reason in a header. A letter's key
is the beginning of the hash of all it is, so that whatever else lies there has one, too.
"""

import base64
import json
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from redis.exceptions import RedisError

from pipeline.jobs.dead_letters import Filter, Payload
from schemas.errors import NotFound, QueueUnavailable
from schemas.kinds import PAYLOAD
from schemas.payloads import TenantId
from workers.queues import ACCEPT, DEAD

# What laying aside adds to a task's headers.
REFUSED = "refused"
ERROR_CHARS = 500
KEY_DIGITS = 12
# Read at once: a payload may hold megabytes, and meanwhile Redis serves nobody else.
PAGE = 20
# Gone from one queue and in the other at the same moment: neither lost nor doubled, whoever else does the same.
_MOVE = """
local found = redis.call('LREM', KEYS[1], 1, ARGV[1])
if found == 1 then redis.call('LPUSH', KEYS[2], ARGV[2]) end
return found
"""
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,20}")
_tenant = TypeAdapter(TenantId)


class _Properties(BaseModel):
    model_config = ConfigDict(extra="allow")

    delivery_info: dict[str, Any]


class _Message(BaseModel):
    """A task as kombu keeps it in Redis; `body` is its arguments in base64."""

    model_config = ConfigDict(extra="allow")

    body: str
    headers: dict[str, Any]
    properties: _Properties


def refusal(error: str) -> dict[str, Any]:
    """The headers of a payload that is laid aside now for this reason, which quotes nobody."""
    return {REFUSED: {"error": error[:ERROR_CHARS], "at": datetime.now(UTC).isoformat()}}


def listing(app: Celery, tenant_id: str | None, default_tenant: str, wanted: Filter) -> list[Payload]:
    """The letters that fit, the longest there first, of one tenant or (None) of all.

    One that names no tenant, or none that can be, belongs to `default_tenant`. Raises `QueueUnavailable`.
    """
    with _redis(app) as client:
        letters = [_letter(raw, default_tenant) for raw in _all(client)]
    now = datetime.now(UTC)
    return [each for each in letters if tenant_id in {None, each.tenant_id} and _fits(each, wanted, now)]


def read(app: Celery, key: str) -> str:
    """All that a letter says, as JSON for people. Raises `NotFound`, `QueueUnavailable`."""
    with _redis(app) as client:
        for raw in _all(client):
            if _key(raw) == key:
                opened = _opened(raw)
                if opened is None:
                    return json.dumps(raw.decode(errors="replace"))
                _, args, kwargs = opened
                text = json.dumps({"args": args, "kwargs": kwargs}, ensure_ascii=False, indent=2)
                # JSON may hold half of a surrogate pair, which no terminal takes
                return text.encode(errors="replace").decode()
    raise NotFound(f"no payload {key} lies among the dead letters: see `backscroll jobs list`")


def replay(app: Celery, keys: Collection[str]) -> set[str]:
    """Put letters back into the queue that they came from; the keys of those that were there and are tasks.

    Ended at any moment, each lies in one queue or the other. Raises `QueueUnavailable`.
    """
    with _redis(app) as client:
        tasks = {raw: _task(raw) for raw in _all(client) if _key(raw) in keys}
        return {
            _key(raw)
            for raw, task in tasks.items()
            if task is not None and client.eval(_MOVE, 2, DEAD, ACCEPT.full_name, raw, task)
        }


def drop(app: Celery, keys: Collection[str]) -> set[str]:
    """Delete letters for good; the keys of those that were there. Raises `QueueUnavailable`."""
    with _redis(app) as client:
        chosen = [raw for raw in _all(client) if _key(raw) in keys]
        return {_key(raw) for raw in chosen if client.lrem(DEAD, 1, raw)}


@contextmanager
def _redis(app: Celery) -> Iterator[Any]:
    try:
        with app.connection_for_read() as connection:
            yield connection.default_channel.client
    except (OperationalError, RedisError) as error:
        raise QueueUnavailable(
            f"Redis does not answer ({error}): payloads cannot be seen or moved"
        ) from error


def _all(client: Any) -> Iterator[bytes]:
    """Whatever lies in the queue, the oldest first. New ones come at the other end, and shift nothing."""
    end = -1
    while page := client.lrange(DEAD, end - PAGE + 1, end):
        yield from reversed(page)
        end -= len(page)


def _key(raw: bytes) -> str:
    return sha256(raw).hexdigest()[:KEY_DIGITS]


def _opened(raw: bytes) -> tuple[_Message, Any, Any] | None:
    """A message and the arguments of its task; None: something else that somebody has put there."""
    try:
        message = _Message.model_validate_json(raw)
        args, kwargs, _ = json.loads(base64.b64decode(message.body))
    except (ValueError, TypeError):
        return None
    return message, args, kwargs


def _task(raw: bytes) -> str | None:
    """The message as it came; None: it is none.

    It names the queue it is put into: by that name the broker puts it back when its worker dies.
    """
    opened = _opened(raw)
    if opened is None:
        return None
    message = opened[0]
    message.headers.pop(REFUSED, None)
    message.properties.delivery_info |= {"exchange": "", "routing_key": ACCEPT.full_name}
    return json.dumps(message.model_dump())


def _letter(raw: bytes, default_tenant: str) -> Payload:
    opened = _opened(raw)
    headers = opened[0].headers if opened else {}
    # positional arguments are refused whatever they hold
    payload = opened[2] if opened and isinstance(opened[2], dict) else {}
    error, since = _refused(headers)
    messages = payload.get("messages")
    request_id = headers.get("request_id")
    version = str(payload.get("v", 1)) if payload else ""
    try:
        tenant_id = _tenant.validate_python(payload.get("tenant"))
    except ValidationError:
        tenant_id = default_tenant
    return Payload(
        tenant_id=tenant_id,
        kind=PAYLOAD,
        key=_key(raw),
        state="dead",
        attempts=None,
        since=since,
        pending_since=since,
        due_at=None,
        error=error if opened else "not a task of a bot",
        trace_id=request_id if isinstance(request_id, str) else None,
        version=version if _VERSION.fullmatch(version) else None,
        messages=len(messages) if isinstance(messages, list) else int(isinstance(messages, dict)),
    )


def _refused(headers: dict[str, Any]) -> tuple[str | None, datetime | None]:
    """Why and when it was laid aside, as `refusal` says it."""
    try:
        told = headers[REFUSED]
        return str(told["error"]), datetime.fromisoformat(told["at"]).astimezone(UTC)
    except (LookupError, TypeError, ValueError, OverflowError):
        return None, None


def _fits(letter: Payload, wanted: Filter, now: datetime) -> bool:
    longer = wanted.older_than_seconds
    return (
        wanted.state in {None, letter.state}
        and wanted.kind in {None, PAYLOAD}
        and wanted.key in {None, letter.key}
        and (wanted.error is None or wanted.error.lower() in (letter.error or "").lower())
        and (longer is None or (letter.since is not None and letter.since < now - timedelta(seconds=longer)))
    )
