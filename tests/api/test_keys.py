"""API keys over HTTP: what each may do, for whom, how often, and until when."""

import httpx

from tests.api.conftest import CHAT, body, problem_of, said
from tests.conftest import TENANT

ALL = ["ingest", "context", "read", "write", "erase", "operate"]


def made(client: httpx.Client, **given: object) -> dict[str, object]:
    """A new key, made with the client's own."""
    answer = client.post("/v1/keys", json={"label": "a bot", "scopes": ["ingest"]} | given)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def using(client: httpx.Client, key: object) -> httpx.Client:
    """The same API with another key."""
    return httpx.Client(base_url=client.base_url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


def test_a_key_tells_what_it_may_do(client: httpx.Client) -> None:
    # Given a key for two chats
    chats = ["telegram:-1", "телеграм:дом"]
    new = made(client, label="Бот дома 🏠", scopes=["read", "ingest"], chats=chats, requests_per_second=0.3)
    # When it asks for itself
    with using(client, new["key"]) as bot:
        current = bot.get("/v1/keys/current").json()
    # Then it hears all but a secret
    assert current == {
        "id": new["id"],
        "tenant": TENANT,
        "label": "Бот дома 🏠",
        "scopes": ["ingest", "read"],
        "chats": chats,
        "requests_per_second": 0.3,
        "messages_per_day": None,
        "expires_at": None,
    }
    # and so does the key of the settings
    own = client.get("/v1/keys/current").json()
    assert (own["id"], own["tenant"], own["scopes"], own["chats"]) == (None, TENANT, ALL, None)


def test_a_key_does_what_its_scopes_say_and_names_the_one_that_is_missing(client: httpx.Client) -> None:
    with using(client, made(client)["key"]) as bot:
        assert bot.post("/v1/messages", json=body(said(1))).status_code == 202
        problem = problem_of(bot.post("/v1/context", json={"chat_id": CHAT, "query": "hello?"}), 403)
    assert problem["type"] == "urn:backscroll:problem:forbidden"
    assert "scope `context`" in problem["detail"]
