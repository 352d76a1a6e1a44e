"""Quoted phrases, identifiers and numbers are found as they stand, in small chats and in large ones."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest import accept
from pipeline.recall.find import arms
from pipeline.recall.question import parse
from pipeline.recall.question.parse import Question
from pipeline.store.connections.database import Database
from pipeline.text import exact_match
from pipeline.text.exact_match import Verbatim
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.conftest import TENANT, message
from tests.harness.pipeline import place
from tests.recall.asking import ask

NOW = datetime(2026, 4, 15, tzinfo=UTC)
CHAT = ChatIn(chat_id="test:desk", kind="group", title="Support")


def read(text: str) -> Question:
    return parse.read(text, ["Ann Lee", "Bob"], datetime(2025, 5, 1, tzinfo=UTC), NOW, "english")


def pieces(text: str) -> list[str]:
    return [piece.text for piece in read(text).exact]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ('who said "see you  in Bari"?', ["see you in Bari"]),
        ("what is ERR_42 and PROJ-128?", ["ERR_42", "PROJ-128"]),
        ("was v1.2.3 fixed by 4.10.0-rc1?", ["v1.2.3", "4.10.0-rc1"]),
        ("who sent https://example.org/a?b=c&d=1 (twice)?", ["https://example.org/a?b=c&d=1"]),
        ("what did @marta_92 tag #offsite-2026 with?", ["@marta_92", "#offsite-2026"]),
        ("whose number is +351 912 345 678?", ["+351 912 345 678"]),
        ("what changed in v3 of the parser since v2.9?", ["v2.9"]),
    ],
)
def test_what_must_be_found_as_it_stands_is_taken_from_the_question(asked: str, expected: list[str]) -> None:
    assert pieces(asked) == expected
    assert all(piece.is_in(asked) for piece in read(asked).exact)


@pytest.mark.parametrize(
    "asked",
    [
        "what happened on 2026-03-05 and in March 2026?",
        'what does "Ann" like, and @bob?',
        'what is the " for? And a 5" pipe or "" or "!"?',
    ],
)
def test_names_dates_and_small_numbers_are_left_to_the_words(asked: str) -> None:
    assert pieces(asked) == []


@pytest.mark.parametrize(
    ("piece", "message", "held"),
    [
        (Verbatim("see you in Bari", "phrase"), "well, See you\n in BARI!", True),
        (Verbatim("it's done", "phrase"), "it’s done", True),
        (Verbatim("東京", "phrase"), "東京都に行く", True),
        (Verbatim("PROJ-12", "identifier"), "see PROJ-128", False),
        (Verbatim("main.py", "identifier"), "src/main.py:12", True),
        (Verbatim("+351 912 345 678", "number"), "call +351912345678", True),
        (Verbatim("1250", "number"), "1,250 euros", True),
        (Verbatim("125", "number"), "1250 or 125.5", False),
        (Verbatim("1.250", "number"), "1.250.000 euros", False),
    ],
)
def test_a_message_holds_a_piece_whole_or_not_at_all(piece: Verbatim, message: str, held: bool) -> None:
    assert piece.is_in(message) is held


COMPONENTS = st.lists(st.integers(0, 30), min_size=2, max_size=4)
VERSION = st.sampled_from(["", "v", "V"])


@given(COMPONENTS, COMPONENTS, st.integers(0, 30), VERSION, VERSION)
def test_numbers_joined_by_points_are_found_at_the_beginning_of_longer_ones(
    asked: list[int], more: list[int], other: int, asked_as: str, said_as: str
) -> None:
    text = ".".join(map(str, asked))
    wanted = [Verbatim(asked_as + text, "identifier")]
    wanted += [Verbatim(text, "number")] if len(asked) == 2 and not asked_as else []
    last = [*asked[:-1], asked[-1] * 10 + other % 10]
    for said in (asked, [*asked, *more], more, [other, *asked], [other, *more], last):
        message = f"the fix is in {said_as}{'.'.join(map(str, said))}."
        assert {piece.is_in(message) for piece in wanted} == {said[: len(asked)] == asked}


@given(st.text(max_size=300))
def test_any_text_is_read_and_nothing_of_it_is_lost(text: str) -> None:
    found, marked, whole = exact_match.take_out(text, set())
    assert len(found) <= exact_match.MAX_PIECES
    unmarked = text.translate(dict.fromkeys(range(57344, 57344 + exact_match.MAX_PIECES + 1), " "))
    assert exact_match.put_back(marked, whole) == unmarked
    for piece in read(text).exact:
        assert piece.parts


TALK = [
    "to be or not to be, that is it",
    "the copper kettle whistles",
    "a kettle, and a copper pan too: copper is what I like, kettle or no kettle",
    "the log says ERR_42 again",
    "err, I had 42 of them, err 42",
    "deployed src/billing/main.py this morning",
    "call me at +351912345678",
    "main thing: py is a billing snake, src of joy",
    "we are on v1.2.3 now",
    "v1.2.3.4 is a beta, v1.2 is old",
]


QUESTIONS = [
    ('who said "Copper  Kettle"?', "d1"),
    ('who said "to be or not to be"?', "d0"),
    ("where was ERR_42?", "d3"),
    ("what about main.py?", "d5"),
    ("whose is 912 345 678?", "d6"),
    ("when did v1.2.3 come?", "d8"),
]


def test_what_holds_it_comes_first_and_says_why(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given fifty messages with the same words in another order, and arms that find two, as in a large chat
    noise = ["kettle copper err 42 v1 main billing py not to be"] * 50
    said = [message(60 * number, content, id=f"d{number}") for number, content in enumerate(TALK + noise)]
    accept.accept(database, TENANT, CHAT, said)
    place(database)
    monkeypatch.setattr(arms, "LIMITS", {0: arms.LIMITS[0]._replace(best=2)})
    given = {"embedder": None, "chat_id": CHAT.chat_id, "explain": True, "include_history": False}
    for text, expected in QUESTIONS:
        best = ask(database, settings, text, **given).explain.messages[0]
        assert best.external_id == expected, text
        assert best.components.get("phrase") or best.components.get("exact"), text


def test_a_release_is_found_by_its_beginning_among_others_that_are_dates(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given more dates that are written alike than an arm finds, and other releases
    talk = ["the fix is in 2.4.0", "the fix is in 12.4.0", "a fix for 2.40"]
    dates = [f"the key of {name} was revoked on 2.4" for name in "Ann Ben Cy Dora Eve Finn Gil".split()] * 4
    said = [message(60 * number, content, id=f"r{number}") for number, content in enumerate(talk + dates)]
    accept.accept(database, TENANT, CHAT, said)
    place(database)
    monkeypatch.setattr(arms, "LIMITS", {0: arms.LIMITS[0]._replace(best=2)})
    for question in ("is it fixed in 2.4?", "is it fixed in v2.4?"):
        found = ask(database, settings, question, embedder=None, chat_id=CHAT.chat_id, explain=True)
        best, *others = found.explain.messages
        assert best.external_id == "r0"
        assert "verbatim" in best.arms
        assert best.components["exact"]
        assert not any(hit.components.get("exact") for hit in others if hit.external_id in {"r1", "r2"})


def test_a_short_name_of_a_version_does_not_bury_what_the_question_is_about(
    database: Database, settings: Settings
) -> None:
    talk = [
        "the parser reads comments as well",
        *(f"v3 of slide {number} is printed" for number in range(20)),
    ]
    said = [message(60 * number, content, id=f"s{number}") for number, content in enumerate(talk)]
    accept.accept(database, TENANT, CHAT, said)
    place(database)
    given = {"embedder": None, "chat_id": CHAT.chat_id, "explain": True}
    assert (
        ask(database, settings, "what does the parser do in v3?", **given).explain.messages[0].external_id
        == "s0"
    )
