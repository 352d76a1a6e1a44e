"""A digest every day: when it is due, to whom it is sent, and that it is sent once."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from pipeline.clients import http_calls
from pipeline.erasure import forget
from pipeline.ingest import accept
from pipeline.jobs import runner
from pipeline.operations import daily_digests
from pipeline.operations.sweep import sweep
from pipeline.people import api_keys
from pipeline.platforms import webhooks
from pipeline.store.connections.database import Database
from schemas.bots import KeyIn
from schemas.digests import DailyDigestIn, NewDailyDigest
from schemas.errors import InvalidInput, ProviderUnavailable
from schemas.messages import ChatIn
from schemas.people import Subject
from schemas.settings import Settings
from tests.conftest import POLICY, SESSION_POLICY, TENANT, message
from tests.harness.pipeline import place, rows, run

CHAT = ChatIn(chat_id="test:daily", title="Верфь", time_zone="Europe/Lisbon", language="russian")
HERE = "127.0.0.1"


class Webhook:
    """A server that keeps what it is sent, and answers as it is told, the last answer again and again."""

    def __init__(self, *answers: int) -> None:
        self.answers, self.got = list(answers or [204]), list[tuple[dict[str, str], bytes]]()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                status = hook.answers.pop(0) if len(hook.answers) > 1 else hook.answers[0]
                self.send_response(status)
                if status == 429:
                    self.send_header("Retry-After", "3000")
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer((HERE, 0), Handler)
        self.url = f"http://{HERE}:{self.server.server_port}/in?room=7"

    @contextmanager
    def served(self) -> Iterator[None]:
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        yield
        self.server.shutdown()
        self.server.server_close()


def settings_for(hosts: str | None) -> Settings:
    return Settings(_env_file=None, digest_hosts=hosts)


SETTINGS = settings_for(HERE)


def added(database: Database, url: str, daily: str = "08:00", made_by: int | None = None) -> NewDailyDigest:
    wanted = DailyDigestIn(chat_id=CHAT.chat_id, daily=daily, url=url)
    return daily_digests.add(database, TENANT, wanted, made_by, SETTINGS)


def due_now(database: Database, since: str = "1 day") -> None:
    """It has become 08:00."""
    rows(
        database,
        "UPDATE digests SET next_at = date_trunc('minute', now()) - interval '1 minute', "
        f"sent_until = now() - interval '{since}'",
    )


def work(database: Database, settings: Settings = SETTINGS) -> None:
    sweep(database, SESSION_POLICY, 5)
    run(database, "digest", daily_digests.sender(database, settings))


def retry_now(database: Database) -> None:
    rows(database, "UPDATE jobs SET due_at = now() WHERE kind = 'digest'")


@pytest.fixture
def told(database: Database) -> Database:
    now = datetime.now(UTC)
    said = [
        message(
            0,
            f"{what} ⚓",
            id=str(n),
            sender_id=f"test:{who}",
            sender_name=who,
            sent_at=now - timedelta(hours=n),
        )
        for n, (who, what) in enumerate(
            [
                ("Лена", "Мы решили красить корпус в синий."),
                ("Олег", "Мачту привезут в пятницу утром."),
                ("Олег", "Я за."),
            ],
            1,
        )
    ]
    accept.accept(database, TENANT, CHAT, said)
    place(database)
    return database


def test_it_arrives_once_signed_with_what_was_said_since_the_last_one(told: Database) -> None:
    hook = Webhook()
    with hook.served():
        new = added(told, hook.url)
        work(told)
        assert not hook.got
        # When it is due, however often it is looked
        due_now(told)
        for _ in range(3):
            work(told)
    # Then it arrives once, and proves whose it is as webhooks of others do to us
    [(headers, body)] = hook.got
    standard = webhooks.PLATFORMS["standard"]
    now = datetime.now(UTC).timestamp()
    assert webhooks.check_proof(standard, new.secret, headers, body, now) is None
    assert webhooks.check_proof(standard, new.secret, headers, body + b" ", now) is not None
    event = json.loads(body)
    assert "красить корпус" in event["data"]["text"]
    assert event["data"]["messages"] == 3
    assert headers["host"] == hook.url.split("/")[2]
    [left] = daily_digests.listing(told, TENANT)
    assert left.next_at > datetime.now(UTC) > left.sent_until
    assert left.last_error is None
    assert not hasattr(left, "secret")
    # and the next one begins where it ended
    assert event["data"]["until"] == left.sent_until.isoformat().replace("+00:00", "Z")


def test_two_workers_send_it_once(told: Database) -> None:
    hook = Webhook()
    with hook.served():
        added(told, hook.url)
        due_now(told)
        together = threading.Barrier(4)

        def worker() -> None:
            together.wait(30)
            work(told)

        workers = [threading.Thread(target=worker) for _ in range(4)]
        for each in workers:
            each.start()
        for each in workers:
            each.join(60)
    assert len(hook.got) == 1


def test_a_worker_whose_lease_ran_out_sends_nothing(told: Database) -> None:
    hook = Webhook()
    with hook.served():
        added(told, hook.url)
        due_now(told)
        sweep(told, SESSION_POLICY, 5)
        handler = daily_digests.sender(told, SETTINGS)

        def overtaken(tenant: str, claims: Any) -> set[str]:
            rows(told, "UPDATE jobs SET token = nextval('job_token') WHERE kind = 'digest'")
            return set(handler(tenant, claims))

        runner.run(told, "digest", overtaken, POLICY)
    assert not hook.got


def test_a_dead_webhook_is_called_again_later_and_nothing_is_lost(told: Database) -> None:
    hook = Webhook(500, 302, 429, 200)
    with hook.served():
        added(told, hook.url)
        due_now(told)
        reasons, waits = [], []
        for _ in range(4):
            work(told)
            reasons.append(daily_digests.listing(told, TENANT)[0].last_error)
            with told.tenant(TENANT) as connection:
                waits += connection.execute(
                    text("SELECT extract(epoch FROM due_at - now()) FROM jobs WHERE kind = 'digest'")
                ).scalars()
            retry_now(told)
        work(told)
    for reason, wanted in zip(reasons, ("500", "302, and redirects are not followed", "429"), strict=False):
        assert str(reason).endswith(f"{HERE} answered {wanted}")
    assert reasons[3] is None
    assert all(later > before for before, later in pairwise(map(float, waits)))
    assert float(waits[2]) > 2900
    # each try is the same one to who takes it
    assert len(hook.got) == 4
    assert len({headers["webhook-id"] for headers, _ in hook.got}) == 1


def test_what_never_arrived_is_in_the_next_one(told: Database) -> None:
    hook = Webhook(503)
    with hook.served():
        added(told, hook.url)
        due_now(told)
        for _ in range(10):
            work(told)
            retry_now(told)
        tries = len(hook.got)
        assert tries == len(daily_digests.RETRY_SECONDS) + 1
        [waiting] = daily_digests.listing(told, TENANT)
        assert waiting.next_at > datetime.now(UTC)
        assert "503" in str(waiting.last_error)
        # When the next day comes and it answers
        hook.answers = [200]
        rows(told, "UPDATE digests SET next_at = now()")
        work(told)
    assert len(hook.got) == tries + 1
    assert json.loads(hook.got[-1][1])["data"]["messages"] == 3


def test_who_is_forgotten_meanwhile_is_not_in_it(told: Database) -> None:
    hook = Webhook(500, 200)
    with hook.served():
        added(told, hook.url)
        due_now(told)
        work(told)
        forget.start(told, TENANT, Subject(kind="user", sender_id="test:Олег"))
        # even before anything is deleted
        retry_now(told)
        work(told)
    first, second = (json.loads(body)["data"]["text"] for _, body in hook.got)
    assert "Мачту" in first
    assert "Олег" not in second
    assert "Мачту" not in second
    assert "корпус" in second


def test_a_digest_ends_with_its_key_its_chat_and_when_it_is_removed(told: Database) -> None:
    hook = Webhook()
    key = api_keys.create(told, TENANT, KeyIn(label="ops", scopes=["operate"]))
    with hook.served():
        added(told, hook.url, made_by=key.id)
        due_now(told)
        api_keys.revoke(told, TENANT, key.id)
        work(told)
        [ended] = daily_digests.listing(told, TENANT)
        assert ended.has_ended
        assert ended.next_at > datetime.now(UTC)
        daily_digests.remove(told, TENANT, ended.digest_id)
        added(told, hook.url)
        due_now(told)
        rows(told, "DELETE FROM chats WHERE chat_id = :chat", chat=CHAT.chat_id)
        work(told)
    assert not hook.got
    assert daily_digests.listing(told, TENANT) == []


REFUSED = [
    (None, "https://hooks.example.org/x"),
    ("hooks.example.org", "https://evil.example.org/x"),
    ("hooks.example.org", "https://hooks.example.org.evil.net/x"),
    ("hooks.example.org", "http://hooks.example.org/x"),
    ("10.0.0.0/8", "https://10.0.0.7/x"),
]


@pytest.mark.parametrize(("hosts", "url"), REFUSED)
def test_only_hosts_that_the_operator_names_are_sent_to(hosts: str | None, url: str) -> None:
    with pytest.raises(InvalidInput, match="url: ") as refused:
        http_calls.require_webhook_allowed(url, settings_for(hosts))
    assert refused.value.field == "url"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.7",
        "169.254.169.254",
        "::1",
        "fd00::7",
        "::ffff:10.0.0.7",
        "64:ff9b::a00:7",
        "100.64.0.1",
    ],
)
def test_an_allowed_name_that_means_a_private_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    import socket

    # names that a stranger controls may mean anything, one of several addresses, or another a moment later
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in ("93.184.215.14", address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(InvalidInput, match="is not public"):
        http_calls.send_webhook("https://hooks.example.org/x", {}, b"{}", settings_for("hooks.example.org"))
    # unless the operator names that, too
    listed = settings_for(f"hooks.example.org,93.184.215.14,{address}")
    monkeypatch.setattr(http_calls, "WEBHOOK_SECONDS", 0.2)
    with pytest.raises(ProviderUnavailable):
        http_calls.send_webhook("https://hooks.example.org:9/x", {}, b"{}", listed)


def test_a_time_that_a_clock_skips_or_shows_twice_comes_once_a_day() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    spring = datetime(2026, 3, 28, 12, tzinfo=UTC)
    # 02:30 on 29 March does not exist, and on 25 October it exists twice
    times = [at := daily_digests.next_time(spring, "02:30", berlin)]
    times += [at := daily_digests.next_time(at, "02:30", berlin) for _ in range(2)]
    assert [each.astimezone(berlin).strftime("%d %H:%M") for each in times] == [
        "29 03:30",
        "30 02:30",
        "31 02:30",
    ]
    autumn = datetime(2026, 10, 24, 12, tzinfo=UTC)
    times = [at := daily_digests.next_time(autumn, "02:30", berlin)]
    times += [at := daily_digests.next_time(at, "02:30", berlin) for _ in range(2)]
    assert [each.astimezone(berlin).strftime("%d %H:%M") for each in times] == [
        "25 02:30",
        "26 02:30",
        "27 02:30",
    ]
    assert times[1] - times[0] == timedelta(hours=25)


@given(
    st.integers(946_684_800, 2_200_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    st.times(),
    st.sampled_from(
        ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"]
    ),
)
def test_it_is_once_for_each_day_of_any_clock(after: datetime, daily: Any, name: str) -> None:
    zone = ZoneInfo(name)
    first = daily_digests.next_time(after, f"{daily:%H:%M}", zone)
    second = daily_digests.next_time(first, f"{daily:%H:%M}", zone)
    assert after < first <= after + timedelta(hours=49)
    assert timedelta(hours=22) < second - first < timedelta(hours=49)


def test_after_days_without_workers_there_is_one_for_all_of_them(told: Database) -> None:
    hook = Webhook()
    with hook.served():
        added(told, hook.url)
        rows(
            told,
            "UPDATE digests SET next_at = now() - interval '5 days', sent_until = now() - interval '6 days'",
        )
        for _ in range(3):
            work(told)
    assert len(hook.got) == 1
