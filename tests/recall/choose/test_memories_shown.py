"""What a context shows of what was learned: about whom, since when, from where, and to nobody who may not see it."""

from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from pipeline.ingest import accept
from pipeline.memories.statements import remember
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.memories import MemoryIn
from schemas.messages import ChatIn, MessageIn
from schemas.settings import Settings
from tests.conftest import TENANT
from tests.harness.pipeline import place
from tests.memories.learned import change, day, embedded, learned
from tests.recall import asking
from tests.recall.found import lines as lines_of

HOUSE = ChatIn(chat_id="test:house", title="Harbour House", time_zone="Europe/Lisbon")
BOAT = ChatIn(chat_id="test:boat", title="The boat", time_zone="Europe/Lisbon")
ANN_ALONE = ChatIn(chat_id="test:with-ann", title="Ann and the bot", kind="direct")
BEN_ALONE = ChatIn(chat_id="test:with-ben", title="Ben and the bot", kind="direct")


def said(at: datetime, name: str, content: str, number: str) -> MessageIn:
    return MessageIn(
        external_id=number,
        sender_id=f"test:{name.lower()}",
        sender_name=f"{name} Lee",
        content=content,
        sent_at=at,
    )


@pytest.fixture
def talk(database: Database) -> Database:
    """Ann and Ben in two groups, and each with the bot alone, from March to June."""
    for chat, names in ((HOUSE, "Ann Ben"), (BOAT, "Ann Ben"), (ANN_ALONE, "Ann"), (BEN_ALONE, "Ben")):
        told = [
            said(day(month, 3), name, f"{name} says hello in month {month}", f"{month}{name}")
            for month in (3, 4, 5, 6)
            for name in names.split()
        ]
        accept.accept(database, TENANT, chat, told)
    place(database)
    return database


def ask(
    database: Database, settings: Settings, question: str, chat: ChatIn = HOUSE, **fields: Any
) -> Context:
    given = {"chat_id": chat.chat_id, "explain": True, "include_history": False} | fields
    return asking.ask(database, settings, question, **given)


def lines(found: Context) -> list[str]:
    return lines_of(found, "memories")


def statements(found: Context) -> list[str]:
    return [line.partition("] ")[2] for line in lines(found)]


def reasons(found: Context) -> dict[str, str]:
    return {each.id: each.reason for each in found.explain.dropped if each.kind == "memory"}


def about_ann(database: Database, content: str, **fields: Any) -> Any:
    given = {"user_id": "test:ann", "subject": "Ann", "learned_in": HOUSE.chat_id, "said_at": day(3, 3)}
    return learned(database, content, **(given | fields))


# Who it is about, since when, from where


def test_somebody_who_is_named_in_a_group_is_known_there_and_the_line_says_since_when_and_from_where(
    talk: Database, settings: Settings
) -> None:
    about_ann(talk, "Ann is allergic to nuts.")
    embedded(talk)
    question = "what is Ann allergic to?"
    for asker in ("test:ben", None):
        assert lines(ask(talk, settings, question, user_id=asker)) == [
            "- [Ann, since 3 March 2026] Ann is allergic to nuts."
        ]
    # in the other group, where the same people are, the line names the group that it is from
    assert lines(ask(talk, settings, question, BOAT, user_id="test:ben")) == [
        "- [Ann, since 3 March 2026, Harbour House] Ann is allergic to nuts."
    ]
    # she is asked about without her name by nobody but herself
    assert lines(ask(talk, settings, "who is allergic to nuts?", user_id="test:ben")) == []
    assert statements(ask(talk, settings, "what am I allergic to?", user_id="test:ann")) == [
        "Ann is allergic to nuts."
    ]


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("english", "What do you know about me?"),
        ("french", "Qu'est-ce que j'aime ?"),
        ("russian", "Что ты обо мне знаешь?"),
        ("polish", "Co o mnie wiesz?"),
        ("turkish", "Hakkımda ne biliyorsun?"),
        ("japanese", "私について何を知っていますか？"),
        ("chinese", "你知道我什么？"),
    ],
)
def test_whoever_asks_about_themselves_is_told_what_is_known_of_them(
    database: Database, settings: Settings, language: str, question: str
) -> None:
    alone = ANN_ALONE.model_copy(update={"language": language})
    accept.accept(database, TENANT, alone, [said(day(3, 3), "Ann", "Porridge.", "1")])
    place(database)
    remember(database, TENANT, MemoryIn(scope="user", user_id="test:ann", content="Allergic to nuts."))
    assert statements(ask(database, settings, question, alone, user_id="test:ann")) == ["Allergic to nuts."]


