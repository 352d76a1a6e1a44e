"""Stand-ins of platforms and of a chat model, as HTTP servers that a bot's library talks to."""

import asyncio
import itertools
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from aiohttp import web
from slack_sdk.signature import SignatureVerifier

from tests.providers.http_server import Answered, serving
from tests.waiting import SECONDS, ended

UNKNOWN = "I do not know."
Answer = Callable[[str, str, dict[str, Any]], Any]
"""Answers a method and a path with a body."""


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve JSON at the URL that this gives."""

    def as_json(method: str, path: str, headers: Message, sent: bytes) -> Answered:
        is_json = "json" in headers.get("Content-Type", "")
        of_form = parse_qs(sent.decode())
        fields = json.loads(sent) if is_json else {name: each[0] for name, each in of_form.items()}
        body = json.dumps(answer(method, urlsplit(path).path, fields)).encode()
        return 200, {"Content-Type": "application/json"}, body

    with serving(as_json) as url:
        yield url


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


class Slack:
    """The Web API of one bot, and the app's event URL, to which Slack posts what is said, the bot's own words too."""

    def __init__(self, port: int, secret: str) -> None:
        self.url, self.secret = f"http://127.0.0.1:{port}/slack/events", secret
        self.numbers = itertools.count(1)
        self.sent: queue.Queue[str] = queue.Queue()

    def say(self, text: str, **more: str) -> None:
        """Have somebody send a message, once the app listens."""
        ts = f"{1777300000 + next(self.numbers)}.000100"
        event = {"type": "message", "channel": "C042", "user": "U13", "text": text, "ts": ts, "event_ts": ts}
        envelope = {"type": "event_callback", "team_id": "T1", "api_app_id": "A1", "event_id": f"Ev{ts}"}
        body = json.dumps(envelope | {"event": event | {"channel_type": "channel"} | more})
        now = str(int(time.time()))
        signature = SignatureVerifier(self.secret).generate_signature(timestamp=now, body=body)
        headers = {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": signature or ""}
        headers["Content-Type"] = "application/json"
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                assert httpx.post(self.url, content=body, headers=headers).status_code == 200
            except httpx.ConnectError:
                time.sleep(0.1)
            else:
                return
        raise TimeoutError(self.url)

    def answer(self, _method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a method of the Web API."""
        if path.endswith("chat.postMessage"):
            self.sent.put(body["text"])
        names = {"user_id": "U99", "bot_id": "B99", "user": "bot", "team_id": "T1", "url": "https://x"}
        return {"ok": True, **names}


def _json(value: Any) -> web.Response:
    # Discord names no charset, and its library takes nothing else for JSON
    return web.Response(body=json.dumps(value).encode(), headers={"Content-Type": "application/json"})


# What Discord tells of a person, the bot, a message, the server and its one channel.
DISCORD = json.loads(Path(__file__).with_name("discord.json").read_text("utf-8"))


class Discord:
    """The gateway and the HTTP API of one bot; what the bot sends comes over the gateway, too."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.sent: queue.Queue[str] = queue.Queue()
        self.said: list[tuple[str, dict[str, Any]]] = []

    def say(self, text: str, kind: str = "MESSAGE_CREATE", **more: Any) -> None:
        """Have somebody send a message, or change one with its id."""
        self.said.append((kind, self._message(text, DISCORD["person"]) | more))

    def _message(self, text: str, author: dict[str, Any]) -> dict[str, Any]:
        number = next(self.numbers)
        at = f"2026-04-27T18:00:{number:02}+00:00"
        return DISCORD["message"] | {
            "id": str(10**18 + number),
            "author": author,
            "content": text,
            "timestamp": at,
        }

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        """Greet a bot, tell it of its server, then of each message."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": 40000}, "s": None, "t": None})
        # a heartbeat comes before the bot says who it is
        while (await socket.receive_json())["op"] != 2:
            pass
        known = [("READY", DISCORD["ready"]), ("GUILD_CREATE", DISCORD["guild"])]
        for number in itertools.count(1):
            told = [*known, *self.said]
            while number > len(told) and not socket.closed:
                await asyncio.sleep(0.05)
                told = [*known, *self.said]
            kind, data = told[number - 1]
            try:
                frame = json.dumps({"op": 0, "s": number, "t": kind, "d": data}, separators=(",", ":"))
                await socket.send_str(frame)
            except ConnectionError:
                break
        return socket

    async def _me(self, _: web.Request) -> web.Response:
        return _json(DISCORD["bot"])

    async def _application(self, _: web.Request) -> web.Response:
        return _json(DISCORD["application"])

    async def _post(self, request: web.Request) -> web.Response:
        message = self._message((await request.json())["content"], DISCORD["bot"])
        self.said.append(("MESSAGE_CREATE", message))
        self.sent.put(message["content"])
        return _json(message)

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve it at the URL that this gives."""
        app = web.Application()
        app.router.add_get("/gateway/", self._gateway)
        app.router.add_get("/gateway", self._gateway)
        app.router.add_get("/users/@me", self._me)
        app.router.add_get("/oauth2/applications/@me", self._application)
        app.router.add_post("/channels/420/messages", self._post)
        loop, runner = asyncio.new_event_loop(), web.AppRunner(app, shutdown_timeout=1)
        loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        loop.run_until_complete(site.start())
        serving = threading.Thread(target=loop.run_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(SECONDS)
            loop.call_soon_threadsafe(loop.stop)
            ended(serving)
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.close()
