"""A bot learns with each context how surely it answers, and why."""

import pytest

from pipeline.ingest import accept
from pipeline.memories.statements import remember
from pipeline.recall import query_log, relevance
from pipeline.recall.choose.lines import wording_of
from pipeline.recall.relevance import SAID, By, Evidence, fitted
from pipeline.recall.request import for_context
from pipeline.store.connections.database import Database
from schemas.memories import EvidenceLevel, MemoryIn
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import TENANT, Templates, message
from tests.harness.pipeline import embed_all, place
from tests.recall.asking import ask

CHAT = "test:market"
QUESTION = "where does the xylophone stand?"
UNANSWERED = wording_of("english").unanswered
WAYS: tuple[By, ...] = ("both", "words", "meaning")


def fill(database: Database) -> None:
    """A chat that is long enough to know that it does not know."""
    told = [message(n, f"fish number {n} is sold, and so is the bread", id=f"{n}") for n in range(60)]
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT), told)
    place(database)
    embed_all(database)


@pytest.fixture
def template(templates: Templates) -> str:
    return templates("market", fill)


def test_that_nothing_answers_is_said_to_the_bot_its_model_and_the_log(
    database: Database, settings: Settings
) -> None:
    found = ask(database, settings, QUESTION, chat_id=CHAT, include_history=False)
    assert (found.evidence, UNANSWERED in found.text) == ("none", True)
    known = ask(database, settings, "is the bread sold?", chat_id=CHAT, include_history=False)
    assert known.evidence in {"strong", "weak"}
    assert known.evidence_probability > found.evidence_probability
    assert UNANSWERED not in known.text
    logged = query_log.listing(database, TENANT, CHAT, 2)
    assert [row.evidence for row in logged] == [known.evidence, "none"]


def test_what_only_a_memory_answers_is_not_denied(database: Database, settings: Settings) -> None:
    remember(database, TENANT, MemoryIn(scope="organization", content="The xylophone stands in the attic."))
    found = ask(database, settings, QUESTION, chat_id=CHAT, explain=True)
    assert "in the attic" in found.text
    assert found.evidence != "none"
    assert UNANSWERED not in found.text
    assert found.explain.evidence_reasons[0].startswith(
        "a memory or passage answers it with a probability of "
    )


@pytest.mark.parametrize("question", ["Which car do I drive?", "Which car does Olga drive?"])
def test_a_memory_of_the_right_person_is_no_answer_to_everything(
    database: Database, settings: Settings, question: str
) -> None:
    # Given one thing that is known of somebody of the chat
    said = message(99, "the bread is good", sender_id="test:olga", sender_name="Olga")
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT), [said])
    place(database)
    embed_all(database)
    remember(
        database,
        TENANT,
        MemoryIn(scope="user", user_id="test:olga", content="Olga likes oat milk.", learned_in=CHAT),
    )
    # Then a question for another is not surely answered by it, and no reason says that it is
    found = ask(database, settings, question, chat_id=CHAT, user_id="test:olga", explain=True)
    assert found.evidence != "strong"
    assert not any("memory or passage" in reason for reason in found.explain.evidence_reasons)
    # but what is known of her is not denied either
    about = ask(database, settings, "What do you know about me?", chat_id=CHAT, user_id="test:olga")
    assert "oat milk" in about.text
    assert about.evidence is None


def test_a_question_knows_whether_messages_of_its_chat_wait_for_their_place_or_their_vectors(
    database: Database, settings: Settings
) -> None:
    def waits() -> bool:
        with database.tenant(TENANT) as connection:
            query = ContextQuery(chat_id=CHAT, query=QUESTION)
            return for_context(connection, query, settings).snapshot.waits

    assert not waits()
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT), [message(98, "the marimba is next to the door")])
    assert waits()
    place(database)
    assert waits()
    embed_all(database)
    assert not waits()


def test_what_asks_for_all_is_not_judged(database: Database, settings: Settings) -> None:
    assert ask(database, settings, "What did I miss?", chat_id=CHAT).evidence is None


@pytest.mark.parametrize(
    ("messages", "told", "expected"),
    [
        ("none", 0.1, ("none", 0.2)),
        ("none", 0.612345, ("weak", 0.6123)),
        ("weak", 0.99, ("strong", 0.99)),
        ("weak", 0.5, ("weak", 0.5)),
        ("strong", 0.6, ("strong", 0.2)),
    ],
)
def test_the_surer_of_messages_and_memories_counts(
    messages: EvidenceLevel, told: float, expected: tuple[str, float]
) -> None:
    both = relevance.with_told(Evidence(level=messages, probability=0.2), told, "both")
    assert (both.level, both.probability) == expected


def test_every_signal_can_be_said_in_plain_words() -> None:
    for by in WAYS:
        weights = fitted("question", by).weights
        values = dict.fromkeys(weights, 0.4)
        said = Evidence(level="weak", probability=0.4, parts=values, signals=values).reasons()
        assert weights.keys() <= SAID.keys()
        assert len(said) == len(weights)
        assert not any("{" in reason for reason in said)
    coverage = {"coverage_together": 0.4}
    (said_of,) = Evidence(level="weak", probability=0.4, parts=coverage, signals=coverage).reasons()
    assert said_of == "the best messages hold 40 % of the question's words, by rarity"
