"""The messages of a run, made from a seed, and sent as honest bots do: again until they are accepted.

Their texts are in many scripts, and of any length that a message may have. In the tenant of the HTTP API some are
edited or deleted, before they come or after; one person and one chat are forgotten.

A third of them is handed over to the Python client, whose buffer a proxy parts from the HTTP API.
"""

import http.client
import json
import logging
import queue
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from ops.dev.bench.talk import any_text
from ops.dev.chaos.faults import proxy_between
from ops.dev.deployment import API_TENANT, PAYLOAD_TENANT, VISIBILITY_SECONDS, OwnDeployment
from schemas.messages import MAX_CONTENT_BYTES, MessageIn
from workers.app import REDIS_TRANSPORT
from workers.queues import ACCEPT

Key = tuple[str, str, str]
"""(tenant, chat, external id)"""
START = datetime(2025, 1, 6, 8, 0, tzinfo=UTC)
PEOPLE = ("Ann", "Боб", "小明", "Δήμητρα", "Ève")
# Says one message in a hundred, and is forgotten.
FORGOTTEN = "Fay"
FORGOTTEN_SENDER = "chaos:fay"
FORGOTTEN_CHAT = "chaos:0"
SHORT = ("ok", "спасибо", "明天见", "👍🏽", "see you tomorrow")
NAMES = "Bea Évora Łucja Маша 小雨".split()
# Room for what is put around a text.
_MOST_BYTES = MAX_CONTENT_BYTES - 100
MESSAGES_PER_CHAT = 80
LARGEST_BATCH = 12
DUPLICATES = 0.1
EDITED, DELETED = 0.02, 0.01
# How far a message may come before or after its place in the chat.
DISORDER = 40


@dataclass(frozen=True, kw_only=True)
class Sending:
    """Messages of one chat that are handed over together, or one as it is edited, or which is deleted."""

    tenant: str
    chat: str
    messages: Sequence[MessageIn]
    method: Literal["POST", "PATCH", "DELETE"] = "POST"
    # of an edit
    edited_at: datetime = START

    @property
    def keys(self) -> list[Key]:
        """Name the messages."""
        return [(self.tenant, self.chat, message.external_id) for message in self.messages]


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What is to be sent."""

    # in the order of sending
    sendings: Sequence[Sending]
    # the unique messages by (tenant, chat, external id), as they are at the end
    originals: Mapping[Key, MessageIn]
    # those that must not be there at the end: deleted, or forgotten
    gone: Collection[Key]
    # messages that come a second time
    duplicates: int


def make_traffic(messages: int, seed: int) -> Traffic:
    """Make unique messages, a tenth of them sent twice; two chats of three belong to the HTTP API's tenant."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    chats = max(6, messages // MESSAGES_PER_CHAT)
    originals: dict[Key, MessageIn] = {}
    gone: set[Key] = set()
    placed: list[tuple[float, Sending]] = []
    duplicates = 0
    for number in range(chats):
        tenant = PAYLOAD_TENANT if number % 3 == 2 else API_TENANT
        count = messages // chats + (number < messages % chats)
        chat = f"chaos:{number}"
        talk = [
            message.model_copy(update={"content": message.content + _mark(chat, message)})
            for message in _conversation(rng, count, named=number % 4 == 1)
        ]
        originals |= {(tenant, chat, message.external_id): message for message in talk}
        cut = list(_batches(rng, _disordered(rng, talk)))
        placed += [
            ((place + rng.random()) / len(cut), Sending(tenant=tenant, chat=chat, messages=batch))
            for place, batch in enumerate(cut)
        ]
        duplicates += sum(map(len, cut)) - count
        if tenant == API_TENANT:
            for change in _changes(rng, chat, talk):
                (key,), (message,) = change.keys, change.messages
                if change.method == "DELETE":
                    gone.add(key)
                originals[key] = message
                placed.append((rng.random(), change))
            gone |= {(tenant, chat, m.external_id) for m in talk if _is_forgotten(chat, m)}
    return Traffic(
        sendings=[sending for _, sending in sorted(placed, key=lambda pair: pair[0])],
        originals=originals,
        gone=gone,
        duplicates=duplicates,
    )


def _is_forgotten(chat: str, message: MessageIn) -> bool:
    return chat == FORGOTTEN_CHAT or message.sender_id == FORGOTTEN_SENDER


