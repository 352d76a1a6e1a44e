"""A question that names somebody also finds what is linked to them, where that is asked for and may be shown."""

from datetime import datetime, timedelta

import pytest

from pipeline.context import build_context
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.memories.statements import remember
from pipeline.store.database import Database
from schemas.context import Context, Hit
from schemas.facts import KnownFact
from schemas.memories import MemoryIn
from schemas.messages import ChatIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings
from tests.conftest import EPOCH, MIGRATED, POLICY, TENANT, Templates
from tests.context.test_context import do_all
from tests.memories.test_entity_graph import DIRECT, GROUP, note, says

DAY = 24 * 60
QUESTION = "What should Lena know?"
STRIKE = "The trains of Porto stand still until Sunday."
WEDDING = "Between us, the wedding will be in Vienna."


def fill(database: Database) -> None:
    """Lena is mentioned with Porto in a group, and with Vienna in private; either is spoken of again without her."""
    for chat, (together, later) in {
        GROUP: ("I am sure that Lena loves Porto.", STRIKE),
        DIRECT: ("I am sure that Lena loves Vienna.", WEDDING),
    }.items():
        said = [together, "Really?", "Yes, really.", "Good to hear."]
        again = [later, "Oh dear.", "What a pity.", "So it goes."]
        everything = [(n, text) for n, text in enumerate(said)] + [
            (2 * DAY + n, text) for n, text in enumerate(again)
        ]
        people = ["Bob", "Ann"] if chat is GROUP else ["Ann"]
        accept.accept(
            database,
            TENANT,
            ChatIn(chat_id=chat.chat_id, title=chat.title, kind=chat.kind),
            [says(people[n % len(people)], n, text) for n, text in everything],
        )
    do_all(database, SessionPolicy.of(Settings(_env_file=None, summarize_debounce_seconds=0)), POLICY)
    note(database)


@pytest.fixture
def template(request: pytest.FixtureRequest, templates: Templates) -> str:
    return templates("linked", fill) if "talked" in request.fixturenames else MIGRATED


@pytest.fixture
def talked(database: Database) -> Database:
    """This test's database, in which everything of `fill` is in memory."""
    return database


def asked(
    database: Database,
    settings: Settings,
    hops: int = 1,
    chat: ChatIn = GROUP,
    as_of: datetime | None = None,
) -> Context:
    query = ContextQuery(
        chat_id=chat.chat_id,
        user_id="test:ann",
        query=QUESTION,
        explain=True,
        include_history=False,
        as_of=as_of,
        parameters={"entity_hops": hops},
    )
    return build_context(database, TENANT, query, embedder=None, settings=settings)


def hit(context: Context, text: str) -> Hit | None:
    assert context.explain is not None
    return next((each for each in context.explain.messages if each.preview == text), None)


def test_what_is_linked_to_a_named_person_is_found_and_says_how(talked: Database, settings: Settings) -> None:
    context = asked(talked, settings)
    found = hit(context, STRIKE)
    assert found is not None
    assert found.components["linked"] == pytest.approx(0.3)
    line = next(item for block in context.blocks for item in block.items if item.id == found.id)
    assert line.reason.endswith("linked to Lena by ‹Porto›")


def test_without_a_hop_nothing_is_linked(talked: Database, settings: Settings) -> None:
    found = hit(asked(talked, settings, hops=0), STRIKE)
    assert found is None or found.components["linked"] == 0


def test_what_was_known_is_told_without_what_was_linked_since(talked: Database, settings: Settings) -> None:
    found = hit(asked(talked, settings, as_of=EPOCH + timedelta(days=30)), STRIKE)
    assert found is None or found.components["linked"] == 0


def test_no_private_relation_leads_anywhere_in_the_group(
    talked: Database, settings: Settings, rules: SessionPolicy
) -> None:
    # Given Vienna, which is linked to Lena in private only, is spoken of in the group as well
    accept.accept(talked, TENANT, GROUP, [says("Bob", 4 * DAY, "We all know that Vienna is cold in March.")])
    do_all(talked, rules, POLICY)
    note(talked)
    found = hit(asked(talked, settings), "We all know that Vienna is cold in March.")
    assert found is not None
    assert found.components["linked"] == 0
    # and where it was said, it leads on
    there = hit(asked(talked, settings, chat=DIRECT), WEDDING)
    assert there is not None
    assert there.components["linked"] > 0


def test_a_memory_of_what_is_linked_is_shown_with_its_reason(talked: Database, settings: Settings) -> None:
    content = "The office in Porto closes in May."
    written = remember(
        talked, TENANT, MemoryIn(scope="organization", learned_in=GROUP.chat_id, content=content)
    )
    assert written.id is not None
    note(
        talked,
        [KnownFact(id=written.id, content=content, subject="office", attribute="", value="", said_at=EPOCH)],
    )
    shown = [item for block in asked(talked, settings).blocks for item in block.items if content in item.text]
    assert [item.reason for item in shown] == ["fact of the organization; linked to Lena by ‹Porto›"]
    without = asked(talked, settings, hops=0)
    assert not any(content in block.text for block in without.blocks)