def test_others_are_told_only_what_was_said_in_a_chat(talk: Database, settings: Settings) -> None:
    """A note without a chat, a question with its answer and a document are the person's own."""
    remember(talk, TENANT, MemoryIn(scope="user", user_id="test:ann", content="Ann snores at night."))
    about_ann(talk, "Does Ann snore?\nAt night, yes.", type="qa_turn")
    about_ann(talk, "Ann snores, says the doctor.", type="document", document_id="d", chunk_index=0)
    embedded(talk)
    question = "does Ann snore at night?"
    for chat in (HOUSE, BEN_ALONE):
        found = ask(talk, settings, question, chat, user_id="test:ben")
        assert "snore" not in found.text.replace(question, "")
    assert "snores at night" in ask(talk, settings, "do I snore at night?", user_id="test:ann").text


def test_of_two_people_of_one_name_neither_is_told_of_the_other(talk: Database, settings: Settings) -> None:
    # Given an export of another chat, with an Ann Lee whom it knows by her name alone
    club, namesake = ChatIn(chat_id="whatsapp:Яхт-клуб", title="Яхт-клуб"), "whatsapp:Яхт-клуб/Ann Lee"
    for number, content in enumerate(("У меня аллергия на мидии 🦪", "Встретимся у причала")):
        told = said(day(3 + number, 3), "Ann", content, f"клуб-{number}")
        accept.accept(talk, TENANT, club, [told.model_copy(update={"sender_id": namesake})])
    place(talk)
    about_ann(talk, "Ann is allergic to nuts.", learned_in=ANN_ALONE.chat_id)
    about_ann(talk, "Ann is allergic to mussels.", user_id=namesake, learned_in=club.chat_id)
    embedded(talk)
    # When either asks about herself, and others ask about her by the name that both have
    nuts, mussels = "Ann is allergic to nuts.", "Ann is allergic to mussels."
    for chat, asker, question, known in (
        (ANN_ALONE, "test:ann", "what am I allergic to?", [nuts]),
        (club, namesake, "what am I allergic to?", [mussels]),
        (club, None, "what is Ann allergic to?", [mussels]),
        (HOUSE, "test:ben", "what is Ann allergic to?", []),
        (BEN_ALONE, "test:ben", "what is Ann allergic to?", []),
    ):
        found = ask(talk, settings, question, chat, user_id=asker)
        # Then only what was said of one of them, where it may be shown, is there
        assert statements(found) == known, (chat.chat_id, asker)
        assert ("мидии" in found.text) <= (chat is club)
        assert ("hello" in found.text) <= (chat is not club)


def test_a_line_says_until_when_and_is_dated_on_the_chats_clock(talk: Database, settings: Settings) -> None:
    late = datetime.fromisoformat("2026-05-02T23:30:00+00:00")
    about_ann(talk, "Ann has a cast on her arm.", said_at=late, holds_until=day(6, 9))
    about_ann(talk, "Ann rents a car.", holds_from=day(4, 7), holds_until=day(4, 7))
    about_ann(talk, "Ann moves to Faro.", holds_from=day(6, 7) + timedelta(days=36500))
    embedded(talk)
    found = lines(ask(talk, settings, "who is Ann?", user_id="test:ben"))
    assert sorted(found) == [
        "- [Ann, from 14 May 2126] Ann moves to Faro.",
        "- [Ann, on 7 April 2026] Ann rents a car.",
        # 00:30 in Lisbon
        "- [Ann, since 3 May 2026, until 9 June 2026] Ann has a cast on her arm.",
    ]


# Who may see it, and what is believed


