"""A question that names somebody also finds what is related to them, where that is asked for and may be shown."""

from datetime import timedelta

import pytest

from pipeline.store.connections.database import Database
from schemas.context import ContextItem
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import EPOCH, MIGRATED, Templates
from tests.harness.learning import DIRECT, GROUP, Talk
from tests.memories.told import ToldModel
from tests.recall.asking import ask

OFFICE = "The office in Porto closes in May."
ALLERGY = "Tom is allergic to nuts."
CHINESE = "里斯本的店五月关门。"
WEDDING = "The house in Vienna has no heating."


def fill(database: Database) -> None:
    """What a group knows of Lena, and what Ann has told a bot alone."""
    talk = Talk(database)
    talk.reading = ToldModel()
    for hour, (who, said) in enumerate(
        [
            ("Tom", "Hello."),
            ("Bob", "Lena lives in Porto. | Lena | home | porto"),
            ("Bob", f"{OFFICE} | we | office | porto"),
            ("Bob", "Lena and Tom are a couple. | Lena | partner | tom"),
            ("Tom", f"{ALLERGY} | Tom | allergic nuts | yes"),
            ("Bob", "王芳住在里斯本。 | 王芳 | home | 里斯本"),
            ("Bob", f"{CHINESE} | we | shop | 里斯本"),
            ("Ann", f"{WEDDING} | we | house | vienna"),
        ]
    ):
        talk.say(3 * hour, said, who=who)
    talk.say(30, "Lena will marry in Vienna. | Lena | wedding | vienna", chat=DIRECT)
    talk.learn()


@pytest.fixture
def template(request: pytest.FixtureRequest, templates: Templates) -> str:
    return templates("linked", fill) if "talked" in request.fixturenames else MIGRATED


@pytest.fixture
def talked(database: Database) -> Database:
    """This test's database, in which everything of `fill` is in memory."""
    return database


def found(
    database: Database,
    settings: Settings,
    content: str,
    *,
    question: str = "What should Lena know?",
    hops: int = 1,
    chat: ChatIn = GROUP,
    **fields: str,
) -> ContextItem | None:
    """The memory with these words in the context of a question."""
    given = {"chat_id": chat.chat_id, "user_id": "test:ann", "include_history": False} | fields
    given["parameters"] = {"entity_hops": hops, "messages": 0, "sessions": 0}
    context = ask(database, settings, question, embedder=None, **given)
    items = [item for block in context.blocks if block.kind == "memories" for item in block.items]
    return next((item for item in items if content in item.text), None)


@pytest.mark.parametrize(
    ("question", "content", "reason"),
    [
        ("What should Lena know?", OFFICE, "linked to Lena by home ‹Porto›"),
        ("what should lena cook?", ALLERGY, "linked to Lena by partner ‹Tom›"),
        ("王芳应该知道什么?", CHINESE, "linked to 王芳 by home ‹里斯本›"),
    ],
)
def test_what_is_related_to_whom_the_question_names_is_found_and_says_how(
    talked: Database, settings: Settings, question: str, content: str, reason: str
) -> None:
    # it shares no word with the question
    assert found(talked, settings, content, question=question, hops=0) is None
    item = found(talked, settings, content, question=question)
    assert item.reason.endswith(reason)


def test_nothing_leads_further_than_one_hop(talked: Database, settings: Settings) -> None:
    # from the office to Porto, to Lena; not to Tom
    assert found(talked, settings, ALLERGY, question="When does Porto sleep?") is None


def test_a_time_before_it_was_said_knows_of_no_relation(talked: Database, settings: Settings) -> None:
    assert found(talked, settings, OFFICE, as_of=(EPOCH + timedelta(hours=4)).isoformat()) is None
    assert found(talked, settings, OFFICE, as_of=(EPOCH + timedelta(days=1)).isoformat()) is not None


def test_no_private_relation_leads_anywhere_in_the_group(talked: Database, settings: Settings) -> None:
    # Given Vienna, which is related to Lena in private only, and to the group's house in the group
    assert found(talked, settings, WEDDING) is None
    # and where it was said, it leads on
    item = found(talked, settings, WEDDING, chat=DIRECT)
    assert item.reason.endswith("linked to Lena by wedding ‹Vienna›")
