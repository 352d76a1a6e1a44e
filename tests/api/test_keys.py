"""API keys over HTTP: what each may do, for whom, how often, and until when."""

import hashlib
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from ops.local.embedded.server import free_port
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.api.conftest import CHAT, body, problem_of, said
from tests.conftest import TENANT
from tests.harness.pipeline import rows
from tests.waiting import until
from workers.api import admission, keyring

Serve = Callable[[Settings], httpx.Client]
ALL = ["ingest", "context", "read", "write", "erase", "operate"]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a key is read again sooner than seconds later."""
    monkeypatch.setattr(keyring, "REFRESH_SECONDS", 0.2)
    monkeypatch.setattr(keyring, "FRESH_SECONDS", 0.3)


def made(client: httpx.Client, **given: object) -> dict[str, object]:
    """A new key, made with the client's own."""
    answer = client.post("/v1/keys", json={"label": "a bot", "scopes": ["ingest"]} | given)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def using(client: httpx.Client, key: object) -> httpx.Client:
    """The same API with another key."""
    return httpx.Client(base_url=client.base_url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


def test_a_key_tells_what_it_may_do(standing_client: httpx.Client) -> None:
    client = standing_client
    # Given a key for two chats
    chats = ["telegram:-1", "телеграм:дом"]
    new = made(client, label="Бот дома 🏠", scopes=["read", "ingest"], chats=chats, requests_per_second=0.3)
    # When it asks for itself
    with using(client, new["key"]) as bot:
        current = bot.get("/v1/keys/current").json()
    # Then it hears all but a secret
    told = {"id": new["id"], "tenant": TENANT, "scopes": ["ingest", "read"], "chats": chats}
    assert current.items() >= told.items()
    assert not {"key", "digest"} & current.keys()
    # and so does the key of the settings
    own = client.get("/v1/keys/current").json()
    assert (own["id"], own["tenant"], own["scopes"], own["chats"]) == (None, TENANT, ALL, None)


def until_refused(bot: httpx.Client) -> None:
    """A key that has ended is refused by this process soon."""
    until(lambda: bot.get("/v1/keys/current").status_code != 200, "it is refused")
    problem = problem_of(bot.get("/v1/keys/current"), 401)
    assert problem["type"] == "urn:backscroll:problem:unauthorized"


def test_a_revoked_key_is_refused_by_every_process(settings: Settings, serve: Serve) -> None:
    # Given two processes that have just served a key
    one, two = serve(settings), serve(settings)
    new = made(one)
    with using(one, new["key"]) as here, using(two, new["key"]) as there:
        assert here.get("/v1/keys/current").status_code == there.get("/v1/keys/current").status_code == 200
        # When it is revoked at one of them, twice
        for _ in range(2):
            assert one.delete(f"/v1/keys/{new['id']}").json()["revoked_at"]
        # Then both refuse it soon, however busy it is
        until_refused(here)
        until_refused(there)
    assert "was revoked" in problem_of(one.post(f"/v1/keys/{new['id']}/rotate", json={}), 409)["detail"]


def test_a_key_ends_when_it_said(client: httpx.Client, database: Database) -> None:
    new = made(client, expires_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    with using(client, new["key"]) as bot:
        assert bot.get("/v1/keys/current").status_code == 200
        rows(database, "UPDATE api_keys SET expires_at = now()")
        until_refused(bot)
    assert "has expired" in problem_of(client.post(f"/v1/keys/{new['id']}/rotate", json={}), 409)["detail"]
    past = {"label": "late", "scopes": ["read"], "expires_at": "2001-01-01T00:00:00Z"}
    assert problem_of(client.post("/v1/keys", json=past), 422)["field"] == "expires_at"


def test_a_rotated_key_has_two_secrets_for_a_while_and_never_three(standing_client: httpx.Client) -> None:
    client = standing_client
    first = made(client)
    second, third = (client.post(f"/v1/keys/{first['id']}/rotate", json={}).json() for _ in range(2))
    assert first["id"] == second["id"] == third["id"]
    assert len({first["key"], second["key"], third["key"]}) == 3
    tomorrow = datetime.fromisoformat(third["former_until"]) - datetime.now(UTC)
    assert timedelta(hours=23) < tomorrow < timedelta(hours=25)
    with (
        using(client, first["key"]) as lost,
        using(client, second["key"]) as old,
        using(client, third["key"]) as new,
    ):
        assert new.get("/v1/keys/current").json()["expires_at"] is None
        assert old.get("/v1/keys/current").json()["expires_at"] == third["former_until"]
        problem_of(lost.get("/v1/keys/current"), 401)
        # one that was published ends at once, with all before it
        fourth = client.post(f"/v1/keys/{first['id']}/rotate", json={"keep_hours": 0}).json()
        assert fourth["former_until"] is None
        until_refused(new)
        until_refused(old)
    with using(client, fourth["key"]) as last:
        assert last.get("/v1/keys/current").status_code == 200


def test_a_key_gives_nothing_that_it_has_not_itself(standing_client: httpx.Client) -> None:
    client, wanted = standing_client, {"label": "more", "scopes": ["operate", "read"]}
    more = made(client, **wanted)
    with using(client, made(client, scopes=["operate"])["key"]) as bot:
        assert problem_of(bot.post("/v1/keys", json=wanted), 422)["field"] == "scopes"
        # nor does it see a new secret of such a key
        assert problem_of(bot.post(f"/v1/keys/{more['id']}/rotate", json={}), 422)["field"] == "scopes"
        equal = bot.post("/v1/keys", json={"label": "equal", "scopes": ["operate"]})
        assert equal.status_code == 201
    # a key that is made for chats can make none
    with using(client, made(client, scopes=["operate"], chats=[CHAT])["key"]) as bot:
        problem_of(bot.post("/v1/keys", json={"label": "x", "scopes": ["operate"], "chats": [CHAT]}), 403)


def test_a_key_makes_so_many_requests_a_second_at_all_processes_together(
    settings: Settings, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a second that does not end, two processes, and one without Redis
    monkeypatch.setattr(admission, "_TAKE", admission._TAKE.replace("redis.call('TIME')", "{0, 0}"))
    monkeypatch.setattr(admission, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    away = settings.model_copy(update={"redis_url": SecretStr(f"redis://127.0.0.1:{free_port()}/0")})
    one, two, alone = serve(settings), serve(settings), serve(away)
    new = made(one, requests_per_second=2)

    def answered(api: httpx.Client) -> int:
        with using(api, new["key"]) as bot:
            return bot.get("/v1/keys/current").status_code

    # Then wherever requests come there are two; without Redis a process holds its own share
    assert [answered(api) for api in (one, two, one, two)] == [200, 200, 429, 429]
    assert [answered(alone) for _ in range(3)] == [200, 200, 429]


def test_a_key_hands_over_so_many_messages_a_day_at_all_processes(settings: Settings, serve: Serve) -> None:
    one, two = serve(settings), serve(settings)
    new = made(one, messages_per_day=3)
    with using(one, new["key"]) as here, using(two, new["key"]) as there:
        assert here.post("/v1/messages", json=body(said(1), said(2))).status_code == 202
        # together too many, and none of them is stored
        refused = there.post("/v1/messages", json=body(said(3), said(4)))
        assert "3 messages a day" in problem_of(refused, 429)["detail"]
        # until midnight in UTC
        midnight = datetime.fromtimestamp(time.time() + int(refused.headers["retry-after"]), UTC)
        assert midnight.time().replace(second=0, microsecond=0) == datetime.min.time()
        assert there.post("/v1/messages", json=body(said(3))).json()["accepted"] == 1
        assert here.post("/v1/messages", json=body(said(5))).status_code == 429


def test_whatever_stores_what_people_wrote_counts_as_a_message_of_the_day(client: httpx.Client) -> None:
    message, edit = f"/v1/messages/{CHAT}/unknown", {"content": "x" * 60_000}
    scopes = ["ingest", "context", "write"]
    with using(client, made(client, messages_per_day=3, scopes=scopes)["key"]) as bot:
        for _ in range(2):
            assert bot.patch(message, json=edit).status_code == 202
        # what stores nothing does not count
        assert bot.post("/v1/context", json={"chat_id": CHAT, "query": "?"}).status_code == 200
        assert bot.delete(message).status_code == 200
        edited = {"type": "message.edited", "data": {"chat_id": CHAT, "external_id": "m9", "content": "x"}}
        for method, path, sent in (
            ("PATCH", message, edit),
            ("DELETE", message, None),
            ("PUT", f"/v1/chats/{CHAT}/members", {"members": ["test:ann"]}),
            ("POST", "/v1/events/standard", edited),
            ("POST", "/v1/messages", body()),
            ("POST", "/v1/contexts/1/answer", {}),
            ("POST", "/v1/memories", {}),
            ("PATCH", "/v1/memories/1", {}),
            ("POST", "/v1/memories/1/correct", {}),
            ("POST", "/v1/documents", {}),
        ):
            refused = bot.request(method, path, json=sent)
            assert "3 messages a day" in problem_of(refused, 429)["detail"], path


def test_when_a_key_was_used_is_written_within_seconds(client: httpx.Client) -> None:
    used, _ = made(client), made(client)

    def last_used() -> list[str | None]:
        return [key["last_used_at"] for key in client.get("/v1/keys").json()["keys"]]

    assert last_used() == [None, None]
    with using(client, used["key"]) as bot:
        bot.get("/v1/keys/current")
    until(lambda: last_used()[1], "the use is written")
    assert last_used()[0] is None


def test_of_a_secret_only_its_digest_is_kept(
    client: httpx.Client, settings: Settings, database: Database
) -> None:
    secret = str(made(client)["key"])
    assert re.fullmatch(r"bks_[\w-]{43}", secret)
    (stored,) = rows(database, "SELECT CAST(k AS text), digest FROM api_keys k")
    assert secret not in stored[0]
    assert stored[1] == hashlib.sha256(secret.encode()).digest()
    # the list shows it to nobody
    assert secret not in client.get("/v1/keys").text
    # and whoever sees no tenant finds a key by nothing but its digest
    with database.tenant("") as connection:
        assert connection.execute(text("SELECT * FROM api_keys")).all() == []
        found = connection.execute(text("SELECT * FROM api_keys_of(ARRAY[sha256('bks_guessed')])")).all()
    assert found == []
