"""Patch kombu's connection to Redis, so that a worker survives its loss and a wrong clock does not delay tasks.

Written against kombu 5.7 (bounded in `pyproject.toml`); `tests/processes/test_losses.py` shows whether it is still
needed.
"""

import socket
from datetime import UTC, datetime
from queue import Empty
from typing import Any

import structlog
from celery import Celery
from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import redis, virtual
from kombu.utils.json import loads
from redis import Redis
from redis import asyncio as in_loop
from redis.asyncio.retry import Retry as RetryInLoop
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.retry import Retry
from redis.sentinel import Sentinel

from schemas.errors import QueueUnavailable, SettingsError, WritesRefused
from schemas.server_urls import sentinels
from schemas.settings import Settings
from workers import envelope
from workers.envelope import SWEEP
from workers.logging import OUTAGES
from workers.queues import ACCEPT, QUEUES

log = structlog.get_logger(OUTAGES)

OURS = {queue.full_name for queue in QUEUES.values()}

# If the network fails silently, a connection is given up and replaced after 25 s without an answer. By default TCP
# checks for the first time after two hours.
KEEPALIVE = {
    getattr(socket, name): value
    for name, value in {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}.items()
    if hasattr(socket, name)
}
# By default a worker waits 2 s longer after each try, up to 30 s, long after Redis is back.
PAUSES = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 2.0}


class _Taken(redis.QoS):  # type: ignore[misc] # kombu ships no types
    """The unacknowledged tasks of a worker; one whose acknowledgement failed no longer counts.

    kombu keeps such a task as unacknowledged, and a worker may have only one: it would never take another. The task
    returns after the visibility timeout, and running it again is harmless.
    """

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge the task; it no longer counts even if Redis did not answer."""
        try:
            super().ack(delivery_tag)
        except self.channel.connection_errors:
            virtual.QoS.ack(self, delivery_tag)
            raise


TAKING_SECONDS = 60
"""How long to wait for the rest of a task that Redis has begun to send: it has left its queue, and would be lost."""


class _Channel(redis.Channel):  # type: ignore[misc] # kombu ships no types
    QoS = _Taken

    def _brpop_read(self, **options: Any) -> bool:
        """Read a task; the machine, the network or Redis may pause in the middle of it.

        What is no wake-up in a queue of wake-ups is handed over to `accept`.
        """
        connection = self.client.connection
        connection.update_current_socket_timeout(TAKING_SECONDS)
        try:
            try:
                found = self.client.parse_response(connection, "BRPOP", **options)
            except self.connection_errors:
                connection.disconnect()
                raise
            if not found:
                raise Empty
            queue, item = found[0].decode().rsplit(self.sep, 1)[0], found[1]
            self._queue_cycle.rotate(queue)
            message = envelope.read(item, queue, datetime.now(UTC)) if queue in OURS else loads(item)
            if queue in OURS and queue != ACCEPT.full_name and "refused" in message["headers"]:
                with self.conn_or_acquire() as client:
                    client.lpush(ACCEPT.full_name, item)
            else:
                self.connection._deliver(message, queue)
        finally:
            # restore it
            connection.update_current_socket_timeout(-1)
            self._in_poll = None
        return True

    def _receive_one(self, client: Any) -> bool:
        """Read a line of a channel; what came with an unreadable one is read too, and not when more comes."""
        try:
            return bool(super()._receive_one(client))
        except (Empty, RecursionError):
            return False

    def _deliver_fanout_message(self, message: Any, exchange: str) -> bool:
        try:
            super()._deliver_fanout_message(message, exchange)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # one such line in the channel of commands would end all workers
            log.warning("command_unreadable", error=type(error).__name__)
        return True


class _SentinelChannel(_Channel, redis.SentinelChannel):  # type: ignore[misc] # kombu ships no types
    pass


class _Transport(redis.Transport):  # type: ignore[misc] # kombu ships no types
    Channel = _Channel


class _SentinelTransport(redis.SentinelTransport):  # type: ignore[misc] # kombu ships no types
    Channel = _SentinelChannel


_PATCHED = {redis.Transport: _Transport, redis.SentinelTransport: _SentinelTransport}


class LastingConnection(Connection):  # type: ignore[misc] # kombu ships no types
    """A connection that detects its loss, reconnects soon, and can still acknowledge tasks taken before."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # not in the settings: command lines pass those as JSON, whose keys cannot be numbers
        options: dict[str, Any] = vars(self)["transport_options"]
        self.transport_options = {"socket_keepalive_options": KEEPALIVE} | options

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Connection:
        """Connect, retrying with short pauses."""
        return super().ensure_connection(*args, **(PAUSES | kwargs))

    def get_transport_cls(self) -> type:
        """Return the patched transport."""
        transport: type = super().get_transport_cls()
        return _PATCHED.get(transport, transport)

    def _do_close_transport(self) -> None:
        # kombu would also remove the transport's address. A task taken before the loss that ends after it is
        # acknowledged through that transport, by its tag, on any socket: without an address this raises
        # `'NoneType' object has no attribute 'hostname'`, which ends a thread worker, and one that shuts down.
        self._transport = None