def _changes(rng: random.Random, chat: str, messages: Sequence[MessageIn]) -> Iterator[Sending]:
    for message in messages:
        drawn = rng.random()
        if drawn < EDITED + DELETED:
            content = f"It was {_text(rng)}{_mark(chat, message)}" if drawn < EDITED else message.content
            yield Sending(
                tenant=API_TENANT,
                chat=chat,
                messages=[message.model_copy(update={"content": content})],
                method="PATCH" if drawn < EDITED else "DELETE",
                edited_at=message.sent_at + timedelta(seconds=rng.uniform(1, 600)),
            )


def _conversation(rng: random.Random, count: int, *, named: bool) -> list[MessageIn]:
    """Make sessions of some eight messages; in a `named` chat half of them have keys or threads, and some end early."""
    at = START + timedelta(hours=rng.uniform(0, 1000))
    key, thread = "", None
    messages = []
    for number in range(count):
        if rng.random() < 0.12:
            at += timedelta(minutes=rng.uniform(25, 400))
            key = f"thread-{rng.randrange(5)}" if named and rng.random() < 0.4 else ""
            thread = str(rng.randrange(3)) if named and rng.random() < 0.3 else None
        else:
            at += timedelta(seconds=rng.uniform(0, 240))
        speaker = FORGOTTEN if rng.random() < 0.01 else rng.choice(PEOPLE)
        messages.append(
            MessageIn(
                external_id=f"m{number}",
                sender_id=f"chaos:{speaker.lower()}",
                sender_name=speaker,
                content=_text(rng),
                sent_at=at,
                position=rng.randrange(2),
                session_key=key,
                thread=thread,
                closes_session=bool(key) and rng.random() < 0.1,
            )
        )
    return messages


def _mark(chat: str, message: MessageIn) -> str:
    """Return what marks a text that is to be forgotten: it is searched for, and must not be found."""
    return f" ({chat} {message.external_id})" if _is_forgotten(chat, message) else ""


def _text(rng: random.Random) -> str:
    """Return a sentence; sometimes nothing (a picture), what to be called, or what others have said word for word."""
    kind = rng.random()
    if kind < 0.03:
        return ""
    if kind < 0.15:
        return rng.choice(SHORT)
    if kind < 0.2:
        return f"Bot, call me {rng.choice(NAMES)}."
    return any_text(rng, _MOST_BYTES)


def _disordered(rng: random.Random, messages: Sequence[MessageIn]) -> list[MessageIn]:
    """Shuffle everything about where it belongs, and repeat a tenth of it."""
    numbered = list(enumerate(messages))
    placed = [(place + rng.uniform(0, DISORDER), message) for place, message in numbered]
    again = (pair for pair in numbered if rng.random() < DUPLICATES)
    placed += [(place + rng.uniform(0, 2 * DISORDER), message) for place, message in again]
    return [message for _, message in sorted(placed, key=lambda pair: pair[0])]


def _batches(rng: random.Random, messages: Sequence[MessageIn]) -> Iterator[Sequence[MessageIn]]:
    """Cut messages into batches of random sizes."""
    while messages:
        size = rng.randint(1, LARGEST_BATCH)
        yield messages[:size]
        messages = messages[size:]


SENDERS = 4
API_SECONDS = 5.0
PAUSE_SECONDS = 0.2


