"""What was said to the bot does not stand before what answers, and memories are shown where they belong."""

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs.runner import Policy
from pipeline.memories.statements import remember
from pipeline.recall.search_modes import search
from pipeline.store.connections.database import Database
from schemas.memory.memories import MemoryIn
from schemas.messages import MessageIn
from schemas.search import SearchQuery
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.recall.found import lines
from tests.recall.test_context import CHAT, DAY, ask, do_all


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
        return sorted(text.partition("] ")[2] for text in lines(found, "memories"))

    assert shown("Where is the office?") == ["Our office is in Porto", "Speaks like a pirate"]
    assert shown("who broke the boiler?") == ["Speaks like a pirate"]
    assert shown("what should I drink?") == ["Prefers tea", "Speaks like a pirate"]
