"""The part that a message has in a talk, read off its wording."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.cues import answer_types, message_cues


@pytest.mark.parametrize(
    "text",
    [
        "who has the key?",
        "how do we get to Svaneti",
        "ok so what did the plumber say",
        "is it on",
        "any news",
    ],
)
def test_a_question_is_known_with_and_without_its_mark(text: str) -> None:
    assert answer_types.asks(text, "english") == 1


@pytest.mark.parametrize(
    "text", ["What a day!", "By the small plane.", "Is it on the list, is it not.", "haha", "👍", ""]
)
def test_what_asks_nothing_is_no_question(text: str) -> None:
    assert answer_types.asks(text, "english") == 0


def test_a_long_message_that_ends_with_a_question_is_one_in_part() -> None:
    assert (
        0
        < answer_types.asks(
            "We went camping with the kids two weekends ago and unplugged. And you?", "english"
        )
        < 0.2
    )


@given(
    st.lists(
        st.sampled_from(["what is it", "By plane", " ", ".", "!", "?", "…", "\n", "[picture: a]"]), max_size=8
    )
)
def test_a_space_at_the_end_asks_no_more_and_no_less(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert answer_types.asks(text, "english") == answer_types.asks(text + " ", "english")


def test_a_line_without_a_question_does_not_end_the_question_before_it() -> None:
    assert 0 < answer_types.asks("Do you like it?\n[picture: a dog on a sofa]", "english") < 1


def test_a_question_mark_in_an_address_asks_nothing() -> None:
    assert answer_types.asks("It is on https://a.example/find?q=boiler now", "english") == 0


def test_numbers_are_known_in_figures_and_in_words() -> None:
    assert message_cues.read("912 seats", "english").has_number
    assert message_cues.read("Five attempts", "english").has_number
    assert not message_cues.read("some seats", "english").has_number


@pytest.mark.parametrize("text", ["at 18:30", "on 4.5.", "9 Apr", "in May", "since 2019", "7pm", "last week"])
def test_times_are_known_in_figures_and_in_words(text: str) -> None:
    assert message_cues.read(text, "english").has_time


@pytest.mark.parametrize("text", ["you may go", "we march on", "port 8420", "version 1.2.3.4", "10.0.0.1"])
def test_what_only_looks_like_a_time_is_none(text: str) -> None:
    assert not message_cues.read(text, "english").has_time


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    assert 0 <= answer_types.asks(text, "english") <= 1
