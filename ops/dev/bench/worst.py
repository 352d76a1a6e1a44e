"""The worst messages and questions known: each made a pattern or a search take seconds before it was mended."""

import json
from collections.abc import Iterator, Mapping

from ops.dev.scripts import repeated
from schemas.messages import MAX_CONTENT_BYTES

MAX_QUESTION_CHARS = 8000
# So many empty items fit into a body with room to spare, and each was an error of its own.
EMPTY_ITEMS = 900_000

_REPEATED_IN_MESSAGES = (
    "A. |Mr. |1 may |1/1/|1.1.|i'll |a@b.|'|`|[|\n|please |decision |[picture: |1 мая |решили |т. е. |明天|。|👨‍👩‍👧"
).split("|")
_REPEATED_IN_QUESTIONS = (
    "in May |in 1999 |1 may |2024-05-01 |yesterday |3 days ago |before the trip |between the trip and |12345678 |"
    '1.1.1.|1/1/|1|a" "|E41 |1 мая |вчера |3 дня назад |昨天|2024年5月|谁|👍🏿'
).split("|")
# Before and after very many spaces.
FRAMES = (("x", "y[picture: a]"), ("<", "backscroll"), ("what", "?"), ("that", "x"))
REPEATED = (*_REPEATED_IN_MESSAGES, *_REPEATED_IN_QUESTIONS)


def requests(chat_id: str) -> Iterator[tuple[str, bytes]]:
    """Yield paths and bodies: messages and questions, each as long as one may be, and what is refused."""
    spaces = " " * (MAX_CONTENT_BYTES - 64)
    texts = [begin + spaces + end for begin, end in FRAMES]
    texts += [repeated(piece, MAX_CONTENT_BYTES) for piece in _REPEATED_IN_MESSAGES]
    for number, text in enumerate(texts):
        said = {"sender_id": "bench:eve", "sent_at": "2026-03-02T18:00:00Z", "external_id": f"w{number}"}
        body = {"chat": chat_id, "messages": {**said, "content": text}}
        yield "/v1/messages", json.dumps(body).encode()
    words = " ".join(f"w{number}" for number in range(1600))
    for piece in (words, *_REPEATED_IN_QUESTIONS):
        question = (piece * MAX_QUESTION_CHARS)[:MAX_QUESTION_CHARS]
        yield "/v1/context", json.dumps({"chat_id": chat_id, "query": question}).encode()
    yield from bodies(chat_id).items()


def bodies(chat_id: str) -> Mapping[str, bytes]:
    """Return bodies of requests that are refused, by the path that they are sent to."""
    items = ",".join(["{}"] * EMPTY_ITEMS)
    chat = json.dumps(chat_id)
    return {
        "/v1/messages": f'{{"chat":{chat},"messages":[{items}]}}'.encode(),
        "/v1/more": f'{{"chat_id":{chat},"session_id":1,"shown":[{items}]}}'.encode(),
    }
