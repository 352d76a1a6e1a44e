"""Read whatever lies in a queue as a task that a worker can run; pure.

Whoever knows the URL of Redis can push any bytes. Some of them end Celery's worker, others it drops in silence, and it
obeys a sender's time limits: so it only sees messages that were written here anew. What cannot be accepted becomes a
payload with a header `refused`, of which `workers/tasks.py` makes a dead letter.
"""

import json
import re
import uuid
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from zlib import decompressobj

from kombu.utils import json as kombu_json

from schemas.errors import InvalidInput
from schemas.kinds import KINDS
from workers.queues import ACCEPT

INGEST, SWEEP, PRUNE = "backscroll.ingest", "backscroll.sweep", "backscroll.prune"
WAKE_UPS = {SWEEP, PRUNE, *(f"backscroll.{kind}" for kind in KINDS)}
"""Tasks without arguments; only `PRUNE` may have one."""
JSON, GZIP = "application/json", "application/x-gzip"
MAX_BYTES = 32 * 1024**2
"""Size of an item, and of its body when decompressed: a payload of 8 MiB, escaped and in base64, is smaller."""
MAX_DELAY = timedelta(days=1)
"""Longest countdown: the task waits in the memory of a worker."""
# It goes into logs, task headers and the database, so only harmless characters are accepted.
ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
PLATFORM_ID = re.compile(r"[a-z]+:\S{1,100}")
KEPT = ("request_id", "traceparent", "tracestate", "root_id", "parent_id")
TIMES = ("eta", "expires")


def acceptable_id(*ids: object) -> str | None:
    """Return the first acceptable id among a sender's, if any."""
    fitting = (text for text in ids if isinstance(text, str) and ACCEPTABLE_ID.fullmatch(text))
    return next(fitting, None)


def read(item: bytes, queue: str, now: datetime) -> dict[str, Any]:
    """Return kombu's message for an item of a queue.

    JSON is kept even if it is refused, as somebody may correct it; of other bytes, in which nobody who is to be
    forgotten could be found, only the size and a hash.
    """
    try:
        headers, properties, body, refused = _opened(item)
        refused = refused or _refusal(headers, body, queue, now)
        info = properties.get("delivery_info") or {}
        restored = {"redelivered": info.get("redelivered") is True}
        _depth(body)
        text = kombu_json.dumps(body)
    except Exception as error:  # noqa: BLE001 - whatever a stranger has made up
        why = error if isinstance(error, InvalidInput) else type(error).__name__
        refused = f"it cannot be read: {why} ({len(item):,} bytes, SHA-256 {sha256(item).hexdigest()[:16]}…, not kept)"
        headers, properties, body, restored, text = {}, {}, [[], {}], {}, "[[], {}, {}]"
    names = KEPT if refused else KEPT + TIMES
    return {
        "body": text,
        "content-type": JSON,
        "content-encoding": "utf-8",
        "headers": {name: headers[name] for name in names if acceptable_id(headers.get(name))}
        | ({"refused": refused} if refused else {})
        | {
            "lang": "py",
            "task": INGEST if refused else headers["task"],
            "id": acceptable_id(headers.get("id")) or str(uuid.uuid4()),
            "argsrepr": f"({len(body[0])} arguments)" if body[0] else "()",
            "kwargsrepr": outline(body[1]),
        },
        "properties": {
            # not the sender's: the tag may be another task's, and a restored task vanishes in an unknown exchange
            "delivery_tag": str(uuid.uuid4()),
            "delivery_info": {"exchange": "", "routing_key": queue, **restored},
            "priority": properties.get("priority"),
        },
    }


