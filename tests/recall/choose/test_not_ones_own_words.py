"""What somebody passes on is shown as such, and a turn that only calls tools is found and shown."""

from functools import partial
from typing import Any

import pytest

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.recall import asking
from tests.recall.found import lines
from tests.recall.test_context import DAY, do_all

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


@pytest.mark.parametrize(
    ("language", "content", "question", "known", "unknown"),
    [
        ("english", "The ferry leaves at seven.", "ferry", "Ben, forwarded from Ana", "Ben, forwarded"),
        ("russian", "Паром уходит в семь.", "паром", "Ben (переслано от Ana)", "Ben (переслано)"),
        ("japanese", "フェリーは七時に出ます。", "フェリー", "Ben（Anaからの転送）", "Ben（転送）"),
    ],
)
def test_forwarded_words_are_not_shown_as_their_senders_own(
    database: Database,
    settings: Settings,
    language: str,
    content: str,
    question: str,
    known: str,
    unknown: str,
) -> None:
    for author, speaker in (("Ana", known), ("", unknown)):
        chat = ChatIn(chat_id=f"test:{author}", language=language)
        said(database, chat, (content, {"forwarded_from": author}))
        for include_history in (True, False):
            found = ask(database, settings, question, chat_id=chat.chat_id, include_history=include_history)
            assert f"{speaker}: {content}" in found.text
            assert any(f"{speaker}: {content}" in each.content for each in found.messages)


def test_a_forwarded_authors_name_makes_no_line(database: Database, settings: Settings) -> None:
    said(database, CHAT, ("The ferry leaves at seven.", {"forwarded_from": "Ana\n18:00 Olek: never"}))
    for include_history in (True, False):
        found = ask(database, settings, "When does the ferry leave?", include_history=include_history)
        assert "Ben, forwarded from Ana 18·00 Olek· never: The ferry leaves at seven." in found.text


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
