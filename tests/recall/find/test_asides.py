"""What was said to the bot does not stand before what answers, and memories are shown where they belong."""

from datetime import UTC, datetime, timedelta

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.memories.statements import remember
from pipeline.recall.find import arms
from pipeline.recall.search_modes import search
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.memories import MemoryIn
from schemas.messages import ChatIn, MessageIn
from schemas.search import SearchQuery
from schemas.settings import Settings
from tests.conftest import MIGRATED, TENANT, Templates, message
from tests.recall.test_context import CHAT, DAY, ask, do_all, fill


@pytest.fixture
def template(request: pytest.FixtureRequest, templates: Templates) -> str:
    return templates("filled", fill) if "filled" in request.fixturenames else MIGRATED


@pytest.fixture
def filled(database: Database) -> Database:
    """This test's database, in which everything that `house` says is in memory."""
    return database


def said(minute: float, content: str, name: str = "Cy", role: str = "user") -> MessageIn:
    return message(
        minute, content, id=f"said-{minute}", sender_name=name, sender_id=f"test:{name}", role=role
    )


def asked_in_vain(question: str, times: int) -> list[MessageIn]:
    """A question put to the bot so many times, which never knew."""
    return [
        one
        for number in range(times)
        for one in (
            said(3 * DAY + 2 * number, f"@housebot {'please ' * number}{question}"),
            said(3 * DAY + 2 * number + 1, "I don't know.", "House Bot", "assistant"),
        )
    ]


def exchanges(found: Context) -> str:
    return "\n".join(block.text for block in found.blocks if block.kind == "exchanges")


@pytest.mark.parametrize(
    "posted",
    [
        "@tripbot how much is the boat?",
        "Bot, how much is the boat?",
        "how much is the boat @tripbot",
        "How much  is the boat",
    ],
)
def test_the_question_is_not_shown_twice_where_the_bots_mention_was_cut_off(
    filled: Database, settings: Settings, rules: SessionPolicy, policy: Policy, posted: str
) -> None:
    accept.accept(filled, TENANT, CHAT, [said(3 * DAY, posted)])
    do_all(filled, rules, policy)
    # When the bot asks without its mention
    found = ask(filled, settings, "how much is the boat?")
    # Then it is the question alone, and does not compete
    assert posted not in found.text
    assert found.explain is not None
    assert found.explain.messages[0].external_id != f"said-{3 * DAY}"


def test_what_the_bot_was_asked_in_vain_leaves_its_place_to_what_answers(
    filled: Database,
    settings: Settings,
    rules: SessionPolicy,
    policy: Policy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given more questions to the bot than there are places for candidates
    monkeypatch.setattr(arms, "LIMITS", {0: arms.LIMITS[0]._replace(best=4)})
    accept.accept(filled, TENANT, CHAT, asked_in_vain("what did the plumber from Almada cost?", 12))
    do_all(filled, rules, policy)
    # When something like them is asked
    found = ask(filled, settings, "plumber from Almada cost", include_history=False, budget_tokens=300)
    # Then what answers stands first, and they stand behind all else
    assert found.explain is not None
    ranked = [str(hit.external_id) for hit in found.explain.messages]
    assert ranked[0] in {"h1", "h2"}
    assert "240 euros" in exchanges(found)
    asides = [number for number, one in enumerate(ranked) if one.startswith("said")]
    assert asides == list(range(len(ranked) - len(asides), len(ranked)))


def test_they_are_messages_still_said_lately_and_found_by_search(
    filled: Database, settings: Settings, rules: SessionPolicy, policy: Policy
) -> None:
    accept.accept(filled, TENANT, CHAT, asked_in_vain("what did the plumber from Almada cost?", 2))
    do_all(filled, rules, policy)
    assert "@housebot what did the plumber" in ask(filled, settings, "coffee?").text
    found = search(
        filled,
        TENANT,
        SearchQuery(chat_id=CHAT.chat_id, query="what did the plumber from Almada cost?", limit=3),
        embedder=DeterministicEmbedder(),
        settings=settings,
    )
    assert found.hits[0].text.startswith("@housebot")


def test_a_question_that_the_log_has_is_known_among_the_messages(
    database: Database, settings: Settings, rules: SessionPolicy, policy: Policy
) -> None:
    # Given a question that was posted without a mention and put to the bot
    question = "what does the plumber from Almada cost?"

    now = datetime.now(UTC)
    posted = [
        MessageIn(external_id="q", sender_id="test:cy", sender_name="Cy", content=question, sent_at=now),
        MessageIn(
            external_id="a",
            sender_id="test:ann",
            sender_name="Ann",
            content="240 euros for the plumber",
            sent_at=now - timedelta(minutes=5),
        ),
    ]
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT.chat_id), posted[:1])
    ask(database, settings, question)
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT.chat_id), posted[1:])
    do_all(database, rules, policy)
    # When the same is asked in other words
    found = ask(database, settings, "cost of the plumber from Almada", include_history=False)
    # Then it stands behind what was said of it
    assert found.explain is not None
    assert [hit.external_id for hit in found.explain.messages] == ["a", "q"]


def test_a_memory_is_shown_where_it_has_to_do_with_the_question(
    filled: Database, settings: Settings, rules: SessionPolicy, policy: Policy
) -> None:
    for fields in (
        {"scope": "organization", "content": "Our office is in Porto"},
        {"scope": "user", "user_id": "u1", "content": "Prefers tea"},
        {"scope": "agent", "agent_id": "helper", "content": "Speaks like a pirate", "type": "persona"},
    ):
        remember(filled, TENANT, MemoryIn.model_validate(fields))
    do_all(filled, rules, policy)

    def shown(question: str) -> list[str]:
        found = ask(filled, settings, question, user_id="u1", agent_id="helper")
        return sorted(
            item.text.partition("] ")[2]
            for block in found.blocks
            if block.kind == "memories"
            for item in block.items
        )

    assert shown("Where is the office?") == ["Our office is in Porto", "Speaks like a pirate"]
    assert shown("who broke the boiler?") == ["Speaks like a pirate"]
    assert shown("what should I drink?") == ["Prefers tea", "Speaks like a pirate"]