def _opened(item: bytes) -> tuple[dict[str, Any], dict[str, Any], list[Any], str | None]:
    """Return `(headers, properties, [args, kwargs, embed], why it is refused)`. Raises any error."""
    if len(item) > MAX_BYTES:
        raise InvalidInput(f"larger than {MAX_BYTES} bytes")
    envelope = json.loads(item)
    if not isinstance(envelope, dict) or "body" not in envelope:
        return {}, {}, _as_arguments(envelope), "it is no message of Celery's protocol"
    headers, properties = envelope.get("headers") or {}, envelope.get("properties") or {}
    content_type, compression = envelope.get("content-type") or JSON, headers.get("compression") or GZIP
    if content_type != JSON or compression != GZIP:
        what = acceptable_id(content_type if content_type != JSON else compression)
        raise InvalidInput(f"{what or 'unknown'} instead of {JSON}, as it is or compressed by gzip")
    body = envelope["body"]
    if properties.get("body_encoding") == "base64":
        body = b64decode(body)
    if headers.get("compression"):
        body = decompressobj().decompress(body, MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise InvalidInput(f"larger than {MAX_BYTES} bytes")
    body = kombu_json.loads(body)
    if isinstance(body, dict) and {"args", "kwargs"} & body.keys():
        # version 1 of the protocol, which has no headers
        headers, body = body | headers, [body.get("args") or [], body.get("kwargs") or {}, body]
    match body:
        case [list() as args, dict() as kwargs, dict() as embed] if "self" not in kwargs:
            followers = {name: embed.get(name) for name in ("callbacks", "errbacks", "chain")}
            return headers, properties, [args, kwargs, followers], None
    return headers, properties, _as_arguments(body), "its body is not [args, kwargs, embed]"


def _refusal(headers: dict[str, Any], body: list[Any], queue: str, now: datetime) -> str | None:
    """Say why a task cannot be accepted in this queue; None: it can. Makes its times ISO 8601 with an offset."""
    task, args, kwargs = acceptable_id(headers.get("task")), *body[:2]
    if isinstance(headers.get("refused"), str):
        # before its worker died
        return str(headers["refused"])
    is_accept = queue == ACCEPT.full_name
    if task not in ({INGEST} if is_accept else WAKE_UPS):
        return f"there is no task {task or 'of its name'} for bots: send {INGEST}"
    if is_accept and not (args or kwargs):
        return "it has no arguments"
    if not is_accept and (kwargs or len(args) > (task == PRUNE)):
        return f"a payload goes to the queue {ACCEPT.full_name}"
    for name in TIMES:
        try:
            time = datetime.fromisoformat(headers[name]) if headers.get(name) else None
        except (TypeError, ValueError):
            return f"its {name} is no time in ISO 8601"
        if time and not time.tzinfo:
            time = time.replace(tzinfo=UTC)
        if time and name == "eta" and time > now + MAX_DELAY:
            return "its eta is more than a day ahead"
        headers[name] = time and time.isoformat()
    return None


def outline(payload: Any) -> str:
    """Describe a payload without people's words, or texts in place of an id.

    >>> outline({"v": 1, "chat": {"chat_id": "telegram:-100", "title": "Мы"}, "messages": [{}, {}]})
    "{'v': 1, 'chat': 'telegram:-100', 'messages': 2}"
    >>> outline({"chat": "Кто там?", "messages": "Я", "text": "Это я"})
    "{'chat': '…', 'messages': '…'}"
    """
    shown: dict[str, Any] = {}
    for name, value in payload.items() if isinstance(payload, dict) else ():
        if name == "v":
            shown[name] = value if isinstance(value, int) else "…"
        elif name == "chat":
            chat_id = value.get("chat_id") if isinstance(value, dict) else value
            shown[name] = chat_id if isinstance(chat_id, str) and PLATFORM_ID.fullmatch(chat_id) else "…"
        elif name == "messages":
            shown[name] = len(value) if isinstance(value, list) else "…"
    return str(shown)


def _depth(value: Any) -> int:
    """Count levels. Raises `RecursionError` long before Celery could not read what was just about read here."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inside), default=0)


def _as_arguments(value: Any) -> list[Any]:
    # Celery passes a `self` of its own
    return [[], value, {}] if isinstance(value, dict) and "self" not in value else [[value], {}, {}]
