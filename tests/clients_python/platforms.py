"""Stand-ins of platforms and of a chat model, as HTTP servers that a bot's library talks to."""

import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

UNKNOWN = "I do not know."
Answer = Callable[[str, str, dict[str, Any]], Any]
"""Answers a method and a path with a body."""


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve JSON at the URL that this gives."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            is_json = "json" in self.headers.get("Content-Type", "")
            fields = json.loads(sent) if is_json else {name: each[0] for name, each in parse_qs(sent).items()}
            body = json.dumps(answer(self.command, urlsplit(self.path).path, fields)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the server's name

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def complete(_method: str, _path: str, body: dict[str, Any]) -> dict[str, Any]:
    """A chat model that knows nothing: it repeats the line of its context that has a date in May."""
    lines = [line for message in body["messages"] for line in message["content"].splitlines()]
    said = next((line for line in lines if "4 May" in line), UNKNOWN)
    message = {"role": "assistant", "content": said}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": choices}


class Telegram:
    """The Bot API of one bot: updates that wait for `getUpdates`, and what the bot sent."""

    def __init__(self) -> None:
        self.bot = {"id": 99, "is_bot": True, "first_name": "Harbour Bot", "username": "harbour_bot"}
        self.numbers = itertools.count(1)
        self.updates: list[dict[str, Any]] = []
        """What the bot has not confirmed."""
        self.sent: queue.Queue[dict[str, Any]] = queue.Queue()

    def say(self, message: dict[str, Any], kind: str = "message") -> None:
        """Have somebody send a message."""
        self.updates.append({"update_id": next(self.numbers), kind: message})

    def answer(self, _method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a method of the Bot API."""
        match path.rpartition("/")[2]:
            case "getMe":
                return {"ok": True, "result": self.bot}
            case "getUpdates":
                offset = int(body.get("offset") or 0)
                self.updates = [update for update in self.updates if update["update_id"] >= offset]
                if not self.updates:
                    time.sleep(0.1)
                return {"ok": True, "result": self.updates}
            case "sendMessage":
                chat = {"id": int(body["chat_id"]), "type": "supergroup", "title": "Harbour House"}
                head = {"message_id": 1000 + next(self.numbers), "date": int(time.time()), "chat": chat}
                message = head | {"from": self.bot, "text": body["text"]}
                self.sent.put(message)
                return {"ok": True, "result": message}
        return {"ok": True, "result": True}
