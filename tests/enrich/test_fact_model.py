"""Facts are learned by a language model: a session costs one call, or one for each part, and none is in vain."""

import json
import re
from typing import Any

import pytest

from pipeline.clients.protocols import Completion, Prompt
from pipeline.enrich.facts.fact_model import LanguageModelExtractor
from pipeline.enrich.protocols import SummarySource
from pipeline.enrich.summaries.prompts import InvalidAnswer
from pipeline.llm.gateway import Gateway
from pipeline.store.connections.database import Database
from schemas.errors import ProviderUnavailable
from schemas.facts import Fact
from schemas.sessions import Message
from tests.conftest import TENANT
from tests.harness.pipeline import CHAT, rows
from tests.harness.prompts import GOOD, KNOWN, PEOPLE, message
from tests.llm.chat_models import Reply, ScriptedModel
from tests.llm.conftest import Claiming, claiming  # noqa: F401 -- a fixture

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
SOURCE = SummarySource(tenant_id=TENANT, chat_id=CHAT.chat_id)


def talk(*said: tuple[str, str, str]) -> list[Message]:
    return [
        message(n, speaker, content)._replace(sender_id=f"test:{speaker}", role=role)
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


@pytest.mark.parametrize(
    ("bad", "error", "calls"),
    [
        (Completion(text="I have noted it."), InvalidAnswer, 2),
        (ProviderUnavailable("500"), ProviderUnavailable, 1),
    ],
    ids=["prose", "500"],
)
def test_where_no_answer_can_be_used_that_is_said_and_not_taken_for_nothing_learned(
    database: Database, bad: Reply, error: type[Exception], calls: int
) -> None:
    model = ScriptedModel(bad)
    with pytest.raises(error):
        extract(database, model)
    assert model.calls == calls


def test_a_session_longer_than_the_window_is_read_in_parts(database: Database) -> None:
    # Given a long session in which Ann says of every twentieth town that she lives there
    leak = "boiler pipes leak " * 20
    said = [f"part {n}: {leak}" if n % 20 else f"I live in Town{n} now" for n in range(80)]
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
    source = SummarySource(tenant_id=TENANT, before_call=lambda: renewed.append(1))
    found = extract(database, model, talk(*(("Ann", "user", each) for each in said)), 4000, source=source)
    # Then it was asked about every message once, with the lease renewed before each call
    told = [prompt.turns[0] for prompt in model.prompts]
    assert len(renewed) == len(told) > 4
    assert all(sum(f"Ann: {content[:20].strip()}" in data for data in told) == 1 for content in said)
    # and of her homes the last one is left
    assert [(fact.content, fact.message_ids) for fact in found] == [("Ann lives in Town60.", (60,))]