class Driver:
    """Threads that send, as fast as `allow` lets them, while the block lasts."""

    def __init__(self, deployment: OwnDeployment, traffic: Traffic, seed: int) -> None:
        self._deployment, self._seed = deployment, seed
        self._sendings: queue.SimpleQueue[Sending] = queue.SimpleQueue()
        for sending in traffic.sendings:
            self._sendings.put(sending)
        self._turn = threading.Condition()
        self._allowed = 0
        self._ending = False
        # messages handed over, duplicates included
        self.sent = 0
        # what the HTTP API answered 202 for, and what Redis took as payload tasks
        self.accepted: set[Key] = set()
        self.queued: set[Key] = set()
        # what the client took, which is accepted once its buffer is empty; the proxy's answers by what they became
        self.handed_over: set[Key] = set()
        self.turned: Counter[str] = Counter()
        # answers that no fault excuses
        self.unexpected: list[str] = []
        self._threads = [threading.Thread(target=self._send_all, daemon=True) for _ in range(SENDERS)]

    def __enter__(self) -> Self:
        # the client is a package of its own, which tells of each outage
        logging.getLogger("backscroll_client").setLevel(logging.CRITICAL)
        sys.path.append(str(Path(__file__).parents[2] / "clients/python"))
        from backscroll_client import Backscroll

        port, key = self._deployment.api
        self._closing = ExitStack()
        url = self._closing.enter_context(proxy_between(port, self._seed, API_SECONDS, self.turned))
        # on the disk that is filled
        self._client = self._closing.enter_context(
            Backscroll(url, key, buffer=self._deployment.folder / "bot.sqlite")
        )
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._turn:
            self._ending = True
            self._turn.notify_all()
        for thread in self._threads:
            thread.join(2 * API_SECONDS)
        self.unexpected += [f"the client set aside: {request.reason}" for request in self._client.set_aside()]
        self._closing.close()

    def allow(self, messages: int) -> None:
        """Let messages be sent up to this number in all."""
        with self._turn:
            self._allowed = max(self._allowed, messages)
            self._turn.notify_all()

    def is_done(self) -> bool:
        """Return whether everything has been sent and taken."""
        return not any(thread.is_alive() for thread in self._threads)

    def _send_all(self) -> None:
        options = REDIS_TRANSPORT | {"visibility_timeout": VISIBILITY_SECONDS}
        with Celery(broker=self._deployment.redis.url) as bot:
            bot.conf.update(broker_transport_options=options, broker_connection_timeout=2)
            while not self._ending:
                try:
                    sending = self._sendings.get_nowait()
                except queue.Empty:
                    break
                if sending.method == "POST":
                    with self._turn:
                        while self.sent >= self._allowed and not self._ending:
                            self._turn.wait(1)
                        self.sent += len(sending.messages)
                while not self._ending and not self._is_taken(bot, sending):
                    time.sleep(PAUSE_SECONDS)
        while not self._ending and not self._client.flush():
            time.sleep(PAUSE_SECONDS)

    def _is_taken(self, bot: Celery, sending: Sending) -> bool:
        """Send it once; return whether it was taken."""
        messages = [message.model_dump(mode="json", exclude_defaults=True) for message in sending.messages]
        if sending.tenant != API_TENANT:
            return self._enqueue(bot, sending, messages)
        if int(sending.chat.partition(":")[2]) % 3 == 1:
            return self._hand_over(sending, messages)
        if sending.method == "POST":
            taken = self._ask("POST", "/v1/messages", {"chat": sending.chat, "messages": messages}, 202)
            self.accepted.update(sending.keys if taken else ())
            return taken
        (message,) = sending.messages
        path = f"/v1/messages/{quote(sending.chat, safe='')}/{quote(message.external_id, safe='')}"
        if sending.method == "DELETE":
            return self._ask("DELETE", path, None, 200)
        edit = {"content": message.content, "edited_at": str(sending.edited_at)}
        return self._ask("PATCH", path, edit, 202)

    def _enqueue(self, bot: Celery, sending: Sending, messages: Sequence[Any]) -> bool:
        payload = {"v": 1, "tenant": sending.tenant, "chat": sending.chat, "messages": messages}
        try:
            bot.send_task("backscroll.ingest", kwargs=payload, queue=ACCEPT.full_name, retry=False)
        except (OperationalError, RedisError):
            return False
        self.queued.update(sending.keys)
        return True

    def _hand_over(self, sending: Sending, messages: Sequence[Any]) -> bool:
        """Hand it over to the client; return whether that has it."""
        from backscroll_client import BackscrollError, BufferUnusable

        (message, *_), chat = sending.messages, sending.chat
        try:
            if sending.method == "POST":
                self._client.add(chat, *messages)
                self.handed_over.update(sending.keys)
            elif sending.method == "DELETE":
                self._client.delete(chat, message.external_id)
            else:
                self._client.edit(chat, message.external_id, message.content, edited_at=sending.edited_at)
        except BufferUnusable:
            # the disk is full, and the API away
            return False
        except BackscrollError as error:
            self.unexpected.append(f"the client raised {error!r}")
        return True

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, expected: int) -> bool:
        """Ask the HTTP API, and return whether it took the request."""
        port, key = self._deployment.api
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=API_SECONDS)) as api:
            try:
                api.request(method, path, None if body is None else json.dumps(body), headers)
                response = api.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException):
                return False
        excused = response.status == 503 and response.getheader("Retry-After")
        if response.status != expected and not excused:
            reason = answer[:200].decode(errors="replace")
            self.unexpected.append(f"the HTTP API answered {response.status} to {method}: {reason}")
        return response.status == expected
