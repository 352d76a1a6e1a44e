"""Hermes Agent: keeps every message of every chat with its author, and brings the context before each model call.

The plugin is loaded twice, as a memory provider and for its hooks; both speak with one Backscroll. Nothing waits for it
longer than `PATIENCE_SECONDS`: what was said goes into the buffer's file, from which a thread of its own sends it.
"""

import logging
import os
import re
import threading
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, wraps
from pathlib import Path
from typing import Any

from agent.memory_provider import MemoryProvider
from hermes_constants import get_hermes_home

from backscroll_client.client import NOT_TO_STOP_A_BOT, Backscroll
from backscroll_client.values import Chat, Context, Message

log = logging.getLogger("backscroll_client.hermes")

PATIENCE_SECONDS = 0.3
FLUSH_SECONDS = 5.0
"""Between two tries to send what waits."""
SETTLE_SECONDS = 2.0
"""For which a question waits until what was said before it is sent."""
BUDGET_TOKENS = 1500
MAX_QUESTIONS = 8
"""On their way at a time."""
DIRECT = {"dm", "direct", "private"}
OBSERVED = re.compile(r"\[(?P<name>[^\n]*)\|(?P<user>[^|\]\n]+)\]\n(?P<text>.*)", re.DOTALL)
"""How a gateway writes who said what in a group whose members share a session."""


class Memory:
    """The Backscroll of this process."""

    def __init__(self) -> None:
        path = os.environ.get("BACKSCROLL_BUFFER") or Path(get_hermes_home()) / "backscroll.sqlite"
        self._buffered, self._asking = Backscroll(buffer=path), Backscroll(patience=0)
        self._questions = ThreadPoolExecutor(MAX_QUESTIONS, "backscroll-question")
        self._begun: dict[tuple[str, str], Future[Context]] = {}
        self._free = threading.Semaphore(MAX_QUESTIONS)
        self._wake = threading.Event()
        threading.Thread(target=self._send, name="backscroll-send", daemon=True).start()

    def keep(self, chat: Chat, message: Message) -> None:
        """Write a message down; it is sent soon."""
        if not message["content"].strip():
            return
        try:
            self._buffered.add_later(chat, message)
        except NOT_TO_STOP_A_BOT:
            log.exception("what was said in %s is not remembered", chat["chat_id"])
        self._wake.set()

    def begin(self, chat_id: str, question: str, user_id: str | None) -> None:
        """Ask what memory knows, before anybody waits for it."""
        if (asked := self._ask(chat_id, question, user_id)) is not None:
            self._begun[chat_id, question] = asked
            if len(self._begun) > MAX_QUESTIONS:
                self._begun.pop(next(iter(self._begun)), None)

    def context(self, chat_id: str, question: str, user_id: str | None) -> str:
        """Return what memory knows of a question; nothing where that takes too long."""
        asked = self._begun.pop((chat_id, question), None) or self._ask(chat_id, question, user_id)
        try:
            return asked.result(timeout=PATIENCE_SECONDS).background if asked else ""
        except TimeoutError:
            log.warning("the agent answers without memory: no answer within %s s", PATIENCE_SECONDS)
        except NOT_TO_STOP_A_BOT as error:
            log.warning("the agent answers without memory: %s", error)
        return ""

    def _ask(self, chat_id: str, question: str, user_id: str | None) -> "Future[Context] | None":
        if not self._free.acquire(blocking=False):
            log.warning("the agent answers without memory: %d questions are on their way", MAX_QUESTIONS)
            return None
        asked = self._questions.submit(self._answer, chat_id, question, user_id)
        asked.add_done_callback(lambda _: self._free.release())
        return asked

    def _answer(self, chat_id: str, question: str, user_id: str | None) -> Context:
        # an answer should know what was said just before
        end = time.monotonic() + SETTLE_SECONDS
        while self._buffered.waiting and time.monotonic() < end:
            time.sleep(0.02)
        return self._asking.context(chat_id, question, user_id=user_id, budget_tokens=BUDGET_TOKENS)

    def _send(self) -> None:
        while True:
            self._wake.wait(FLUSH_SECONDS)
            self._wake.clear()
            if self._buffered.waiting:
                try:
                    self._buffered.flush()
                except NOT_TO_STOP_A_BOT as error:
                    log.warning("what was said waits in the buffer: %s", error)


memory = cache(Memory)
_hooked = threading.Event()
"""Set once the gateway tells of each message by itself."""


