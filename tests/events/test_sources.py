"""A platform sends to its source's own URL, proves itself as its own libraries sign, and nobody else can."""

import base64
import json
import time
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from pipeline.store.connections.database import Database
from tests.api.conftest import problem_of
from tests.conftest import TENANT
from tests.events.conftest import cases
from tests.harness.sources import (
    SECRETS,
    add,
    send,
    signed,
)
from workers.api.routes import events

PLATFORMS = ("telegram", "slack", "discord", "whatsapp", "matrix", "line", "standard")


def messages(database: Database) -> int:
    with database.tenant(TENANT) as connection:
        return int(connection.scalar(text("SELECT count(*) FROM messages")) or 0)


def test_only_what_the_platform_signed_is_stored(client: httpx.Client, database: Database) -> None:
    for platform in PLATFORMS:
        require_proof(client, database, platform)


def require_proof(client: httpx.Client, database: Database, platform: str) -> None:
    before = messages(database)
    path, secret = add(client, platform)
    body = json.dumps(cases(platform)[0]["send"][0], ensure_ascii=False).encode()
    right = signed(platform, secret, body)
    # Given what is signed with another secret, not at all, or with a part of the right proof
    other = {"standard": "whsec_" + base64.b64encode(b"x" * 24).decode()}.get(platform, "wrong-secret-wrong")
    forged = [{}, {name: value[:-1] for name, value in right.items()}, dict.fromkeys(right, "")]
    if platform != "discord":
        forged.append(signed(platform, other, body))
    for headers in forged:
        problem = problem_of(send(client, path, body, headers), 401)
        assert problem["type"] == "urn:backscroll:problem:unproven"
        assert secret not in json.dumps(problem)
    # a body that was changed on its way
    if platform not in ("telegram", "matrix"):
        problem_of(send(client, path, body.replace(b"{", b"{ ", 1), right), 401)
    # or sent at another time, of a platform that signs it
    for stamp in (int(time.time()) - 302, int(time.time()) + 320):
        if (replayed := signed(platform, secret, body, stamp)) != right:
            assert "5 minutes" in problem_of(send(client, path, body, replayed), 401)["detail"]
        else:
            assert platform in ("telegram", "whatsapp", "matrix", "line")
    # nor is a source of the platform another one of it, and an unknown one is none
    other_path, _ = add(client, platform)
    if platform == "telegram":
        problem_of(send(client, other_path, body, right), 401)
        problem_of(send(client, path.replace("telegram", "slack"), body, right), 404)
    problem_of(send(client, f"/v1/events/{platform}/unknown", body, right), 404)
    assert messages(database) == before
    # When the platform sends it, twice
    for _ in range(2):
        answer = send(client, path, body, right)
        assert answer.status_code == (204 if platform == "discord" else 200), answer.text
    # Then it is stored once
    assert messages(database) == before + cases(platform)[0]["answer"]["accepted"]


def test_handshakes_are_answered(client: httpx.Client) -> None:
    path, secret = add(client, "slack")
    body = json.dumps({"type": "url_verification", "challenge": "3eZbrw1a"}).encode()
    assert send(client, path, body, signed("slack", secret, body)).json() == {"challenge": "3eZbrw1a"}
    problem_of(send(client, path, body, {}), 401)
    path, secret = add(client, "discord")
    for ping, answered in (({"type": 1}, {"type": 1}), ({"version": 1, "type": 0}, None)):
        body = json.dumps(ping).encode()
        answer = send(client, path, body, signed("discord", secret, body))
        assert (answer.json() if answer.content else None) == answered

    path, secret = add(client, "line")
    body = json.dumps({"destination": "U1", "events": []}).encode()
    assert send(client, path, body, signed("line", secret, body)).status_code == 200

    # and WhatsApp's shows no secret in its URL
    made = client.post("/v1/sources", json={"platform": "whatsapp", "secret": SECRETS["whatsapp"]}).json()
    asked = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": made["verify_token"]}
    answer = httpx.get(client.base_url.join(made["path"]), params=asked)
    assert (answer.status_code, answer.text) == (200, "1158201444")
    wrong = httpx.get(client.base_url.join(made["path"]), params=asked | {"hub.verify_token": "x"})
    problem_of(wrong, 401)
    assert SECRETS["whatsapp"] not in json.dumps(made)


def test_what_is_proven_and_unreadable_is_answered_with_200(client: httpx.Client, database: Database) -> None:
    path, secret = add(client, "telegram")
    for body, reason in (
        (b'{"update_id": 1', "not JSON"),
        (b"[{}]", "neither an update"),
        (b"\xff", "UTF-8"),
    ):
        answer = send(client, path, body, signed("telegram", secret, body))
        assert answer.status_code == 200, answer.text
        assert reason in answer.json()["broken"][0]["reason"]
    assert messages(database) == 0


