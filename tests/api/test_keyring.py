"""Which keys are let in between two looks into the database, and while it is away."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from pipeline.people.api_keys import PREFIX, digest_of
from schemas.bots import SCOPES, CurrentKey
from schemas.errors import DatabaseUnavailable
from workers.api import keyring
from workers.api.keyring import AWAY_SECONDS, FRESH_SECONDS, NOTE_SECONDS, REFRESH_SECONDS, Keyring

OWN = "the-key-of-the-settings"


def secret(name: str) -> str:
    return PREFIX + name


class Tables:
    """The keys of the database, and what is asked of it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.keys: dict[bytes, CurrentKey] = {}
        self.away = False
        self.queries = 0
        self.read: list[bytes] = []
        self.noted: list[int] = []

    def add(self, name: str, **fields: Any) -> CurrentKey:
        key = {"id": len(self.keys) + 1, "tenant": "a", "label": name, "scopes": ["read"], "chats": None}
        self.keys[digest_of(secret(name))] = made = CurrentKey.model_validate(key | fields)
        return made

    @contextmanager
    def tenant(self, _: str) -> Iterator["Tables"]:
        if self.away:
            raise DatabaseUnavailable("gone")
        yield self

    def close(self) -> None:
        self.away = True

    def find(self, _: object, digests: Sequence[bytes]) -> dict[bytes, CurrentKey]:
        self.queries += 1
        self.read += digests
        return {digest: self.keys[digest] for digest in digests if digest in self.keys}

    def note_use(self, _: object, ids: Sequence[int]) -> None:
        self.noted += ids


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Tables:
    tables = Tables()
    monkeypatch.setattr(keyring, "api_keys", tables)
    monkeypatch.setattr(keyring, "time", SimpleNamespace(monotonic=lambda: tables.now))
    # by itself it looks again in a story that says so
    monkeypatch.setattr(keyring, "REFRESH_SECONDS", 3600.0)
    return tables


def with_ring(tables: Tables, story: Callable[[Keyring], Awaitable[None]]) -> None:
    """Run a story on the keyring of a process."""

    async def told() -> None:
        ring = Keyring(tables, OWN, "default")  # type: ignore[arg-type]
        ring.start()
        try:
            async with asyncio.timeout(60):
                await story(ring)
        finally:
            await ring.close()
        # nothing of it goes on
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(told())


def test_a_key_is_read_once_for_all_its_requests_and_again_when_it_may_have_changed(tables: Tables) -> None:
    bot = tables.add("bot")

    async def story(ring: Keyring) -> None:
        assert await asyncio.gather(*(ring.find(secret("bot")) for _ in range(50))) == [bot] * 50
        tables.now += FRESH_SECONDS
        assert await ring.find(secret("bot")) == bot
        assert len(tables.read) == 1
        # Then it is revoked elsewhere
        tables.keys.clear()
        tables.now += 0.1
        assert await ring.find(secret("bot")) is None
        # and made again, which a wrong key's owner may try
        tables.add("bot")
        assert await ring.find(secret("bot")) is None
        tables.now += FRESH_SECONDS + 0.1
        assert await ring.find(secret("bot")) == bot

    with_ring(tables, story)


def test_what_cannot_be_a_key_is_not_looked_up_and_the_key_of_the_settings_needs_no_database(
    tables: Tables,
) -> None:
    tables.away = True

    async def story(ring: Keyring) -> None:
        own = await ring.find(OWN)
        assert own is not None
        assert (own.id, own.tenant, own.scopes, own.chats) == (None, "default", list(SCOPES), None)
        assert await ring.find_digest(digest_of(OWN)) == own
        assert await ring.find("password1") is None
        assert tables.read == []

    with_ring(tables, story)


def test_a_key_that_is_revoked_is_refused_within_the_five_seconds_that_the_guide_says() -> None:
    assert REFRESH_SECONDS + FRESH_SECONDS <= 5


