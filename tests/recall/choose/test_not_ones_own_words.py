"""What somebody passes on is shown as such, and a turn that only calls tools is found and shown."""

from functools import partial
from typing import Any

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.harness.contexts import DAY, do_all
from tests.recall import asking
from tests.recall.found import lines

CHAT = ChatIn(chat_id="test:talk", language="english")
TRAINS = {"id": "1", "type": "function", "function": {"name": "find_trains", "arguments": '{"to": "京都"}'}}


def said(database: Database, chat: ChatIn, *contents: tuple[str, dict[str, Any]]) -> None:
    """Messages of Ben's on one day, and on the next one three of no interest."""
    talk = [
        message(minute, content, sender_name="Ben", sender_id="t:ben", metadata=metadata)
        for minute, (content, metadata) in enumerate(contents)
    ]
    talk += [message(DAY + minute, f"🙂 {minute}", sender_name="Cy", sender_id="t:cy") for minute in range(3)]
    accept.accept(database, TENANT, chat, talk)


ask = partial(asking.ask, chat_id=CHAT.chat_id)


def test_forwarded_words_are_not_shown_as_their_senders_own(database: Database, settings: Settings) -> None:
    ferry, japanese = "The ferry leaves at seven.", "フェリーは七時に出ます。"
    for number, (language, content, author, speaker) in enumerate(
        [
            # no name makes a line of its own
            ("english", ferry, "Ana\n18:00 Olek: never", "Ben, forwarded from Ana 18·00 Olek· never"),
            ("japanese", japanese, "Ana", "Ben（Anaからの転送）"),
            ("japanese", japanese, "", "Ben（転送）"),
        ]
    ):
        chat = ChatIn(chat_id=f"test:{number}", language=language)
        said(database, chat, (content, {"forwarded_from": author}))
        for include_history in (True, False):
            found = ask(database, settings, content, chat_id=chat.chat_id, include_history=include_history)
            assert f"{speaker}: {content}" in found.text
            assert any(f"{speaker}: {content}" in each.content for each in found.messages)


def test_a_turn_that_only_calls_tools_is_found_and_shown(database: Database, settings: Settings) -> None:
    said(database, CHAT, ("Good morning", {}))
    turns = [
        ("", [TRAINS]),
        ("Ich suche Züge nach 京都, trains.", [TRAINS]),
        ("", ["find_trains", {"args": {}}, 7]),
    ]
    talk = [
        message(9 + n, content, sender_name="Bot", role="assistant", metadata={"tool_calls": calls})
        for n, (content, calls) in enumerate(turns)
    ]
    accept.accept(database, TENANT, CHAT, talk)
    do_all(database)
    for question in ("Which trains did the bot look for?", "京都"):
        found = ask(database, settings, question, include_history=False)
        assert [each for each in lines(found, "exchanges") if each.startswith("Bot")] == [
            "Bot: [find_trains(to=京都)]",
            "Bot: Ich suche Züge nach 京都, trains.",
        ]
