"""What a bot relies on when it asks for a context, and when it searches."""

from typing import Any

import httpx
import pytest

from tests.api.conftest import CHAT, body, problem_of, said

ALWAYS = {
    "context_id",
    "text",
    "messages",
    "blocks",
    "used_tokens",
    "budget",
    "counted_by",
    "degraded",
    "evidence",
    "evidence_probability",
    "fell_back",
}


@pytest.fixture(scope="module")
def house(standing_client: httpx.Client) -> httpx.Client:
    """An HTTP API that stores a chat."""
    lines = ["The boiler is broken.", "We have it repaired on Monday.", "And Sardinha needs cat food."]
    standing_client.post("/v1/messages", json=body(*(said(n, line) for n, line in enumerate(lines))))
    return standing_client


def ask(client: httpx.Client, query: str = "What about the boiler?", **fields: Any) -> httpx.Response:
    return client.post("/v1/context", json={"chat_id": CHAT, "query": query} | fields)


def test_a_context_holds_what_was_just_said_in_the_same_fields_every_time(house: httpx.Client) -> None:
    answer = ask(house)
    assert answer.status_code == 200, answer.text
    context = answer.json()
    assert context.keys() == ALWAYS
    assert "The boiler is broken." in context["text"]
    assert context["messages"][-1]["role"] == "user"
    assert "What about the boiler?" in context["messages"][-1]["content"]
    assert context["used_tokens"] <= context["budget"]
    items = [item for block in context["blocks"] for item in block["items"]]
    assert {*items[0]} == {"kind", "id", "text", "at", "speaker", "answers", "score", "reason"}
    assert ask(house, explain=True).json().keys() == ALWAYS | {"explain"}


def test_a_question_may_be_put_with_the_field_names_that_users_of_ask_know(house: httpx.Client) -> None:
    own = {
        "session_key": "заказ-7",
        "include_history": False,
        "max_history_tokens": 50,
        "top_k_documents": 2,
        "top_k_memories": 1,
    }
    known = {
        "sessionId": "заказ-7",
        "includeHistory": False,
        "maxHistoryTokens": 50,
        "topKDocs": 2,
        "topKMems": 1,
    }
    answers = [ask(house, profile="ask", explain=True, **fields) for fields in (own, known, own | known)]
    assert [answer.status_code for answer in answers] == [200] * 3, answers[1].text
    first, *others = (answer.json()["explain"]["parameters"] for answer in answers)
    assert (first["history_tokens"], first["documents"], first["memories"]) == (50, 2, 1)
    assert others == [first, first]
    # two names that contradict each other are refused
    problem = problem_of(ask(house, profile="ask", topKMems=3, top_k_memories=4), 422)
    assert all(name in problem["detail"] for name in ("topKMems", "top_k_memories", "differ"))


def test_a_question_changes_what_the_description_lists_and_no_weight(house: httpx.Client) -> None:
    schemas = house.get("/openapi.json").json()["components"]["schemas"]
    listed = schemas["ContextParameters"]["properties"]
    assert all(each["description"] for each in listed.values())
    shown = ask(house, parameters={"messages": 2, "min_similarity": 0.25}, explain=True).json()["explain"]
    assert (shown["parameters"]["messages"], shown["parameters"]["min_similarity"]) == (2, 0.25)
    # the explanation has the weights, which are those of the deployment
    assert "words" in shown["constants"]
    for closed in ("words", "blend_time"):
        problem = problem_of(ask(house, parameters={closed: 1}), 422)
        assert problem["field"] == "parameters"
        assert f"cannot change {closed!r}, only {', '.join(listed)}" in problem["detail"]


def test_a_hit_is_the_whole_message_and_where_it_stands(house: httpx.Client) -> None:
    asked = {"chat_id": CHAT, "query": "sardinha", "mode": "exact"}
    (hit,) = house.post("/v1/search", json=asked).json()["hits"]
    assert (hit["text"], hit["speaker"], hit["external_id"]) == ("And Sardinha needs cat food.", "Ann", "m2")
    assert {"kind", "id", "session_id", "at", "preview", "rank", "score", "components", "role"} <= hit.keys()