def test_sources_are_listed_without_secrets_and_a_removed_one_is_refused_soon(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SOURCE_SECONDS", 0.5)
    path, secret = add(client, "telegram")
    body = json.dumps(cases("telegram")[0]["send"][0]).encode()

    def status() -> int:
        return send(client, path, body, signed("telegram", secret, body)).status_code

    assert status() == 200
    listed = client.get("/v1/sources")
    (source,) = listed.json()["sources"]
    assert path.endswith(source["source_id"])
    assert secret not in listed.text
    assert client.delete(f"/v1/sources/{source['source_id']}").status_code == 200
    problem_of(client.delete(f"/v1/sources/{source['source_id']}"), 404)
    deadline = time.monotonic() + 20
    while status() != 404:
        assert time.monotonic() < deadline


def key_with(client: httpx.Client, *scopes: str, **limits: object) -> tuple[int, dict[str, str]]:
    """A new key's id, and the headers of whoever has it."""
    made = client.post("/v1/keys", json={"label": "maker", "scopes": scopes, **limits}).json()
    return made["id"], {"Authorization": f"Bearer {made['key']}"}


def update(number: int, chat: int, **said: Any) -> bytes:
    about = {"message_id": number, "date": 1777300000, "chat": {"id": chat, "type": "group", "title": "All"}}
    sender = {"from": {"id": 5, "is_bot": False, "first_name": "Ann"}, "text": "Hi."}
    return json.dumps({"update_id": number, "message": about | sender | said}).encode()


def test_a_source_may_do_no_more_than_the_key_that_made_it_and_ends_with_it(
    client: httpx.Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SOURCE_SECONDS", 0.2)
    # Given a key that may not hand over messages itself
    _, headers = key_with(client, "operate")
    refused = problem_of(client.post("/v1/sources", json={"platform": "telegram"}, headers=headers), 422)
    assert "ingest" in refused["detail"]
    # Given one that may hand over two a day
    maker, headers = key_with(client, "operate", "ingest", messages_per_day=2)
    made = client.post("/v1/sources", json={"platform": "telegram"}, headers=headers).json()
    assert made["made_by"] == maker

    def status(number: int) -> int:
        return send(
            client, made["path"], update(number, -7), signed("telegram", made["secret"], b"")
        ).status_code

    assert [status(number) for number in (1, 2, 3)] == [200, 200, 429]
    # When it is revoked
    assert client.delete(f"/v1/keys/{maker}").status_code == 200
    deadline = time.monotonic() + 20
    while status(1) != 404:
        assert time.monotonic() < deadline
    assert [source["has_ended"] for source in client.get("/v1/sources").json()["sources"]] == [True]
    assert messages(database) == 2


def test_a_source_for_some_chats_writes_to_no_other(client: httpx.Client, database: Database) -> None:
    wanted = {"platform": "telegram", "chats": ["telegram:-7"]}
    made = client.post("/v1/sources", json=wanted).json()
    proof = signed("telegram", made["secret"], b"")
    receipts = [
        send(client, made["path"], body, proof).json()
        for body in (
            update(1, -7),
            update(2, -8),
            update(3, -8, edit_date=1777300100, text="Forged."),
            update(4, -8, left_chat_member={"id": 6, "is_bot": False, "first_name": "Bo"}),
            update(5, -7, migrate_to_chat_id=-8),
        )
    ]
    assert [(receipt["accepted"], sum(receipt["not_kept"].values())) for receipt in receipts] == [
        (1, 0),
        *[(0, 1)] * 4,
    ]
    with database.tenant(TENANT) as connection:
        told = connection.execute(text("SELECT chat_id, apart FROM chats"))
        # whoever made it could forge what the platform says
        assert [tuple(row) for row in told] == [("telegram:-7", True)]
    # a platform's new id of the chat, which a key for all chats has confirmed, is the source's, too
    assert client.post("/v1/chats/telegram:-7/rename", json={"to": "telegram:-100"}).is_success
    assert client.get("/v1/sources").json()["sources"][0]["chats"] == ["telegram:-7", "telegram:-100"]


@pytest.mark.parametrize(
    ("given", "field", "detail"),
    [
        ({"platform": "slack"}, "secret", "slack has one of its own"),
        ({"platform": "baileys"}, "platform", "telegram"),
        ({"platform": "discord", "secret": "zz" * 32}, "secret", "64 hexadecimal digits"),
        ({"platform": "telegram", "secret": "with spaces in it"}, "secret", "letters, digits"),
    ],
)
def test_a_source_that_cannot_be_is_refused(
    standing_client: httpx.Client, given: dict[str, Any], field: str, detail: str
) -> None:
    problem = problem_of(standing_client.post("/v1/sources", json=given), 422)
    assert problem["field"] == field
    assert detail in problem["detail"]


def test_a_homeserver_sends_its_transactions(client: httpx.Client, database: Database) -> None:
    path, secret = add(client, "matrix")
    url = client.base_url.join(f"{path}/_matrix/app/v1/transactions/1")
    transaction = cases("matrix")[0]["send"][0]
    problem_of(httpx.put(url, json=transaction), 401)
    assert messages(database) == 0
    for _ in range(2):
        answer = httpx.put(url, json=transaction, headers={"Authorization": f"Bearer {secret}"})
        assert (answer.status_code, answer.json()) == (200, {})
    assert messages(database) == 2
