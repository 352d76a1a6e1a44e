"""Noise: what was asked of a bot, the question at hand among it, and answers that say nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from pipeline.recall.find.candidates import Candidate, mark_noise
from pipeline.recall.question.conversation import Questions
from pipeline.text.cues import message_cues
from pipeline.text.cues.message_cues import is_put_to_a_bot, names_of, said
from tests.recall.found import candidate
from tests.text.builders import listed

NOW = datetime(2026, 4, 1, 20, 0, tzinfo=UTC)
BOTS = {"Harbour Bot", "Jarvis"}


def talk(*lines: str) -> list[Candidate]:
    """`"Ann: hello"` lines as candidates of one session, a minute apart; what the bot says is its role's."""
    spoken = [line.partition(": ") for line in lines]
    return [
        candidate(
            number,
            text,
            speaker=speaker,
            role="assistant" if speaker in BOTS else "user",
            sent_at=NOW + timedelta(minutes=number),
            terms={"key": 1},
            cosine=0.5,
            cues=message_cues.read_cues(text, "english", of_a_bot=speaker in BOTS),
        )
        for number, (speaker, _, text) in enumerate(spoken)
    ]


def noise(found: list[Candidate]) -> list[int]:
    return [candidate.id for candidate in found if candidate.noise]


def test_the_question_at_hand_is_known_however_the_bot_was_named_and_another_is_not_taken_for_it() -> None:
    bots = names_of(["Jarvis", "Mister Jarvis"])
    same = """
        when is my flight? | @tripbot when is my flight? | hey @trip_bot, when is my flight??
        when is my flight? @tripbot | /ask when is my flight? | Jarvis, when is my flight?
        @Mister Jarvis when is my flight?
    """
    assert {said(posted, "english", bots) for posted in listed(same)} == {"when is my flight"}
    for other in ("when is your flight?", "Tom, when is my flight?", "@tripbot", "my flight?"):
        assert said(other, "english") != "when is my flight"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("@harbourbot who found the key?", True),
        ("Harbour Bot, who found the key?", True),
        ("@harbourbot boat trip is now Sunday 12 April", False),
        ("@harbourbot poll: which internet? Fibralonga / Ondaclara / Netlesta", False),
        ("@tom who found the key?", False),
    ],
)
def test_a_bot_is_asked_by_its_name_and_what_it_is_told_is_no_noise(text: str, is_one: bool) -> None:
    assert is_put_to_a_bot(text, "german+english", names_of(["Harbour Bot"])) == is_one


def test_a_text_asks_if_four_fifths_of_it_do() -> None:
    for text, asks in (("Is it X? k.", True), ("Is it X? ok.", False)):
        assert Questions.of(text, "english").asks is asks


def test_noise_means_nothing_and_lends_no_words_unless_it_was_answered() -> None:
    found = mark_noise(
        talk(
            "Davi: @harbourbot who found the key?",
            "Harbour Bot: I don't know.",
            "Davi: @harbourbot where was it?",
            "Harbour Bot: In the cello case.",
            "Olek: i have found the key",
        ),
        Questions.of("who has it?", "english"),
    )
    assert noise(found) == [0, 1, 2]
    assert [bool(one.terms) for one in found] == [False, False, True, True, True]
    assert [one.cosine for one in found] == [None, None, None, 0.5, 0.5]


def test_what_the_log_has_is_noise_if_it_was_asked_then_and_not_answered() -> None:
    lines = (
        "Davi: who found the key?",
        "Davi: lunch is ready",
        "Tom: who found the key?",
        "Jarvis: Olek has.",
    )
    logged = Questions.of("what else?", "english", [("who found the key?", NOW)])
    assert noise(mark_noise(talk(*lines), logged)) == [0]
    long_ago = Questions.of("what else?", "english", [("who found the key?", NOW - timedelta(days=1))])
    assert noise(mark_noise(talk(*lines), long_ago)) == []
    told = Questions.of("what else?", "english", [("lunch is ready", NOW)])
    assert noise(mark_noise(talk(*lines), told)) == []
