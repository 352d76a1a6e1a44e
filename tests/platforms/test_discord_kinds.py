"""What DiscordChatExporter writes beside plain texts is kept as text, or counted by what it is."""

from typing import Any

import pytest

from tests.platforms.test_discord import channel, read, said


def forward(**snapshot: Any) -> dict[str, Any]:
    empty = {"content": "", "attachments": [], "embeds": [], "stickers": []}
    reference = {"type": "Forward", "messageId": "1", "channelId": "701", "guildId": "600"}
    forwarded = {"timestamp": "2026-02-20T09:00:00+00:00", "timestampEdited": None} | empty | snapshot
    return said(id="2", content="", reference=reference, forwardedMessage=forwarded)


@pytest.mark.parametrize(
    ("snapshot", "text"),
    [
        ({"content": "Стоянка стоит 340 € <:yakor:17>"}, "Стоянка стоит 340 € :yakor:"),
        ({"attachments": [{"id": "1", "fileName": "契約書.pdf"}]}, "[document 契約書.pdf]"),
        ({"stickers": [{"id": "3", "name": "⛵ Ahoi"}]}, "[sticker]"),
        ({"embeds": [{"title": "مد", "description": "٠٦:١٢"}]}, "مد\n٠٦:١٢"),
        (
            {"content": "https://a.example", "embeds": [{"title": "Příliv", "description": "dlouhý"}]},
            "https://a.example\n[link Příliv]",
        ),
    ],
)
def test_a_forwarded_message_is_kept_and_says_so_and_is_answered(snapshot: dict[str, Any], text: str) -> None:
    reply = {"type": "Default", "messageId": "2", "channelId": "700"}
    found = read(channel(said(), forward(**snapshot), said(id="3", type="Reply", reference=reply)))
    assert found.contents == ["hi", text, "hi"]
    assert [message.metadata.get("forwarded_from") for message in found.messages] == [None, "", None]
    assert [message.reply_to for message in found.messages] == [None, None, "2"]
    assert (found.skipped, found.unread) == ([], [])


def result(*fields: tuple[str, str]) -> dict[str, Any]:
    return {
        "title": "",
        "description": "",
        "fields": [{"name": name, "value": value} for name, value in fields],
    }


@pytest.mark.parametrize("kind", ["46", "PollResult"])
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            [
                ("poll_question_text", "Когда выходим?"),
                ("victor_answer_votes", "4"),
                ("total_votes", "5"),
                ("victor_answer_text", "в субботу"),
            ],
            "[poll result] Когда выходим?: в субботу (4 votes)",
        ),
        ([("poll_question_text", "どこ？"), ("victor_answer_text", "港")], "[poll result] どこ？: 港"),
        ([("poll_question_text", "متى؟"), ("total_votes", "0")], "[poll result] متى؟: no winner"),
    ],
)
def test_the_result_of_a_poll_is_text(kind: str, fields: list[tuple[str, str]], text: str) -> None:
    assert read(channel(said(type=kind, content="", embeds=[result(*fields)]))).contents == [text]


def test_what_the_exporter_leaves_empty_is_counted_as_that() -> None:
    found = read(channel(said(content="", embeds=[], attachments=[]), said(id="2", content="пусто?")))
    assert found.contents == ["пусто?"]
    assert [skipped.reason for skipped in found.skipped] == ["kind that DiscordChatExporter does not export"]


@pytest.mark.parametrize(
    "kind", ["RecipientAdd", "Call", "ThreadCreated", "GuildMemberJoin", "8", "21", "24", "63"]
)
def test_discords_own_notices_are_service_messages(kind: str) -> None:
    found = read(channel(said(type=kind, content="Joined the server.")))
    assert [skipped.reason for skipped in found.skipped] == ["service message"]
    assert (found.records, found.unread) == ([], [])


@pytest.mark.parametrize(
    ("message", "kind", "texts"),
    [
        (said(type="77", content="Was ist das für eine Möwe?"), "77", ["Was ist das für eine Möwe?"]),
        (said(type="Séance", content=""), "Séance", []),
        (said(voice={"transcript": {"text": "крик чайки"}}), "voice", ["hi\n[voice] крик чайки"]),
    ],
)
def test_a_kind_that_no_table_knows_is_named_and_its_text_kept(
    message: dict[str, Any], kind: str, texts: list[str]
) -> None:
    found = read(channel(message))
    assert [(unread.platform, unread.kind, unread.known) for unread in found.unread] == [
        ("DiscordChatExporter", kind, False)
    ]
    assert (found.contents, found.skipped, found.broken) == (texts, [], [])
