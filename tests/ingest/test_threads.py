"""Threads, replies and one second's order: what becomes of a forum's talk, and how its lines name each other."""

from collections.abc import Sequence
from functools import partial

from pipeline.erasure import edits
from pipeline.ingest import accept as ingest
from pipeline.recall import query_log
from pipeline.store.connections.database import Database
from pipeline.store.messages import message_rows as store
from schemas.context import Context
from schemas.messages import ChatIn, MessageIn
from schemas.settings import Settings
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.pipeline import rows, work
from tests.recall import asking

CHAT = ChatIn(chat_id="test:1")


def accept(database: Database, *said: MessageIn) -> None:
    ingest.accept(database, TENANT, CHAT, said)


ask = partial(asking.ask, chat_id=CHAT.chat_id)


def block(found: Context, kind: str) -> str:
    return next((block.text for block in found.blocks if block.kind == kind), "")


def order(database: Database) -> list[str]:
    """The chat's messages as they follow each other, by their ids; recent talk has them the other way round."""
    with database.tenant(TENANT) as connection:
        return [m.external_id for m in reversed(store.recent(connection, CHAT.chat_id, 100))]


def test_neighbours_and_recent_talk_are_of_the_same_thread(database: Database, settings: Settings) -> None:
    topics: Sequence[tuple[str, str]] = [
        ("7", "the rack stands in the cellar"),
        ("8", "football is at eight"),
        ("7", "its key hangs at the door"),
        ("8", "who brings the ball?"),
    ]
    accept(
        database, *(message(n, said, id=str(n + 1), thread=topic) for n, (topic, said) in enumerate(topics))
    )
    work(database)
    found = ask(
        database, settings, "the rack?", include_history=False, parameters={"messages": 1, "neighbours": 1}
    )
    assert "its key hangs at the door" in block(found, "exchanges")
    assert "football" not in block(found, "exchanges")
    here = block(ask(database, settings, "and where?", thread="8"), "history")
    assert "who brings the ball?" in here
    assert "rack" not in here


def boiler() -> list[MessageIn]:
    return [
        message(0, "does five suit you for the boiler?", id="1", sender_name="Ana", sender_id="test:ana"),
        message(1, "I bring cake", id="2", sender_name="Cy", sender_id="test:cy"),
        message(2, "yes, that one", id="3", sender_name="Ben", sender_id="test:ben", reply_to="1"),
        message(3, "good", id="4", sender_name="Ana", sender_id="test:ana", reply_to="3"),
    ]


def test_a_line_says_what_it_answers(database: Database, settings: Settings) -> None:
    accept(database, *boiler())
    work(database)
    found = ask(database, settings, "which one is it?")
    line = "Ben, to Ana (“does five suit you for the boiler?”): yes, that one"
    assert line in block(found, "history")
    assert any(each.content.endswith(line) for each in found.messages)
    assert "Ana: good" in block(found, "history")
    best = ask(
        database, settings, "that one", include_history=False, parameters={"neighbours": 0, "messages": 1}
    )
    assert line in block(best, "exchanges")
    # whoever erases the one message finds that this context showed its words
    (answered,) = rows(database, "SELECT id FROM messages WHERE external_id = '1'")
    assert f"message:{answered[0]}" in query_log.shown_in(best)
    # and once it is deleted it is named no more
    edits.delete(database, TENANT, CHAT.chat_id, "1", SESSION_POLICY)
    replies = rows(database, "SELECT external_id, reply_to FROM messages ORDER BY external_id")
    assert replies == [("2", None), ("3", None), ("4", "3")]


def test_ids_that_are_numbers_order_the_messages_of_one_second_and_others_stay_as_they_came(
    database: Database,
) -> None:
    accept(database, message(-1, id="100"), message(-1, id="98"))
    accept(database, message(-1, id="9"))
    assert order(database) == ["9", "98", "100"]
    accept(database, *(message(0, id=id) for id in ("z", "a", "m")))  # noqa: A001
    # the same again changes nothing
    accept(database, message(0, id="m"), message(0, id="z"))
    assert order(database) == ["9", "98", "100", "z", "a", "m"]
