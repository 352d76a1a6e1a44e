"""An endpoint with OpenAI's protocol that answers, or fails, as a test says."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from tests.providers.http_server import Answered, serving

Request = dict[str, Any]


@dataclass(kw_only=True)
class Reply:
    """What the server answers to one request."""

    # the model's words
    text: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    # seconds before anything is sent
    delay: float = 0.0
    # seconds between two bytes
    drip: float = 0.0
    # in place of a completion
    body: bytes | None = None
    # break the connection off without an answer
    hang_up: bool = False
    usage: bool = True

    def encoded(self) -> bytes:
        """Return the body that is sent."""
        if self.body is not None:
            return self.body
        if self.status >= 300:
            return json.dumps({"error": {"message": self.text, "type": "error"}}).encode()
        message = {"role": "assistant", "content": self.text}
        answer: dict[str, Any] = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "test",
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish_reason}],
        }
        if self.usage:
            answer["usage"] = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        return json.dumps(answer).encode()


def refused(message: str, status: int = 400) -> Reply:
    """An error, as OpenAI words it."""
    return Reply(status=status, text=message)


def summary_of(request: Request) -> str:
    """Summarize the transcript of a request truthfully, if not well: its first, middle and last line."""
    data = next(each["content"] for each in request["messages"] if each["role"] == "user")
    # instructions may stand before it, where the endpoint has no system role
    data = re.split(r"^<(?:transcript|before)-\w+>\n", data, maxsplit=1, flags=re.MULTILINE)[-1]
    lines = [line for line in data.splitlines() if not re.match(r"</?(transcript|before)-", line)]
    said = [re.sub(r"^\[[^]]*\] ", "", line) for line in lines]
    picked = list(dict.fromkeys((said[0], said[len(said) // 2], said[-1])))
    return json.dumps(
        {
            "summary": " ".join(f"{line[:200].rstrip('.')}." for line in picked),
            "topics": ["as said"],
            "decisions": [],
            "open_questions": [],
            "action_items": [],
            "entities": [],
        }
    )


def asks_for_facts(request: Request) -> bool:
    """Tell whether a request asks for facts, by the form of the answer that it wants."""
    return "facts" in json.dumps(request.get("response_format", {}))


def well(request: Request) -> Reply:
    """Answer as a good model does, which finds no facts."""
    return Reply(text='{"facts": []}' if asks_for_facts(request) else summary_of(request))


class ChatServer:
    """The endpoint, while it runs; `answer` may be replaced at any time."""

    def __init__(self) -> None:
        self.answer: Callable[[Request], Reply] = well
        self.requests: list[Request] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        # the base URL, once it runs
        self.url = ""

    def replies(self, *replies: Reply, then: Callable[[Request], Reply] = well) -> None:
        """Give these answers, one after the other, then answer by a function."""
        left = iter(replies)
        self.answer = lambda request: next(left, None) or then(request)

    def formats(self) -> list[str | None]:
        """The response format of each request."""
        return [request.get("response_format", {}).get("type") for request in self.requests]

    @contextmanager
    def running(self) -> Iterator["ChatServer"]:
        """Serve for a block."""
        with serving(self._answered) as address:
            self.url = f"{address}/v1"
            yield self

    def _answered(self, method: str, path: str, headers: Message, sent: bytes) -> Answered:
        if method != "POST":
            return 501, {}, b""
        request = json.loads(sent)
        self.requests.append(request)
        self.paths.append(path)
        self.keys.append(headers.get("Authorization"))
        reply = self.answer(request)
        time.sleep(reply.delay)
        if reply.hang_up:
            raise ConnectionAbortedError
        body = reply.encoded()
        parts = _dripping(body, reply.drip) if reply.drip else body
        return reply.status, {"Content-Type": "application/json", **reply.headers}, parts


def _dripping(body: bytes, seconds: float) -> Iterator[bytes]:
    for byte in body:
        yield bytes([byte])
        time.sleep(seconds)
