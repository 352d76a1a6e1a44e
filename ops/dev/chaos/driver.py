"""A run's messages, sent as honest bots do: what was not accepted is sent again until it is.

A third of them is handed over to the Python client, whose buffer a proxy parts from the HTTP API.
"""

import http.client
import json
import logging
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from ops.dev.chaos.proxy import between
from ops.dev.chaos.traffic import Key, Sending, Traffic
from ops.dev.deployed.deployment import API_TENANT, VISIBILITY_SECONDS, Deployment
from workers.app import REDIS_TRANSPORT
from workers.queues import ACCEPT

SENDERS = 4
API_SECONDS = 5.0
PAUSE_SECONDS = 0.2


class Driver:
    """Threads that send, as fast as `allow` lets them, while the block lasts."""

    def __init__(self, deployment: Deployment, traffic: Traffic, seed: int) -> None:
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
        url = self._closing.enter_context(between(port, self._seed, API_SECONDS, self.turned))
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