class Amqp(AMQP):  # type: ignore[misc] # Celery ships no types
    """Celery's view of the broker that sends no events for sweeps."""

    Connection = LastingConnection

    def as_task_v2(self, task_id: str, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return a message for the task; a sweep's triggers no task-sent event."""
        message = super().as_task_v2(task_id, name, *args, **kwargs)
        return message._replace(sent_event=None) if name == SWEEP else message


_REDATE = """
    local now = tonumber(redis.call('TIME')[1])
    local ahead = redis.call('ZRANGEBYSCORE', KEYS[1], now + ARGV[1], '+inf')
    for _, tag in ipairs(ahead) do redis.call('ZADD', KEYS[1], 'XX', now, tag) end
    return #ahead
"""
PROBE = "backscroll.probe"
PROBE_SECONDS = 2.0


def client_of(settings: Settings) -> Redis:
    """Make a client that waits `PROBE_SECONDS` and tries once, on a new connection.

    A pooled one tells only that it worked before. Raises `SettingsError` without a URL.
    """
    client: Redis = _client(settings, Redis, Sentinel, PROBE_SECONDS, Retry(NoBackoff(), 0))
    return client


def loop_client_of(settings: Settings, seconds: float) -> "in_loop.Redis":
    """Make a client for an event loop that waits `seconds`, tries once, and keeps its connections."""
    retry = RetryInLoop(NoBackoff(), 0)
    client: in_loop.Redis = _client(settings, in_loop.Redis, in_loop.Sentinel, seconds, retry)
    return client


def _client(settings: Settings, plain: Any, sentinel: Any, seconds: float, retry: object) -> Any:
    if settings.redis_url is None:
        raise SettingsError("BACKSCROLL_REDIS_URL is not set")
    options: dict[str, Any] = {
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "retry": retry,
        "decode_responses": True,
        "encoding_errors": "replace",
    }
    url = settings.redis_url.get_secret_value()
    if (behind := sentinels(url)) is None:
        return plain.from_url(url, **options)
    known = sentinel(behind.hosts, sentinel_kwargs={**options, **behind.sentinel_options})
    return known.master_for(behind.master_name, **options, **behind.options)


def probe(settings: Settings) -> None:
    """Write to Redis as workers and senders do: a list, also from a script.

    Raises `QueueUnavailable` if it does not answer, `WritesRefused` if it takes no writes, and `SettingsError` if the
    login lacks the rights.
    """
    try:
        with client_of(settings) as client:
            client.eval("return 1", 0)
            client.lpush(PROBE, 1)
            client.delete(PROBE)
    except (AuthenticationError, NoPermissionError) as error:
        raise SettingsError(
            f"Redis does not let the login of BACKSCROLL_REDIS_URL work: {_reason(error)}"
        ) from error
    except ResponseError as error:
        raise WritesRefused(f"Redis takes no writes: {_reason(error)}") from error
    except (RedisError, OSError) as error:
        raise QueueUnavailable(f"Redis does not answer: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(error).rstrip(".")


AHEAD_SECONDS = 5
"""Clock differences below this do no harm."""


def redate_unacknowledged(app: Celery) -> int:
    """Correct tasks dated in the future to now by Redis' clock, and return their number.

    A worker dates its tasks by its own clock. If that was ahead when it died, its payload, which is in no table yet,
    would return only that much later. Raises `kombu.exceptions.OperationalError` when Redis is down.
    """
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        try:
            return int(channel.client.eval(_REDATE, 1, channel.unacked_index_key, AHEAD_SECONDS))
        except ResponseError as error:
            # Redis is full: it takes no new date, and the next sweep tries again
            log.warning("redate_failed", error=str(error))
            return 0
