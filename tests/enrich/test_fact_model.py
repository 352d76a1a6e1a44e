"""Facts are learned by a language model: a session costs one call, or one for each part, and none is in vain."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.clients.protocols import Completion, Prompt
from pipeline.enrich.facts.fact_model import LanguageModelExtractor
from pipeline.enrich.protocols import Source
from pipeline.enrich.summaries.answers import InvalidAnswer
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.llm.gateway import Gateway
from pipeline.store.connections.database import Database
from pipeline.store.jobs import claims
from pipeline.store.jobs.jobs import Claim
from schemas.errors import ProviderRejected, ProviderUnavailable
from schemas.memory.facts import Fact
from schemas.sessions import Message
from tests.conftest import TENANT
from tests.conftest import message as given_message
from tests.enrich.test_fact_prompts import GOOD, KNOWN, PEOPLE
from tests.enrich.test_prompts import message
from tests.llm.chat_models import Reply, ScriptedModel
from tests.test_pipeline import CHAT, place, rows

SAID = (
    ("Ann", "user", "hey, guess who finally lives in Porto"),
    ("Ben", "user", "congratulations! is there room for my cello"),
    ("Harbour", "assistant", "Ann, you also keep bees, as I remember."),
    ("Ann", "user", "sure, but no nuts in the house please, they would kill me"),
)
PORTO = GOOD | {"content": "Ann lives in Porto."}
CELLO = {"subject": "Ben", "attribute": "plays cello", "value": "yes", "importance": 4, "messages": [2]}
CELLO = PORTO | CELLO | {"content": "Ben plays the cello."}
NUTS = {"attribute": "allergic nuts", "value": "yes", "importance": 9, "messages": [4]}
NUTS = PORTO | NUTS | {"content": "Ann is allergic to nuts."}
LISBON = KNOWN[0]
SOURCE = Source(tenant_id=TENANT, chat_id=CHAT.chat_id)


def talk(*said: tuple[str, str, str]) -> list[Message]:
    return [
        replace(message(n, speaker, content), sender_id=f"test:{speaker}", role=role)
        for n, (speaker, role, content) in enumerate(said or SAID)
    ]


def facts(*given: dict[str, Any]) -> Completion:
    return Completion(text=json.dumps({"facts": given}))


def extract(
    database: Database,
    model: ScriptedModel,
    messages: list[Message] | None = None,
    context_tokens: int = 16_000,
    **named: Any,
) -> list[Fact]:
    extractor = LanguageModelExtractor(
        Gateway(database, model), timeout_seconds=3, context_tokens=context_tokens
    )
    return extractor.extract(messages or talk(), **{"people": PEOPLE, "source": SOURCE} | named)


def contents(found: list[Fact]) -> list[str]:
    return [fact.content for fact in found]


def test_a_session_costs_one_call_and_the_most_important_comes_first(database: Database) -> None:
    model = ScriptedModel(facts(PORTO | {"replaces": ["k1"]}, CELLO, NUTS))
    found = extract(database, model, known=[LISBON])
    assert contents(found) == ["Ann is allergic to nuts.", "Ann lives in Porto.", "Ben plays the cello."]
    assert found[1].replaces == (LISBON.id,)
    assert [fact.message_ids for fact in found] == [(3,), (0,), (1,)]
    assert rows(database, "SELECT purpose, outcome FROM llm_calls") == [("extract", "answered")]
    (prompt,) = model.prompts
    assert "k1: Ann lives in Lisbon. (since 2026-01-05)" in prompt.turns[0]
    assert "[3] 2026-03-02 23:32 Harbour (bot): Ann, you also keep bees" in prompt.turns[0]


def test_no_more_are_kept_than_asked_for(database: Database) -> None:
    model = ScriptedModel(facts(PORTO, CELLO, NUTS))
    assert contents(extract(database, model, most=1)) == ["Ann is allergic to nuts."]
    assert "at most 1," in model.prompts[0].system


def test_half_a_sign_in_an_answer_is_left_out(database: Database) -> None:
    # as `"\\ud83d"` in its JSON, which is text to a JSON parser and nothing that can be stored
    half = facts(NUTS | {"content": "Ann is allergic \ud83d to nuts.", "value": "nuts\ud83d"})
    (fact,) = extract(database, ScriptedModel(half))
    assert (fact.content, fact.value) == ("Ann is allergic to nuts.", "nuts")


@pytest.mark.parametrize(
    ("bad", "error", "calls"),
    [
        (Completion(text="I have noted it."), InvalidAnswer, 2),
        (ProviderRejected("the text is too long"), ProviderRejected, 1),
        (ProviderUnavailable("500"), ProviderUnavailable, 1),
    ],
    ids=["prose", "refused", "500"],
)
def test_where_no_answer_can_be_used_that_is_said_and_not_taken_for_nothing_learned(
    database: Database, bad: Reply, error: type[Exception], calls: int
) -> None:
    model = ScriptedModel(bad)
    with pytest.raises(error):
        extract(database, model)
    assert model.calls == calls


def test_a_session_longer_than_the_window_is_read_in_parts_and_the_last_word_counts(
    database: Database,
) -> None:
    # Given a long session in which Ann says of every twentieth town that she lives there
    said = [
        f"I live in Town{n} now" if n % 20 == 0 else f"part {n}: " + "boiler pipes leak " * 20
        for n in range(80)
    ]
    renewed: list[int] = []

    def answer(prompt: Prompt) -> Completion:
        towns = re.findall(r"^\[(\d+)\] .* Ann: I live in (Town\d+) now$", prompt.turns[0], re.M)
        return facts(
            *(
                PORTO | {"content": f"Ann lives in {town}.", "value": town, "messages": [int(number)]}
                for number, town in towns
            )
        )

    model = ScriptedModel(answer)
    source = Source(tenant_id=TENANT, before_call=lambda: renewed.append(1))
    found = extract(
        database,
        model,
        talk(*(("Ann", "user", content) for content in said)),
        4000,
        known=[LISBON] * 50,
        source=source,
    )
    # Then it was asked about every message once, and of her homes the last one is left
    told = [prompt.turns[0] for prompt in model.prompts]
    assert len(told) > 4
    for content in said:
        assert sum(f"Ann: {content[:20].strip()}" in data for data in told) == 1
    assert all(len(data) < 4000 * 4 for data in told)
    # with the lease renewed before each call
    assert len(renewed) == len(told)
    assert [(fact.content, fact.message_ids) for fact in found] == [("Ann lives in Town60.", (60,))]


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


def test_answers_that_could_not_be_used_are_asked_for_anew_once_they_are_forgotten(
    database: Database, claiming: Callable[[], Claim]
) -> None:
    # Given a job whose answers are of no use: while they are kept, another try gets the same ones
    prose = Completion(text="prose"), Completion(text="prose again")
    model = ScriptedModel(*prose, facts(PORTO, CELLO, NUTS))
    extractor = LanguageModelExtractor(Gateway(database, model), timeout_seconds=3, context_tokens=16_000)
    source = replace(SOURCE, claim=claiming())
    for _ in range(2):
        with pytest.raises(InvalidAnswer):
            extractor.extract(talk(), people=PEOPLE, source=source)
    assert model.calls == 2
    # When they are forgotten with what was saved in their place
    with database.tenant(TENANT) as connection:
        extractor.forget_answers(connection, source)
    # Then the model is asked again
    source = replace(source, claim=claiming())
    assert len(extractor.extract(talk(), people=PEOPLE, source=source)) == 3
    assert model.calls == 3