def test_what_is_said_in_private_changes_nothing_in_the_group(talk: Database, settings: Settings) -> None:
    porto = about_ann(talk, "Ann lives in Porto.", said_at=day(3, 3))
    about_ann(talk, "Ann lives in Faro.", said_at=day(4, 3), learned_in=ANN_ALONE.chat_id, supersedes=porto)
    embedded(talk)
    question = "where does Ann live?"
    for chat in (HOUSE, BOAT):
        for asker in ("test:ann", "test:ben", None):
            found = ask(talk, settings, question, chat, user_id=asker)
            assert "Faro" not in found.model_dump_json()
            assert statements(found) == ["Ann lives in Porto."]
    assert statements(ask(talk, settings, "where do I live?", ANN_ALONE, user_id="test:ann")) == [
        "Ann lives in Faro."
    ]
    # with Ben alone the group counts, where he was, too
    assert statements(ask(talk, settings, question, BEN_ALONE, user_id="test:ben")) == ["Ann lives in Porto."]


def test_a_context_as_of_a_time_shows_what_was_believed_then(talk: Database, settings: Settings) -> None:
    porto = about_ann(talk, "Ann lives in Porto.", said_at=day(3, 3))
    faro = about_ann(talk, "Ann lives in Faro.", said_at=day(5, 3), supersedes=porto)
    about_ann(talk, "Ann lives in Braga.", said_at=day(6, 3), supersedes=faro)
    embedded(talk)
    expected = {2: [], 4: ["Ann lives in Porto."], 7: ["Ann lives in Braga."]}
    for month, believed in expected.items():
        then = {"as_of": day(month, 10).isoformat(), "include_history": True, "profile": "agent"}
        found = ask(talk, settings, "where does Ann live?", user_id="test:ben", **then)
        assert statements(found) == believed
        assert [each for each in (3, 4, 5, 6) if f"in month {each}" in found.text] == [
            each for each in (3, 4, 5, 6) if each <= month
        ]


# A memory earns its place


def test_a_memory_makes_way_for_the_message_that_says_it(talk: Database, settings: Settings) -> None:
    told = said(day(5, 5), "Ann", "by the way, no nuts for me, I am allergic", "nuts")
    accept.accept(talk, TENANT, HOUSE, [told])
    identity = about_ann(talk, "Ann is allergic to nuts.", messages=[f"{HOUSE.chat_id}/nuts"])
    embedded(talk)
    question = "is Ann allergic to nuts?"
    for history in (True, False):
        found = ask(talk, settings, question, user_id="test:ben", include_history=history)
        assert "no nuts for me" in found.text
        assert (lines(found), reasons(found)[str(identity)]) == ([], "duplicate")
    # where the message is not shown, the memory is
    for fields in ({"chat": BOAT}, {"parameters": {"messages": 0, "sessions": 0}}):
        assert statements(ask(talk, settings, question, user_id="test:ben", **fields)) == [
            "Ann is allergic to nuts."
        ]


# What decides between equals


BETTER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"confidence": 0.9}, {"confidence": 0.4}),
    ({"importance": 9.0}, {"importance": 2.0}),
    ({"holds_until": None}, {"holds_until": day(4, 1)}),
    ({"type": "fact", "created_at": day(3, 3)}, {"type": "qa_turn", "created_at": day(3, 3)}),
]


def test_confidence_importance_and_age_decide_between_equals(talk: Database, settings: Settings) -> None:
    wordings = {True: "Tea is kept in the blue box.", False: "Tea is kept in the red box."}
    # whichever was written first
    for (first, second), order in product(BETTER, ((True, False), (False, True))):
        made = {better: about_ann(talk, wordings[better], learned_in=HOUSE.chat_id) for better in order}
        for better, identity in made.items():
            change(talk, identity, **(first if better else second))
        embedded(talk)
        found = ask(talk, settings, "in which box is my tea kept?", user_id="test:ann")
        assert statements(found) == [wordings[True], wordings[False]], first
        for identity in made.values():
            change(talk, identity, expires_at=day(3, 3))
            change(talk, identity, content_hash=identity.bytes)
