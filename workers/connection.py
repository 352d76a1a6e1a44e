"""The connection to Redis, mended where a worker would not outlive its loss, or a wrong clock would hold tasks back.

Written against kombu 5.7 (`pyproject.toml` bounds it); `tests/processes/test_losses.py` says whether it is still
needed.
"""

import socket
from typing import Any

import structlog
from celery import Celery
from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import redis, virtual
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.retry import Retry

from schemas.errors import QueueUnavailable, SettingsError, WritesRefused
from schemas.settings import Settings
from workers.logging import OUTAGES

log = structlog.get_logger(OUTAGES)

SWEEP = "backscroll.sweep"
"""The task that comes every second or few: in Flower its runs would hide all others."""

# A network that goes away without a word: after 25 s without an answer a connection is given up and made anew. By
# default TCP asks for the first time after two hours.
KEEPALIVE = {
    getattr(socket, name): value
    for name, value in {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}.items()
    if hasattr(socket, name)
}
# By default a worker waits 2 s longer after each try, up to 30 s: Redis would be back long before the worker.
PAUSES = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 2.0}


class _Taken(redis.QoS):  # type: ignore[misc] # kombu ships no types
    """The tasks that a worker has taken; one whose acknowledgement failed no longer counts.

    kombu keeps such a task among those in hand, of which a worker may have one: it would never take another. The task
    returns after the visibility timeout, and doing it again is harmless.
    """

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge the task; it is no longer in hand even when Redis did not answer."""
        try:
            super().ack(delivery_tag)
        except self.channel.connection_errors:
            virtual.QoS.ack(self, delivery_tag)
            raise


TAKING_SECONDS = 60
"""How long the rest of a task is waited for that Redis has begun to send: it has left its queue, and would be lost."""


class _Channel(redis.Channel):  # type: ignore[misc] # kombu ships no types
    QoS = _Taken

    def _brpop_read(self, **options: Any) -> bool | None:
        """Read a task; the machine, the network or Redis may pause in the middle of it."""
        connection = self.client.connection
        connection.update_current_socket_timeout(TAKING_SECONDS)
        try:
            taken: bool | None = super()._brpop_read(**options)
            return taken
        finally:
            # as it was
            connection.update_current_socket_timeout(-1)


class _Transport(redis.Transport):  # type: ignore[misc] # kombu ships no types
    Channel = _Channel


class LastingConnection(Connection):  # type: ignore[misc] # kombu ships no types
    """A connection whose loss is noticed and soon mended, and leaves tasks in hand able to be acknowledged."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # not among the settings: a command line passes those as JSON, in which no key is a number
        options: dict[str, Any] = vars(self)["transport_options"]
        self.transport_options = {"socket_keepalive_options": KEEPALIVE} | options

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Connection:
        """Connect, trying again and again; the pauses between tries stay short."""
        return super().ensure_connection(*args, **(PAUSES | kwargs))

    def get_transport_cls(self) -> type:
        """Return kombu's transport, mended."""
        transport: type = super().get_transport_cls()
        return _Transport if transport is redis.Transport else transport

    def _do_close_transport(self) -> None:
        # kombu takes the address away from the transport as well. A task that was taken before the loss and ends
        # after it is acknowledged through that transport, by its tag, on whatever socket: without an address this
        # is `'NoneType' object has no attribute 'hostname'`, which ends a worker of threads, and one that shuts down.
        self._transport = None


class Amqp(AMQP):  # type: ignore[misc] # Celery ships no types
    """Celery's view of the broker, over such connections; sweeps send no events."""

    Connection = LastingConnection

    def as_task_v2(self, task_id: str, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return a message for the task; a sweep's has no event that it was sent."""
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
    """Make a client that waits `PROBE_SECONDS` and tries once, on a connection that was not used before.

    One of a pool says only that it worked before. Raises `SettingsError` without a URL.
    """
    if settings.redis_url is None:
        raise SettingsError("BACKSCROLL_REDIS_URL is not set")
    return Redis.from_url(
        settings.redis_url.get_secret_value(),
        socket_timeout=PROBE_SECONDS,
        socket_connect_timeout=PROBE_SECONDS,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )


def probe(settings: Settings) -> None:
    """Write to Redis what workers and senders do: a list, from a script too.

    Raises `QueueUnavailable` where it does not answer, `WritesRefused` where it takes nothing, and `SettingsError`
    where the login may not.
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
"""Clocks that differ by less do no harm."""


def redate_unacknowledged(app: Celery) -> int:
    """Date tasks taken in the future as taken now by Redis' clock, and return their number.

    A worker dates what it takes by its own clock. Were that ahead when it died, its payload, which is in no table yet,
    would come back only that much later. Raises `kombu.exceptions.OperationalError` when Redis is away.
    """
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        try:
            return int(channel.client.eval(_REDATE, 1, channel.unacked_index_key, AHEAD_SECONDS))
        except ResponseError as error:
            # Redis is full: it takes no new date, and the next sweep tries again
            log.warning("redate_failed", error=str(error))
            return 0