def test_an_expired_key_is_refused_though_it_is_known(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    monkeypatch.setattr(keyring, "datetime", SimpleNamespace(now=lambda _: now))
    # it ends at the moment that it says
    tables.add("old", expires_at=now)
    soon = tables.add("soon", expires_at=now + timedelta(seconds=1))

    async def story(ring: Keyring) -> None:
        for _ in range(2):
            assert await ring.find(secret("old")) is None
            assert await ring.find(secret("soon")) == soon

    with_ring(tables, story)


def test_while_the_database_is_away_known_keys_go_on_at_once_and_others_are_asked_to_come_again(
    tables: Tables,
) -> None:
    bot, tries = tables.add("bot"), 0

    @contextmanager
    def tried(_: str) -> Iterator[Tables]:
        nonlocal tries
        tries += 1
        if tables.away:
            raise DatabaseUnavailable("gone")
        yield tables

    tables.tenant = tried  # type: ignore[method-assign]

    async def story(ring: Keyring) -> None:
        assert await ring.find(secret("bot")) == bot
        assert await ring.find(secret("wrong")) is None
        tables.away = True
        tables.now += FRESH_SECONDS + 1
        assert await ring.find(secret("bot")) == bot
        assert tries == 3
        # for a while nobody waits for the next try
        for _ in range(5):
            tables.now += AWAY_SECONDS / 8
            assert await ring.find(secret("bot")) == bot
        assert tries == 3
        for unknown in ("new", "wrong"):
            with pytest.raises(DatabaseUnavailable):
                await ring.find(secret(unknown))
        tables.now += AWAY_SECONDS
        assert await ring.find(secret("bot")) == bot
        assert tries == 6
        # When it is back, without the key
        tables.away = False
        tables.keys.clear()
        assert await ring.find(secret("new")) is None
        assert await ring.find(secret("bot")) is None

    with_ring(tables, story)


def test_a_flood_of_wrong_keys_forgets_no_right_one(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "MAX_KNOWN", 3)
    names = ["one", "two", "three"]
    keys = [tables.add(name) for name in names]

    async def story(ring: Keyring) -> None:
        assert [await ring.find(secret(name)) for name in names] == keys
        for number in range(10):
            assert await ring.find(secret(f"guess-{number}")) is None
        tables.read.clear()
        assert [await ring.find(secret(name)) for name in names] == keys
        assert tables.read == []
        # of the wrong ones the last three are known
        for number in (9, 8, 7):
            assert await ring.find(secret(f"guess-{number}")) is None
        assert tables.read == []
        assert await ring.find(secret("guess-6")) is None
        assert len(tables.read) == 1

    with_ring(tables, story)


def test_whoever_hangs_up_takes_nobody_with_them(tables: Tables) -> None:
    bot = tables.add("bot")

    async def story(ring: Keyring) -> None:
        waiting = [asyncio.create_task(ring.find(secret("bot"))) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert found[1:] == [bot, bot]

    with_ring(tables, story)


def test_whoever_hangs_up_while_the_database_is_away_leaves_no_error_behind(tables: Tables) -> None:
    tables.away, errors = True, []

    async def story(ring: Keyring) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        asking = asyncio.create_task(ring.find(secret("bot")))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(DatabaseUnavailable):
            await ring.find(secret("other"))
        del asking
        gc.collect()

    with_ring(tables, story)
    assert errors == []


def test_the_log_names_no_key_when_they_cannot_be_read(tables: Tables) -> None:
    def defect(*_: object) -> dict[bytes, CurrentKey]:
        raise ValueError("parameters: the digest")

    async def story(ring: Keyring) -> None:
        tables.away = True
        with pytest.raises(DatabaseUnavailable):
            await ring.find(secret("bot"))
        tables.away, tables.find = False, defect  # type: ignore[method-assign]
        with pytest.raises(ValueError, match="digest"):
            await ring.find(secret("bot"))

    with capture_logs() as lines:
        with_ring(tables, story)
    assert [line["error"] for line in lines] == ["gone", "ValueError"]


def test_a_keyring_that_closes_takes_no_connection_from_what_still_reads(tables: Tables) -> None:
    began, may_end, ends = threading.Event(), threading.Event(), []

    def slow(*_: object) -> dict[bytes, CurrentKey]:
        began.set()
        assert may_end.wait(60)
        ends.append(tables.away)
        return {}

    tables.find = slow  # type: ignore[method-assign]

    async def told() -> None:
        ring = Keyring(tables, OWN, "default")  # type: ignore[arg-type]
        ring.start()
        asking = asyncio.create_task(ring.find(secret("bot")))
        await asyncio.to_thread(began.wait, 60)
        closing = asyncio.create_task(ring.close())
        await asyncio.wait([closing], timeout=0.1)
        may_end.set()
        await closing
        asking.cancel()

    asyncio.run(told())
    assert ends == [False]


def test_a_keyring_that_nobody_asks_asks_nothing(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "REFRESH_SECONDS", 0.001)

    async def story(_: Keyring) -> None:
        await asyncio.sleep(0.05)
        assert tables.queries == 0

    with_ring(tables, story)


async def until_so(condition: Callable[[], bool]) -> None:
    """Wait for what the keyring does by itself; the story's own limit ends it."""
    while not condition():
        await asyncio.sleep(0.01)


def test_keys_in_use_are_read_again_by_themselves_and_others_are_not(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "REFRESH_SECONDS", 0.01)
    used, other = tables.add("used"), tables.add("other")
    digest, digest_of_other = (digest_of(secret(name)) for name in ("used", "other"))

    async def story(ring: Keyring) -> None:
        assert [await ring.find(secret(name)) for name in ("other", "used")] == [other, used]
        for number in range(2, 6):
            tables.now += 1
            await until_so(lambda: tables.read.count(digest) == number)  # noqa: B023 - awaited here
            assert await ring.find(secret("used")) == used
        assert tables.read.count(digest_of_other) == 2
        # When it is revoked, its next request need not wait to be refused
        tables.keys.clear()
        tables.now += 1
        while await ring.find(secret("used")):
            await asyncio.sleep(0.01)
        assert tables.read.count(digest) == 6

    with_ring(tables, story)


def test_the_use_of_a_key_is_written_once_a_minute(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "REFRESH_SECONDS", 0.01)
    bot, idle = tables.add("bot"), tables.add("idle")

    async def story(ring: Keyring) -> None:
        await ring.find(OWN)
        assert await ring.find(secret("idle")) == idle
        await until_so(lambda: tables.noted == [idle.id])
        for minute in range(1, 4):
            for _ in range(5):
                assert await ring.find(secret("bot")) == bot
                await until_so(lambda: tables.noted == [idle.id] + [bot.id] * minute)  # noqa: B023
                tables.now += NOTE_SECONDS / 6
            tables.now += NOTE_SECONDS / 3

    with_ring(tables, story)
