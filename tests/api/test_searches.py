"""What a bot relies on when it searches, and when it asks for more."""

from typing import Any

import httpx
import pytest

from tests.api.conftest import body, said

CHAT = "test:searched"


@pytest.fixture(scope="module")
def house(standing_client: httpx.Client) -> httpx.Client:
    """An HTTP API that stores a chat."""
    lines = ["The boiler shows E41.", "We have it repaired on Monday.", "And Sardinha needs cat food."]
    sent = body(*(said(n, line) for n, line in enumerate(lines)), chat=CHAT)
    standing_client.post("/v1/messages", json=sent)
    return standing_client


def search(client: httpx.Client, query: str = "e41", **fields: Any) -> httpx.Response:
    return client.post("/v1/search", json={"chat_id": CHAT, "query": query, "mode": "exact"} | fields)


@pytest.mark.parametrize("mode", ["hybrid", "similar", "topic", "contextual", "exact"])
def test_every_mode_answers_with_the_same_fields(house: httpx.Client, mode: str) -> None:
    answer = search(house, mode=mode)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found.keys() == {
        "mode",
        "hits",
        "sessions",
        "related",
        "fell_back",
        "searched_back_to",
        "vector_search",
        "degraded",
    }
    assert found["vector_search"] == ("exact" if mode in {"similar", "hybrid", "contextual"} else None)
    assert found["mode"] == mode


def test_a_hit_is_the_whole_message_and_where_it_stands(house: httpx.Client) -> None:
    (hit,) = search(house).json()["hits"]
    assert (hit["text"], hit["speaker"], hit["external_id"]) == ("The boiler shows E41.", "Ann", "m0")
    assert {"kind", "id", "session_id", "at", "preview", "rank", "score", "components", "role"} <= hit.keys()


@pytest.mark.parametrize("word", ["Donau.dampf.schiff", "авто.мо.биль"])
def test_a_soft_hyphen_parts_no_word(standing_client: httpx.Client, word: str) -> None:
    whole, hyphened = word.replace(".", ""), word.replace(".", "\u00ad")
    chat = f"test:{whole}"
    sent = body(said(1, f"1 {hyphened} 🚢"), said(2, f"2 {whole}"), said(3, "3 ничего, rien"), chat=chat)
    assert standing_client.post("/v1/messages", json=sent).status_code == 202
    for query in (whole, hyphened):
        found = search(standing_client, query, chat_id=chat).json()["hits"]
        assert {hit["text"][0] for hit in found} >= {"1", "2"}, query
