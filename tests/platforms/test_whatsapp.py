"""A WhatsApp export comes in as it was said, whatever phone and country it is from."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.platforms.records import ImportOptions
from pipeline.platforms.whatsapp import whatsapp_export as whatsapp
from tests.platforms.reading import FIXTURES, Read, of_each_kind, read_path, require, sort

HARBOUR = "whatsapp/WhatsApp Chat with Harbour House.txt"


def read(text: str, **options: str) -> Read:
    options = {"title": "House", "time_zone": "UTC"} | options
    return sort(whatsapp.parse(text.splitlines(), ImportOptions(**options)))  # type: ignore[arg-type]


@of_each_kind("whatsapp")
def test_what_becomes_of_a_message_depends_on_its_kind(example: dict[str, Any]) -> None:
    require(example, read(example["message"]))


def test_an_android_export_is_read_whole() -> None:
    house = read_path(HARBOUR)
    assert house.contents == [
        "Shopping for tonight:\n- bread\n- olives\n\nand the good cheese: 200 g",
        "ok",
        "ok",
        "[media]",
        "[image] The roof, before the storm",
        "[document Lease 2024.pdf]",
        "Meet at 11:30 then",
        "Happy new year! 🎉",
    ]
    assert not house.broken
    # times without a zone are read as UTC, and that is said
    assert "--tz" in house.notices[0]
    assert (house.chats[0].chat_id, house.chats[-1].kind) == ("whatsapp:Harbour House", "group")
    assert house.messages[0].sender_id == "whatsapp:Ana Lima@Harbour House"
    # a number without a contact is the platform's own id
    stranger = house.messages[3]
    assert (stranger.sender_id, stranger.sender_name) == ("whatsapp:351912345678", "+351 912 345 678")
    assert house.messages[4].metadata == {"media": [{"kind": "image", "name": "IMG-20231231-WA0001.jpg"}]}
    assert [record.where for record in house.records[:3]] == ["line 4", "line 9", "line 10"]


@pytest.mark.parametrize(
    ("said", "hour"),
    [
        ("12/31/23, 12:05 AM", 0),
        ("12/31/23, 12:05 PM", 12),
        ("2024/3/26 中午12:30", 12),
        ("2024/3/26 半夜12:30", 0),
        ("2024. 3. 26. 밤 10:30", 22),
    ],
)
def test_a_twelve_hour_clock_may_name_more_than_two_parts_of_the_day(said: str, hour: int) -> None:
    chat = read(f"{said} - 阿明: 你好")
    assert [message.sent_at.hour for message in chat.messages] == [hour]


@pytest.mark.parametrize(
    ("starts", "days"),
    [
        # one day in every reading
        (["03/03/2024, 10:00 -"], ["2024-03-03"]),
        # twelve hours and a number without a zero in front are month first
        (["[3/12/24, 6:02:01\u202fPM]"], ["2024-03-12"]),
        # dots are day first
        (["12.03.24, 18:02 -"], ["2024-03-12"]),
        # time runs forward in one reading alone
        (["11/01/24, 10:00 -", "01/02/24, 10:00 -"], ["2024-01-11", "2024-02-01"]),
        # a year of two figures may come first, or be one of the Thai calendar
        (["24. 3. 6. 오전 9:30 -", "24. 12. 30. 오후 9:30 -"], ["2024-03-06", "2024-12-30"]),
        (
            ["24. 3. 10. 9:30 -", "24. 4. 6. 9:30 -", "24. 12. 30. 21:30 -"],
            ["2024-03-10", "2024-04-06", "2024-12-30"],
        ),
        (["6/3/67 05:30 -", "16/3/67 05:30 -"], ["2024-03-06", "2024-03-16"]),
        # two readings are possible
        (["3/12/24, 18:02 -"], []),
    ],
)
def test_days_are_those_that_were_meant_or_are_asked_for(starts: list[str], days: list[str]) -> None:
    chat = read("\n".join(f"{start} Ana: hi" for start in starts))
    assert [str(message.sent_at.date()) for message in chat.messages] == days
    assert bool(chat.ambiguous) == (not days)
    if chat.ambiguous:
        assert chat.ambiguous[0].examples == (("3/12/24", date(2024, 12, 3), date(2024, 3, 12)),)
        assert not chat.chats


def test_the_zone_of_a_stored_chat_is_its_clock_unless_another_is_said() -> None:
    line = "13/01/24, 10:00 - Ana: hi"

    def hour(**options: Any) -> int:
        given = ImportOptions(title="House", **options)
        return sort(whatsapp.parse([line], given)).messages[0].sent_at.hour

    assert hour(stored_zone={"whatsapp:House": "Europe/Berlin"}.get) == 9
    assert hour(stored_zone={"whatsapp:House": "Europe/Berlin"}.get, time_zone="Asia/Tokyo") == 1
    assert hour(stored_zone={"whatsapp:House": "UTC"}.get) == 10


def test_the_hour_that_autumn_repeats_does_not_run_backwards() -> None:
    lines = (
        "[27/10/2024, 02:50:00] A: summer\n[27/10/2024, 02:10:00] A: winter\n[27/10/2024, 03:00:00] A: later"
    )
    chat = read(lines, time_zone="Europe/Berlin")
    assert [(m.sent_at.hour, m.sent_at.minute) for m in chat.messages] == [(0, 50), (1, 10), (2, 0)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("99/99/24, 10:00 - Ana: b", "99/99/24"),
        (b"13/01/24, 10:00 - Ana: caf\xe9".decode("utf-8", "surrogateescape"), "0xE9"),
    ],
    ids=["an impossible date", "no UTF-8"],
)
def test_what_is_wrong_breaks_one_message_alone(line: str, reason: str) -> None:
    chat = read(f"13/01/24, 09:00 - Ana: a\n{line}\n14/01/24, 10:00 - Ana: c")
    assert chat.contents == ["a", "c"]
    assert chat.broken[0].where == "line 2"
    assert reason in chat.broken[0].reason


def test_a_caption_before_a_picture_is_one_message_with_and_without_the_media() -> None:
    start = "[13/01/24, 10:00:00] Ana: the new boiler \u200e"
    without, attached = read(f"{start}image omitted"), read(f"{start}<attached: 00000012-PHOTO-2024.jpg>")
    assert without.contents == attached.contents == ["[image] the new boiler"]
    assert without.ids == attached.ids
    typed = "why is there an image omitted"
    assert read(f"[13/01/24, 10:00:00] Ana: {typed}").contents == [typed]


@pytest.mark.parametrize(
    ("line", "sender", "content"),
    [
        ("~\u202fМаша 🌻:🚤", "Маша 🌻", "🚤"),
        ("+47 21 55 66 77:hei", "+47 21 55 66 77", "hei"),
        ("Ana:Work: from a contact with a colon", "Ana:Work", "from a contact with a colon"),
    ],
)
def test_a_colon_without_a_space_ends_a_name_too(line: str, sender: str, content: str) -> None:
    chat = read(
        "\n".join("31/01/26, 21:41 - " + each for each in ("Øyvind: hei", "Øyvind: ja", "Ana:Work: a", line))
    )
    assert (chat.messages[-1].sender_name, chat.messages[-1].content) == (sender, content)
    assert not chat.skipped


@pytest.mark.parametrize(
    "number",
    [
        "\u202a+44 (20) 7946\u20110958\u202c",
        "\u200e~\u202f+44\u2009207946\u2010\u200e0958",
        "+٤٤ ٢٠ ٧٩٤٦ ٠٩٥٨",
    ],
)
def test_a_number_is_one_whatever_stands_between_its_figures(number: str) -> None:
    chat = read(f"[31/01/26, 21:41:07] {number}: 好的")
    assert chat.messages[0].sender_id == "whatsapp:442079460958"


def test_what_an_iphone_group_says_itself_is_nobodys_with_and_without_marks() -> None:
    for mark in ("\u200e", ""):
        chat = read(
            f"[31/01/26, 21:41:00] Βάρκα: {mark}Τα μηνύματα και οι κλήσεις κρυπτογραφούνται πλήρως.\n"
            f"[31/01/26, 21:41:01] Eva: {mark}Eva created this group\n"
            f"[31/01/26, 21:41:02] Βάρκα: {mark}Η Eva σάς πρόσθεσε\n"
            "[31/01/26, 21:42:00] Eva: Eva created a cake, come\n"
            f"[31/01/26, 21:43:00] Jo: {mark}You turned on disappearing messages.\n"
            f"[31/01/26, 21:44:00] Jo: {mark}Your security code with Eva changed. Tap to learn more.\n"
            "[31/01/26, 21:45:00] Jo: komme ⛵\n"
            "[31/01/26, 21:46:00] Li: 好",
            title="Βάρκα",
        )
        assert chat.contents == ["Eva created a cake, come", "komme ⛵", "好"]
        assert [skipped.reason for skipped in chat.skipped] == ["system line"] * 5
        assert chat.chats[-1].kind == "group"


def read_file(name: str, *speakers: str, **options: Any) -> Read:
    lines = [f"13/01/24, 10:00 - {speaker}: ок" for speaker in speakers]
    given = ImportOptions(file_name=name, time_zone="UTC", **options)
    return sort(whatsapp.parse(lines, given))


@pytest.mark.parametrize(
    ("name", "title", "kind"),
    [
        # Georgian and words of no language: nobody has listed their forms
        ("ნინო — WhatsApp საუბარი.zip", "ნინო", "direct"),
        ("Blorb WhatsApp Bootsverein.txt", "Blorb WhatsApp Bootsverein", None),
    ],
)
def test_a_files_name_in_an_unknown_form_names_a_speaker_or_is_kept_and_that_is_said(
    name: str, title: str, kind: str | None
) -> None:
    chat = read_file(name, "Ane Ortizekin" if kind is None else title, "Бен")
    assert (chat.chats[-1].title, chat.chats[-1].kind) == (title, kind)
    assert len(chat.notices) == 1
    assert repr(title) in chat.notices[0]
    assert "--title" in chat.notices[0]
    assert "--kind" in chat.notices[0]
    assert not read_file(name, title, "Бен", title="Лодка", kind="group").notices


def test_a_group_is_not_taken_for_one_of_its_people() -> None:
    chat = read_file("Blorb WhatsApp Fest für Ane.txt", "Ane", "Бен", "Jo")
    assert (chat.chats[-1].title, chat.chats[-1].kind) == ("Blorb WhatsApp Fest für Ane", "group")


@dataclass(frozen=True)
class Phone:
    """How a phone of one language writes the export of the chat with `Zoë`."""

    file: str
    android: str
    iphone: str
    encrypted: str
    media: str
    image: str
    deleted: str
    attached: str
    # None: not known for this language
    edited: str | None = None


# The fields of a `Phone` by its language. Phrases and forms are those that other projects' tables and the exports in
# their issues show, none made up here.
TABLE = (FIXTURES / "whatsapp/phones.txt").read_text("utf-8")


def phones() -> Iterator[tuple[str, Phone]]:
    for entry in re.split(r"\n(?=\S)", TABLE.strip()):
        language, file, android, iphone, *phrases = re.split(r" \| |\n  ", entry)
        yield language, Phone(file, f"{android} - ", f"{iphone} ", *phrases)


PHONES = dict(phones())
SENT = datetime(2026, 1, 31, 20, 41, tzinfo=UTC)
of_every_phone = pytest.mark.parametrize("phone", PHONES.values(), ids=PHONES)


def export(folder: Path, file: str, *lines: str) -> Read:
    path = folder / file
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_path(path, time_zone="Europe/Berlin")


def counts(read: Read) -> Counter[str]:
    return Counter(skipped.reason for skipped in read.skipped)


@of_every_phone
def test_an_android_phone_of_any_language_tells_the_same_chat(tmp_path: Path, phone: Phone) -> None:
    # a Mac takes accents apart when it writes a file's name
    chat = export(
        tmp_path,
        f"{unicodedata.normalize('NFD', phone.file)}.txt",
        f"{phone.android}{phone.encrypted}",
        f"{phone.android}Zoë: Fähre 8:30, паром, 渡輪 ⛴",
        f"{phone.android}Łukasz: <{phone.media}>",
        f"{phone.android}Łukasz: IMG-20260131-WA0003.jpg ({phone.attached})",
        f"{phone.android}Zoë: {phone.deleted}",
        f"{phone.android}Łukasz: ок <{phone.edited}>" if phone.edited else f"{phone.android}Łukasz: ок",
    )
    assert chat.contents[0] == "Fähre 8:30, паром, 渡輪 ⛴"
    assert chat.contents[1].startswith("[")
    assert chat.contents[2:] == ["[image]", "ок"]
    assert counts(chat) == {"system line": 1, "deleted message": 1}
    assert [message.sender_name for message in chat.messages] == ["Zoë", "Łukasz", "Łukasz", "Łukasz"]
    assert {message.sent_at for message in chat.messages} == {SENT}
    assert chat.messages[-1].metadata.get("edited", False) is (phone.edited is not None)
    assert (chat.chats[-1].title, chat.chats[-1].kind) == ("Zoë", "direct")
    assert not chat.broken + chat.notices  # type: ignore[operator]


@pytest.mark.parametrize("mark", ["\u200e", ""], ids=["marked", "unmarked"])
@of_every_phone
def test_an_iphone_of_any_language_tells_the_same_chat(tmp_path: Path, phone: Phone, mark: str) -> None:
    chat = export(
        tmp_path,
        "WhatsApp Chat - Zoë.txt",
        f"{phone.iphone}Zoë: {mark}{phone.encrypted}",
        f"{phone.iphone}Zoë: Fähre 8:30, паром, 渡輪 ⛴",
        f"{mark}{phone.iphone}Łukasz: {mark}{phone.image}",
        f"{phone.iphone}Zoë: {mark}{phone.deleted}",
        f"{phone.iphone}Łukasz: ок \u200e<{phone.edited or 'in words that nobody listed'}>",
    )
    assert chat.contents[0] == "Fähre 8:30, паром, 渡輪 ⛴"
    assert chat.contents[1] in {"[image]", "[video]"}
    assert chat.contents[2:] == ["ок"]
    assert counts(chat) == {"system line": 1, "deleted message": 1}
    assert {message.sent_at for message in chat.messages} == {SENT + timedelta(seconds=7)}
    assert chat.messages[-1].metadata == {"edited": True}
    assert (chat.chats[-1].title, chat.chats[-1].kind) == ("Zoë", "direct")