class BackscrollMemory(MemoryProvider):  # type: ignore[misc]
    """The memory of one session, which is of one chat."""

    name = "backscroll"

    def is_available(self) -> bool:
        """Tell whether there is a key; asks nobody."""
        return bool(os.environ.get("BACKSCROLL_API_KEY"))

    def get_config_schema(self) -> list[dict[str, Any]]:
        """Return what `hermes memory setup backscroll` asks for."""
        key = {"key": "api_key", "description": "API key", "secret": True, "required": True}
        url = {"key": "url", "description": "URL", "default": "http://127.0.0.1:8420"}
        return [key | {"env_var": "BACKSCROLL_API_KEY"}, url | {"env_var": "BACKSCROLL_URL"}]

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Note whose session it is."""
        platform = self._platform = kwargs.get("platform") or "cli"
        # outside of a gateway, all sessions of a person with this agent are one chat
        chat_id = kwargs.get("chat_id") or f"hermes-{kwargs.get('agent_identity') or 'agent'}"
        is_direct = not kwargs.get("chat_id") or kwargs.get("chat_type") in DIRECT
        self._chat = _chat(platform, chat_id, is_direct=is_direct, title=kwargs.get("chat_name"))
        self._asker = f"{platform}:{kwargs.get('user_id') or 'user'}" if is_direct else None
        self._agent = f"hermes:{kwargs.get('agent_identity') or 'agent'}"
        self._thread_id = str(kwargs.get("thread_id") or "")
        self._is_primary = kwargs.get("agent_context", "primary") == "primary"
        self._is_told = bool(kwargs.get("chat_id")) and _hooked.is_set()

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Return what memory knows of a question."""
        question = _said(query, self._asker, self._platform)["content"]
        return memory().context(self._chat["chat_id"], question, self._asker)

    def sync_turn(
        self, user_content: str, assistant_content: str, *, session_id: str = "", messages: Any = None
    ) -> None:
        """Keep what the agent said, and what was said to it unless the gateway told of that."""
        if not self._is_primary:
            return
        answer: Message = {"sender_id": self._agent, "role": "assistant", "content": assistant_content}
        for message in (_said(user_content, self._asker, self._platform), answer):
            if self._thread_id:
                message["thread"] = self._thread_id
            if message is answer or not self._is_told:
                memory().keep(self._chat, message)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Offer no tools; the MCP server has them."""
        return []


def register(context: Any) -> None:
    """Register with Hermes, once as a memory provider and once for the gateway's hooks."""
    if hasattr(context, "register_memory_provider"):
        context.register_memory_provider(BackscrollMemory())
        return
    context.register_hook("pre_gateway_dispatch", _on_message)
    _hooked.set()
    from gateway.session import SessionStore

    # groups' messages that mention nobody go into their session's transcript, and to no hook
    SessionStore.append_to_transcript = _observing(SessionStore.append_to_transcript)


def _on_message(*, event: Any, **_: Any) -> None:
    if not event.internal:
        chat, message = _keep(event.source, event.text, event.message_id, event.timestamp)
        # long before the agent is ready to ask
        asker = message["sender_id"] if chat["kind"] == "direct" else None
        memory().begin(chat["chat_id"], message["content"], asker)


def _observing(append: Any) -> Any:
    @wraps(append)
    def appended(store: Any, session_id: str, message: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if message.get("observed"):
            entries = [*store._entries.values()]
            source = next((entry.origin for entry in entries if entry.session_id == session_id), None)
            if source is not None:
                source = replace(source, user_id=None)
                _keep(source, message["content"], message.get("message_id"), message.get("timestamp"))
        return append(store, session_id, message, *args, **kwargs)

    return appended


def _keep(source: Any, text: str, message_id: str | None, at: Any) -> tuple[Chat, Message]:
    platform = source.platform.value
    is_direct = source.chat_type in DIRECT
    chat = _chat(platform, source.chat_id, is_direct=is_direct, title=source.chat_name)
    sender_id = f"{platform}:{source.user_id}" if source.user_id else None
    message = _said(text, sender_id, platform, source.user_name)
    message["external_id"] = str(message_id or uuid.uuid4().hex)
    if at is not None:
        # a gateway's clock is the machine's
        message["sent_at"] = at if isinstance(at, str) else at.astimezone()
    if source.thread_id:
        message["thread"] = str(source.thread_id)
    memory().keep(chat, message)
    return chat, message


def _said(text: str, sender_id: str | None, platform: str, name: str | None = None) -> Message:
    """Return a message; of a group whose members share a session its text says whose it is, and nowhere else."""
    if sender_id is None and (said := OBSERVED.fullmatch(text)):
        sender_id, name, text = f"{platform}:{said['user']}", said["name"], said["text"]
    message: Message = {"sender_id": sender_id or f"{platform}:unknown", "content": text}
    if name:
        message["sender_name"] = name
    return message


def _chat(platform: str, chat_id: str, *, is_direct: bool, title: str | None) -> Chat:
    chat: Chat = {"chat_id": f"{platform}:{chat_id}", "kind": "direct" if is_direct else "group"}
    if title:
        chat["title"] = title
    return chat
