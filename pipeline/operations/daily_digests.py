"""Daily digests: each is due once a day on its clock, and sent to its webhook until that takes it.

One that did not arrive is not lost: the next begins where the last one that arrived ended.
"""

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import structlog

from pipeline.clients import http_calls
from pipeline.jobs import runner
from pipeline.jobs.runner import Handler
from pipeline.platforms import webhooks
from pipeline.recall import digest
from pipeline.store import daily_digests as store
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.jobs import jobs
from pipeline.store.jobs.jobs import Claim
from schemas.digests import DailyDigest, DailyDigestIn, DigestQuery, NewDailyDigest
from schemas.errors import InvalidInput, NotFound, ProviderUnavailable
from schemas.kinds import DIGEST
from schemas.settings import Settings

log = structlog.get_logger(__name__)

MAX_DIGESTS = 1000
"""Of one tenant."""
RETRY_SECONDS = (5, 300, 1800, 7200, 18_000)
"""Pauses before a webhook is called again, or as long as it says; after the last one it waits for the next day."""
AT_ONCE = 500


def next_time(after: datetime, daily: str, zone: ZoneInfo) -> datetime:
    """Return the first time after another at which a clock shows `daily`, once for each day.

    A time that the clock skips is as long after midnight as on other days; of one that it shows twice it is the first.

    >>> lisbon, day = ZoneInfo("Europe/Lisbon"), datetime(2026, 3, 28, 12, tzinfo=UTC)
    >>> next_time(day, "01:30", lisbon).isoformat()
    '2026-03-29T01:30:00+00:00'
    """
    first = after.astimezone(zone).date() - timedelta(days=1)
    hour, minute = map(int, daily.split(":"))
    for days in count():
        day = first + timedelta(days=days)
        at = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone).astimezone(UTC)
        if at > after:
            return at
    raise AssertionError


def add(
    database: Database, tenant_id: str, wanted: DailyDigestIn, made_by: int | None, settings: Settings
) -> NewDailyDigest:
    """Add a daily digest; the first one is of a day.

    Raises `NotFound` for an unknown chat, `InvalidInput` for a URL that is not allowed, `DatabaseUnavailable`.
    """
    http_calls.require_webhook_allowed(wanted.url, settings)
    secret = str(webhooks.PLATFORMS["standard"].secret.new())
    with database.tenant(tenant_id) as connection:
        chat = chats.require_current(connection, wanted.chat_id)
        if store.count(connection) >= MAX_DIGESTS:
            raise InvalidInput(f"there are {MAX_DIGESTS:,} daily digests already, the most of a tenant")
        zone = ZoneInfo(wanted.time_zone or chat.time_zone)
        next_at = next_time(chats.database_now(connection), wanted.daily, zone)
        row = store.add(
            connection,
            tenant_id,
            wanted.model_copy(update={"chat_id": chat.chat_id}),
            secret=secret,
            made_by=made_by,
            next_at=next_at,
            sent_until=next_at - timedelta(days=1),
        )
    return NewDailyDigest.model_validate(row._mapping)


def listing(database: Database, tenant_id: str) -> list[DailyDigest]:
    """Return the daily digests, the oldest first. Raises `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        return [DailyDigest.model_validate(row._mapping) for row in store.listing(connection)]


def remove(database: Database, tenant_id: str, digest_id: int) -> DailyDigest:
    """Remove a daily digest. Raises `NotFound`, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        row = store.remove(connection, digest_id)
        jobs.drop(connection, tenant_id, [DIGEST], [str(digest_id)])
    if row is None:
        raise NotFound(f"there is no daily digest {digest_id}: see `backscroll digests`")
    return DailyDigest.model_validate(row._mapping)


def enqueue_due(database: Database) -> None:
    with database.maintenance() as connection:
        due = store.due(connection, AT_ONCE)
    by_tenant = defaultdict[str, list[str]](list)
    for tenant_id, digest_id in due:
        by_tenant[tenant_id].append(str(digest_id))
    for tenant_id, keys in by_tenant.items():
        with database.tenant(tenant_id) as connection:
            jobs.enqueue(connection, tenant_id, DIGEST.name, keys)


def sender(database: Database, settings: Settings) -> Handler:
    """Make the handler of `digest` jobs: each claim is a daily digest."""

    def handle(tenant_id: str, claims: Sequence[Claim]) -> set[str]:
        runner.do_each(claims, lambda claim: _send(database, tenant_id, claim, settings))
        return set()

    return handle


def _send(database: Database, tenant_id: str, claim: Claim, settings: Settings) -> bool | None:
    """Send a digest that is due, or note why it is not sent; None if there is none to send."""
    digest_id = int(claim.key)
    with database.tenant(tenant_id) as connection:
        row, now = store.get(connection, digest_id), chats.database_now(connection)
        if row is None or row.next_at > now:
            jobs.finish(connection, [claim])
            return None
        due, zone = row.next_at, ZoneInfo(row.time_zone or row.chat_zone)
        # after an outage of days there is one for all of them
        while (following := next_time(due, row.daily, zone)) <= now:
            due = following
        if row.has_ended:
            store.settle(connection, digest_id, next_at=following, error="the API key that made it has ended")
            jobs.finish(connection, [claim])
            return None
    failure: InvalidInput | NotFound | ProviderUnavailable | None = None
    try:
        body = _event(database, tenant_id, row, due, settings)
        # no other worker may have it
        runner.renew(database, claim, settings.lease_seconds)
        webhook_id = f"digest_{digest_id}_{due:%Y%m%dT%H%MZ}"
        headers = webhooks.standard_headers(row.secret, webhook_id, body, int(time.time()))
        http_calls.send_webhook(row.url, headers, body, settings)
    except (InvalidInput, NotFound, ProviderUnavailable) as error:
        failure = error
    with database.tenant(tenant_id) as connection:
        if failure is None:
            store.settle(connection, digest_id, next_at=following, sent_until=due)
            jobs.finish(connection, [claim])
            return True
        reason = runner.fail(claim, failure)
        log.warning("digest_not_sent", digest=digest_id, error=reason, attempts=claim.attempts)
        if claim.attempts <= len(RETRY_SECONDS):
            store.settle(connection, digest_id, next_at=row.next_at, error=reason)
            told = failure.retry_after if isinstance(failure, ProviderUnavailable) else None
            seconds = max(RETRY_SECONDS[claim.attempts - 1], told or 0)
            jobs.do_again(connection, claim, delay_seconds=seconds)
            return True
        store.settle(connection, digest_id, next_at=following, error=reason)
        jobs.finish(connection, [claim])
        return True


def _event(database: Database, tenant_id: str, row: Any, until: datetime, settings: Settings) -> bytes:
    """Return what a webhook is sent, made anew for each try, without who is forgotten by then."""
    query = DigestQuery(
        chat_id=row.chat_id, since=row.sent_until, until=until, budget_tokens=row.budget_tokens
    )
    data = digest.build(database, tenant_id, query, settings).model_dump(mode="json")
    event = {"type": "digest.daily", "timestamp": until.isoformat(), "data": data}
    return json.dumps(event, ensure_ascii=False).encode()
