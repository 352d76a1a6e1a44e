"""No credential is stored, whichever door it comes through; what was stored before is masked by a backfill."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from pipeline.operations.doctor import collect
from pipeline.store.connections.database import Database
from schemas import masking
from schemas.settings import Settings
from tests.commands.conftest import Run, Workers, run, whatsapp  # noqa: F401
from tests.conftest import SESSION_POLICY, TENANT
from tests.harness.pipeline import rows
from tests.schemas import credentials
from tests.tables import OF_TENANTS
from workers.logging import configure_logging

CHAT = "test:house"


@pytest.fixture
def workers(database: Database, settings: Settings) -> Workers:
    return Workers(database, settings)


@pytest.fixture(autouse=True)
def _mode() -> Iterator[None]:
    yield
    masking.use("mask")


@pytest.fixture
def client(settings: Settings) -> Iterator[httpx.Client]:
    from tests.api.conftest import served

    with served(settings) as client:
        yield client


def everything(database: Database) -> str:
    """All rows of the tenant in all tables, as text."""
    return "\n".join(
        str(row[0]) for table in OF_TENANTS for row in rows(database, f"SELECT t::text FROM {table} t")
    )


def left(database: Database, secrets: list[str]) -> list[str]:
    stored = everything(database)
    # of a block of lines, any line; in JSON its ends are written otherwise
    return [secret for secret in secrets if secret.splitlines()[len(secret.splitlines()) // 2] in stored]


def tell(client: httpx.Client, texts: list[str]) -> None:
    """Put texts through every door of the HTTP API."""
    messages = [
        {
            "external_id": str(n),
            "sender_id": f"test:{n % 3}",
            "sender_name": f"Ana {text}"[:200] if n % 20 == 0 else "Ana",
            "content": text,
            "metadata": {"tool": {"input": text}} if n % 3 == 0 else {},
            "sent_at": 1_700_000_000 + 20 * n,
        }
        for n, text in enumerate(texts)
    ]
    chat = {"chat_id": CHAT, "title": f"House {texts[0]}"[:300]}
    assert client.post("/v1/messages", json={"chat": chat, "messages": messages}).status_code == 202
    edit = {"content": f"edited: {texts[1]}"}
    assert client.patch(f"/v1/messages/{CHAT}/2", json=edit).json()["outcome"] == "edited"
    assert client.patch(f"/v1/messages/{CHAT}/later", json=edit).json()["outcome"] == "pending"
    for text in texts[:12]:
        memory = {
            "scope": "organization",
            "type": "fact",
            "content": f"We use {text}",
            "metadata": {"a": text},
        }
        assert client.post("/v1/memories", json=memory).status_code in {200, 201}
        said = client.post(
            "/v1/context", json={"chat_id": CHAT, "query": f"what is {text}", "user_id": "test:1"}
        )
        assert said.status_code == 200, said.text
        reported = {"answer": f"It is {text}", "remember": True}
        assert (
            client.post(f"/v1/contexts/{said.json()['context_id']}/answer", json=reported).status_code == 200
        )
    document = {"document_id": "keys", "content": "\n\n".join(texts)}
    assert client.post("/v1/documents", json=document).status_code in {200, 201}


def test_two_hundred_credentials_go_through_every_door_and_none_is_stored_found_or_logged(
    client: httpx.Client,
    database: Database,
    workers: Workers,
    capfd: pytest.CaptureFixture[str],
) -> None:
    told = list(credentials.secrets())
    secrets, texts = [secret for _, secret, _ in told], [text for *_, text in told]
    configure_logging("debug")
    tell(client, texts)
    workers.finish()
    refused = client.post("/v1/messages", json={"chat": CHAT, "messages": [{secrets[1]: secrets[2]}]})
    shown = [
        client.post("/v1/context", json={"chat_id": CHAT, "query": f"what is {text}"}) for text in texts[::9]
    ]
    found = [
        client.post("/v1/search", json={"chat_id": CHAT, "query": secret[:200]}) for secret in secrets[::9]
    ]
    answers = "\n".join([*capfd.readouterr(), *(answer.text for answer in (*shown, *found))])
    assert refused.status_code == 422
    assert left(database, secrets) == []
    assert [secret for secret in secrets if secret[:60] in answers] == []
    # the same again is the same
    again = client.post(
        "/v1/messages",
        json={
            "chat": CHAT,
            "messages": [{"external_id": "0", "sender_id": "test:0", "content": texts[0], "sent_at": 1}],
        },
    )
    assert again.json()["duplicates"] == 1
    counted = rows(database, "SELECT sum(value) FROM daily_counters WHERE name = 'texts_masked'")
    assert int(str(counted[0][0]).partition(".")[0]) > len(texts)


def test_what_was_stored_before_is_counted_and_masked_on_request_with_all_that_was_made_of_it(
    client: httpx.Client,
    database: Database,
    workers: Workers,
    run: Run,  # noqa: F811
) -> None:
    told = list(credentials.secrets())[:24]
    secrets, texts = [secret for _, secret, _ in told], [text for *_, text in told]
    masking.use("keep")
    tell(client, texts)
    workers.finish()
    assert len(left(database, secrets)) == len(secrets)
    before = rows(database, "SELECT count(*), count(edited_at) FROM messages")

    planned = run("backfills", "start", "secrets", "--dry-run", "--json").json
    assert planned["missing"] > len(texts)
    (tenant,) = collect.tenant_data(database, {TENANT: []}, SESSION_POLICY)
    assert tenant.unmasked == planned["missing"]
    assert "for good" in run("backfills", "start", "secrets").err
    assert len(left(database, secrets)) == len(secrets)

    assert run("backfills", "start", "secrets", "--yes", "--json").code == 0
    workers.finish()
    assert rows(database, "SELECT state, error FROM backfills ORDER BY id DESC LIMIT 1") == [
        ("completed", None)
    ]
    assert left(database, secrets) == []
    assert rows(database, "SELECT count(*), count(edited_at) FROM messages") == before
    lacking = """
        SELECT count(*) FROM messages m WHERE content <> '' AND NOT EXISTS (
            SELECT FROM message_vectors v WHERE v.message_id = m.id)
    """
    assert rows(database, lacking) == [(0,)]
    assert rows(
        database, "SELECT count(*) FROM conversation_sessions WHERE summary_text LIKE '%[masked: %'"
    ) != [(0,)]
    assert run("backfills", "start", "secrets", "--dry-run", "--json").json["missing"] == 0


def test_a_history_imported_before_and_after_is_stored_once_and_its_ids_tell_nothing(
    database: Database,
    workers: Workers,
    run: Run,  # noqa: F811
    whatsapp: Callable[..., Path],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cards = [secret for shape, secret, _ in credentials.secrets() if shape == "card"][:4]
    lines = [f"[23/05/2024, 09:{n:02}:00] Ana: card {card}" for n, card in enumerate(cards)]
    lines += ["[23/05/2024, 09:30:00] Björn: ok, 好的", "[23/05/2024, 09:31:00] Ana: بكرة"]
    path = whatsapp(*lines)
    ids = "SELECT external_id FROM messages ORDER BY sent_at"

    def imports() -> int:
        done = run("import", path, "--tz", "Europe/Berlin", "--json")
        assert done.code == 0, done.err
        workers.finish()
        return int(done.json["new"])

    monkeypatch.setenv("BACKSCROLL_SECRETS", "keep")
    assert imports() == 6
    plain = rows(database, ids)
    monkeypatch.delenv("BACKSCROLL_SECRETS")
    # before the backfill, after it, and once more
    assert imports() == 0
    assert run("backfills", "start", "secrets", "--yes").code == 0
    workers.finish()
    assert imports() == 0
    keyed = rows(database, ids)
    assert len(keyed) == 6
    assert [a == b for a, b in zip(plain, keyed, strict=True)] == [False] * 4 + [True] * 2
    assert left(database, cards) == []
