"""An endpoint with OpenAI's protocol that answers, or fails, as a test says."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
        # how many were answered at the same moment, at most
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def replies(self, *replies: Reply, then: Callable[[Request], Reply] = well) -> None:
        """Give these answers, one after the other, then answer by a function."""
        left = list(replies)

        def answer(request: Request) -> Reply:
            with self._lock:
                reply = left.pop(0) if left else None
            return reply or then(request)

        self.answer = answer

    def formats(self) -> list[str | None]:
        """The response format of each request."""
        return [request.get("response_format", {}).get("type") for request in self.requests]

    @contextmanager
    def running(self) -> Iterator["ChatServer"]:
        """Serve for a block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server._lock:
                    server.requests.append(request)
                    server.paths.append(self.path)
                    server.keys.append(self.headers.get("Authorization"))
                    server._now += 1
                    server.most_at_once = max(server.most_at_once, server._now)
                try:
                    self._send(server.answer(request))
                finally:
                    with server._lock:
                        server._now -= 1

            def _send(self, reply: Reply) -> None:
                time.sleep(reply.delay)
                if reply.hang_up:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                body = reply.encoded()
                try:
                    self.send_response(reply.status)
                    for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    size = 1 if reply.drip else max(len(body), 1)
                    for start in range(0, len(body), size):
                        self.wfile.write(body[start : start + size])
                        time.sleep(reply.drip)
                except OSError:
                    # nobody waits for it any more
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        return Handler
