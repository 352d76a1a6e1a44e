"""The requests of each key, counted in Redis for all processes of the HTTP API, wherever they run."""

import time

import structlog
from redis.exceptions import RedisError

from schemas.server_urls import postgres_parameters
from schemas.settings import Settings
from workers.connection import loop_client_of
from workers.logging import OUTAGES

log = structlog.get_logger(OUTAGES)

ANSWER_SECONDS = 0.25
"""How long a request waits for Redis."""
AWAY_SECONDS = 1.0
"""How long Redis is not asked after it has not answered."""
# A bucket of a second's requests, refilled by Redis' own clock; returns the seconds until the next one may come.
_TAKE = """
    local rate, now = tonumber(ARGV[1]), redis.call('TIME')
    now = now[1] + now[2] / 1000000
    local size, held = math.max(1, rate), redis.call('HMGET', KEYS[1], 'tokens', 'at')
    local passed = math.max(0, now - (tonumber(held[2]) or now))
    local tokens, wait = math.min(size, (tonumber(held[1]) or size) + passed * rate), 0
    if tokens < 1 then wait = (1 - tokens) / rate else tokens = tokens - 1 end
    redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.6f', now))
    redis.call('PEXPIRE', KEYS[1], math.ceil(1000 * size / rate) + 1000)
    return string.format('%.6f', wait)
"""


class SharedRates:
    """Takes requests from the buckets of keys; all of it belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._client = loop_client_of(settings, ANSWER_SECONDS)
        self._take = self._client.register_script(_TAKE)
        url = settings.database_url.get_secret_value() if settings.database_url else ""
        # ids are those of a database
        self._prefix = f"backscroll.rate.{postgres_parameters(url).get('dbname', '') if url else ''}."
        self._asked_again_at = 0.0

    async def wait_seconds(self, key_id: int, rate: float) -> float | None:
        """Take a request of a key; return the seconds to wait if there is none left, and None if Redis is away."""
        if time.monotonic() < self._asked_again_at:
            return None
        try:
            return float(await self._take(keys=[f"{self._prefix}{key_id}"], args=[rate]))
        except (RedisError, OSError) as error:
            self._asked_again_at = time.monotonic() + AWAY_SECONDS
            log.warning("rates_not_shared", error=str(error))
            return None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
