"""A run's messages, sent as honest bots do: what was not accepted is sent again until it is."""

import http.client
import json
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import quote

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from ops.dev.chaos.traffic import Batch, MessageChange, Traffic
from ops.dev.deployed.deployment import API_TENANT, VISIBILITY_SECONDS, Deployment
from workers.app import REDIS_TRANSPORT
from workers.queues import ACCEPT

SENDERS = 4
API_SECONDS = 5.0
PAUSE_SECONDS = 0.2


class Driver:
    """Threads that send, as fast as `allow` lets them, while the block lasts."""

    def __init__(self, deployment: Deployment, traffic: Traffic) -> None:
        self._deployment = deployment
        self._sendings: queue.SimpleQueue[Batch | MessageChange] = queue.SimpleQueue()
        for sending in traffic.sendings:
            self._sendings.put(sending)
        self._turn = threading.Condition()
        self._allowed = 0
        self._ending = False
        # messages handed over, duplicates included
        self.sent = 0
        # (tenant, chat, external id) that the HTTP API answered 202 for
        self.accepted: set[tuple[str, str, str]] = set()
        # what Redis took as payload tasks
        self.queued: set[tuple[str, str, str]] = set()
        # answers that no fault excuses
        self.unexpected: list[str] = []
        self._threads = [threading.Thread(target=self._send_all, daemon=True) for _ in range(SENDERS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._turn:
            self._ending = True
            self._turn.notify_all()
        for thread in self._threads:
            thread.join(2 * API_SECONDS)

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
                    return
                if isinstance(sending, Batch):
                    with self._turn:
                        while self.sent >= self._allowed and not self._ending:
                            self._turn.wait(1)
                        self.sent += len(sending.messages)
                while not self._ending and not self._is_taken(bot, sending):
                    time.sleep(PAUSE_SECONDS)

    def _is_taken(self, bot: Celery, sending: Batch | MessageChange) -> bool:
        """Send it once; return whether it was taken."""
        if isinstance(sending, MessageChange):
            return self._change(sending)
        keys = [(sending.tenant, sending.chat, message.external_id) for message in sending.messages]
        messages = [message.model_dump(mode="json", exclude_defaults=True) for message in sending.messages]
        if sending.tenant == API_TENANT:
            taken = self._ask("POST", "/v1/messages", {"chat": sending.chat, "messages": messages}, 202)
            if taken:
                self.accepted.update(keys)
        elif taken := self._enqueue(bot, sending, messages):
            self.queued.update(keys)
        return taken

    def _change(self, change: MessageChange) -> bool:
        path = f"/v1/messages/{quote(change.chat, safe='')}/{quote(change.external_id, safe='')}"
        if change.content is None:
            return self._ask("DELETE", path, None, 200)
        edit = {"content": change.content, "edited_at": change.edited_at.isoformat()}
        return self._ask("PATCH", path, edit, 202)

    def _enqueue(self, bot: Celery, batch: Batch, messages: Sequence[Any]) -> bool:
        payload = {"v": 1, "tenant": batch.tenant, "chat": batch.chat, "messages": messages}
        try:
            bot.send_task("backscroll.ingest", kwargs=payload, queue=ACCEPT.full_name, retry=False)
        except (OperationalError, RedisError):
            return False
        return True

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, expected: int) -> bool:
        """Ask the HTTP API, and return whether it took the request."""
        port, key = self._deployment.api
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        api = http.client.HTTPConnection("127.0.0.1", port, timeout=API_SECONDS)
        try:
            api.request(method, path, None if body is None else json.dumps(body), headers)
            response = api.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            api.close()
        if response.status == expected:
            return True
        if response.status != 503 or not response.getheader("Retry-After"):
            reason = answer[:200].decode(errors="replace")
            self.unexpected.append(f"the HTTP API answered {response.status} to {method}: {reason}")
        return False
