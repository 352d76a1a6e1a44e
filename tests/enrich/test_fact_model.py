"""Facts are learned by a language model behind HTTP: what it makes up is dropped, and no call is in vain."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from pipeline.clients.openai.openai_chat import OpenAIChatModel
from pipeline.enrich.facts.fact_model import LanguageModelExtractor
from pipeline.enrich.protocols import FactExtractor, People, Source
from pipeline.enrich.summaries.answers import InvalidAnswer
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.llm.gateway import Gateway
from pipeline.store.connections.database import Database
from pipeline.store.jobs import claims
from pipeline.store.jobs.jobs import Claim
from schemas.errors import ProviderRejected, ProviderUnavailable
from schemas.facts import Fact, KnownFact
from schemas.sessions import Message
from tests.conftest import TENANT
from tests.conftest import message as given_message
from tests.enrich.test_prompts import message
from tests.providers.chat_server import ChatServer, Reply, Request, refused
from tests.test_pipeline import CHAT, place, rows

MODEL = "small-1"
PEOPLE = People(kind="group", names={"Ann": "test:Ann", "Ben": "test:Ben"}, agent="Harbour")
SAID = (
    ("Ann", "user", "hey, guess who finally lives in Porto"),
    ("Ben", "user", "congratulations! is there room for my cello"),
    ("Harbour", "assistant", "Ann, you also keep bees, as I remember."),
    ("Ann", "user", "sure, but no nuts in the house please, they would kill me"),
)
PORTO = {
    "content": "Ann lives in Porto.",
    "category": "fact",
    "about": "speaker",
    "subject": "Ann",
    "attribute": "home",
    "value": "porto",
    "confidence": 0.9,
    "importance": 7,
    "messages": [1],
    "holds_from": None,
    "holds_until": None,
    "replaces": [],
}
CELLO = PORTO | {
    "content": "Ben plays the cello.",
    "subject": "Ben",
    "attribute": "plays cello",
    "value": "yes",
    "importance": 4,
    "messages": [2],
}
NUTS = PORTO | {
    "content": "Ann is allergic to nuts.",
    "attribute": "allergic nuts",
    "value": "yes",
    "importance": 9,
    "messages": [4],
}
LISBON = KnownFact(
    id=UUID(int=1),
    content="Ann lives in Lisbon.",
    subject="Ann",
    attribute="home",
    value="lisbon",
    said_at=datetime(2026, 1, 5, tzinfo=UTC),
)
SOURCE = Source(tenant_id=TENANT, chat_id=CHAT.chat_id)
Extracting = Callable[..., list[Fact]]


def talk(*said: tuple[str, str, str]) -> list[Message]:
    return [
        replace(message(n, speaker, content), sender_id=f"test:{speaker}", role=role)
        for n, (speaker, role, content) in enumerate(said or SAID)
    ]


def facts(*given: dict[str, Any]) -> Reply:
    return Reply(text=json.dumps({"facts": given}))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """An endpoint that finds three facts."""
    server = ChatServer()
    server.replies(then=lambda _request: facts(PORTO, CELLO, NUTS))
    with server.running():
        yield server


@pytest.fixture
def extractor(database: Database, server: ChatServer) -> Iterator[LanguageModelExtractor]:
    """The extractor behind it, which does not wait long."""
    with closing(OpenAIChatModel(MODEL, base_url=server.url)) as model:
        yield LanguageModelExtractor(Gateway(database, model), timeout_seconds=3, context_tokens=16_000)


@pytest.fixture
def extract(extractor: LanguageModelExtractor) -> Extracting:
    """`extract(messages)`: what is learned from them."""

    def extract(messages: list[Message] | None = None, **named: Any) -> list[Fact]:
        options = {"people": PEOPLE, "source": SOURCE} | named
        return extractor.extract(messages or talk(), **options)

    return extract


@pytest.fixture
def claiming(database: Database, rules: SessionPolicy, policy: Policy) -> Callable[[], Claim]:
    """`claiming()`: the claim of the worker that reads a session, whoever had it before is dead."""
    said = [given_message(n, content, id=f"m{n}") for n, (_, _, content) in enumerate(SAID)]
    accept.accept(database, TENANT, CHAT, said)
    place(database, rules, policy)

    def claim() -> Claim:
        with database.maintenance() as connection:
            connection.execute(
                text("UPDATE jobs SET due_at = now() - interval '1 s' WHERE kind = 'summarize'")
            )
            claimed = claims.claim(connection, "summarize", batch=1, lease_seconds=60, max_attempts=5)
        (row,) = claimed.rows
        return row

    return claim


def contents(found: list[Fact]) -> list[str]:
    return [fact.content for fact in found]


def calls(database: Database) -> list[tuple[object, ...]]:
    return rows(database, "SELECT purpose, outcome FROM llm_calls ORDER BY id")


# A good day


def test_a_session_costs_one_call_and_the_most_important_comes_first(
    database: Database, extractor: LanguageModelExtractor, server: ChatServer
) -> None:
    client: FactExtractor = extractor
    server.replies(facts(PORTO | {"replaces": ["k1"]}, CELLO, NUTS))
    found = client.extract(talk(), people=PEOPLE, known=[LISBON], source=SOURCE)
    assert contents(found) == ["Ann is allergic to nuts.", "Ann lives in Porto.", "Ben plays the cello."]
    assert found[1].replaces == (LISBON.id,)
    assert [fact.message_ids for fact in found] == [(3,), (0,), (1,)]
    assert client.model == MODEL
    assert calls(database) == [("extract", "answered")]
    (request,) = server.requests
    assert request["response_format"]["type"] == "json_schema"
    data = request["messages"][1]["content"]
    assert "k1: Ann lives in Lisbon. (since 2026-01-05)" in data
    assert "[3] 2026-03-02 23:32 Harbour (bot): Ann, you also keep bees" in data


def test_no_more_are_kept_than_asked_for(extract: Extracting, server: ChatServer) -> None:
    assert contents(extract(most=1)) == ["Ann is allergic to nuts."]
    assert "at most 1," in server.requests[0]["messages"][0]["content"]


def test_half_a_sign_in_an_answer_is_left_out(extract: Extracting, server: ChatServer) -> None:
    # as `"\\ud83d"` in its JSON, which is text to a JSON parser and nothing that can be stored
    server.replies(facts(NUTS | {"content": "Ann is allergic \ud83d to nuts.", "value": "nuts\ud83d"}))
    (fact,) = extract()
    assert (fact.content, fact.value) == ("Ann is allergic to nuts.", "nuts")


def test_where_only_a_bot_speaks_nobody_is_asked(extract: Extracting, server: ChatServer) -> None:
    assert extract(talk(("Harbour", "assistant", "Ann, you live in Porto."))) == []
    assert server.requests == []


# Answers that cannot be used


@pytest.mark.parametrize(
    ("bad", "error", "asked"),
    [
        (Reply(text="I have noted it."), InvalidAnswer, 2),
        (refused("the text is too long"), ProviderRejected, 1),
        (Reply(status=500, text="oops"), ProviderUnavailable, 1),
    ],
    ids=["prose", "refused", "500"],
)
def test_where_no_answer_can_be_used_that_is_said_and_not_taken_for_nothing_learned(
    extract: Extracting, server: ChatServer, bad: Reply, error: type[Exception], asked: int
) -> None:
    server.replies(then=lambda _request: bad)
    with pytest.raises(error, match=f"{MODEL}|127.0.0.1"):
        extract()
    assert len(server.requests) == asked


# Long sessions


def test_a_session_longer_than_the_window_is_read_in_parts_and_the_last_word_counts(
    database: Database, server: ChatServer
) -> None:
    # Given a long session in which Ann says of every twentieth town that she lives there
    said = [
        (
            "Ann",
            "user",
            f"I live in Town{n} now" if n % 20 == 0 else f"part {n}: " + "boiler pipes leak " * 20,
        )
        for n in range(80)
    ]
    asked_before = []

    def answer(request: Request) -> Reply:
        lines = request["messages"][1]["content"].splitlines()
        towns = [re.fullmatch(r"\[(\d+)\] .* Ann: I live in (Town\d+) now", line) for line in lines]
        return facts(
            *(
                PORTO | {"content": f"Ann lives in {town[2]}.", "value": town[2], "messages": [int(town[1])]}
                for town in towns
                if town
            )
        )

    server.answer = answer
    source = Source(tenant_id=TENANT, before_call=lambda: asked_before.append(1))
    with closing(OpenAIChatModel(MODEL, base_url=server.url)) as model:
        extractor = LanguageModelExtractor(Gateway(database, model), timeout_seconds=3, context_tokens=4000)
        found = extractor.extract(talk(*said), people=PEOPLE, known=[LISBON] * 50, source=source)
    # Then it was asked about every message once, and of her homes the last one is left
    told = [request["messages"][1]["content"] for request in server.requests]
    assert len(told) > 4
    for number in range(80):
        pattern = f"part {number}:" if number % 20 else f"Town{number} now"
        assert sum(pattern in data for data in told) == 1
    assert all(len(data) < 4000 * 4 for data in told)
    # with the lease renewed before each call
    assert len(asked_before) == len(told)
    assert contents(found) == ["Ann lives in Town60."]
    assert found[0].message_ids == (60,)


# What was paid for


def test_answers_that_could_not_be_used_are_asked_for_anew_once_they_are_forgotten(
    database: Database, extractor: LanguageModelExtractor, server: ChatServer, claiming: Callable[[], Claim]
) -> None:
    # Given a job whose answers are of no use: while they are kept, another try gets the same ones
    source = replace(SOURCE, claim=claiming())
    server.replies(
        Reply(text="prose"), Reply(text="prose again"), then=lambda _request: facts(PORTO, CELLO, NUTS)
    )
    for _ in range(2):
        with pytest.raises(InvalidAnswer):
            extractor.extract(talk(), people=PEOPLE, source=source)
    assert len(server.requests) == 2
    # When they are forgotten with what was saved in their place
    with database.tenant(TENANT) as connection:
        extractor.forget_answers(connection, source)
    assert len(extractor.extract(talk(), people=PEOPLE, source=replace(source, claim=claiming()))) == 3
    assert len(server.requests) == 3
