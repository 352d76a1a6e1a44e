"""A bot learns with each context how surely it answers, and why."""

import pytest

from pipeline.ingest import accept
from pipeline.memories.statements import remember
from pipeline.recall import query_log, relevance
from pipeline.recall.choose.lines import wording_of
from pipeline.recall.relevance import SAID, By, Evidence, fitted
from pipeline.store.connections.database import Database
from schemas.evidence import EvidenceLevel
from schemas.memory.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import TENANT, Templates, message
from tests.recall.asking import ask
from tests.test_pipeline import embed_all, place

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


@pytest.mark.parametrize(
    ("messages", "told", "expected"),
    [
        ("none", 0.1, ("none", 0.2)),
        ("none", 0.6, ("weak", 0.6)),
        ("weak", 0.99, ("strong", 0.99)),
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
